"""What pages have of the code, the navigation, and links that lead to folders."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from reference import GENERATED
from sphinx import addnodes
from sphinx.application import Sphinx

INDEX = "docs/index"
CHILDREN = {
    "kernels/README": ["transpose", "sgemm", "hgemm", "attention", "norm", "reduce", "quantize"],
    "lab/README": ["*"],
    "docs/explanation/architecture": [
        "../../src/peakgate/compare/bisect",
        "../../src/peakgate/compare/history",
        "../../src/peakgate/fleet",
    ],
}
"""Page of a folder to the folders in it whose pages come below it in the navigation."""

UNSEARCHED = {"CHANGELOG"}
"""Pages that have every word, and seldom what a reader looks for."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", fill)
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_children)
    app.connect("source-read", leave_out_of_search)
    app.connect("doctree-read", resolve_folders)
    app.connect("autodoc-process-signature", as_written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fill(_: Sphinx, docname: str, source: list[str]) -> None:
    """Put what the code says in place of a reference page's comment ``<!-- generated: NAME -->``."""
    if docname.startswith("docs/reference/"):
        source[0] = re.sub(r"<!-- generated: (\S+) -->", lambda found: GENERATED[found[1]](), source[0])


def add_children(_: Sphinx, docname: str, source: list[str]) -> None:
    """Append the list of a folder's pages, which a reader of the checkout sees as folders."""
    if folders := CHILDREN.get(docname):
        pages = "\n".join(f"{folder}/README" for folder in folders)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{pages}\n```\n"


def add_navigation(_: Sphinx, docname: str, source: list[str]) -> None:
    """Make a part of the navigation of each section of the index, of the pages to which it links, in their order."""
    if docname != INDEX:
        return
    listed: set[str] = set()
    sections = re.split(r"^(?=## )", source[0], flags=re.MULTILINE)
    for at, section in enumerate(sections):
        caption = section.partition("\n")[0].lstrip("# ")
        linked = dict.fromkeys(re.findall(r"\]\(([^)\s]+)\.md\)", section))
        pages = "\n".join(page for page in linked if page not in listed)
        listed |= linked.keys()
        sections[at] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n\n"
    source[0] = "".join(sections)


def leave_out_of_search(_: Sphinx, docname: str, source: list[str]) -> None:
    """Mark the pages that the search is to pass over."""
    if docname in UNSEARCHED:
        source[0] = f"---\nnosearch: true\n---\n\n{source[0]}"


def resolve_folders(app: Sphinx, doctree: nodes.document) -> None:
    """Let a link to a folder lead to its page; one to a folder without a page is text, for the site has no listings."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link["reftype"] != "myst" or link.get("refdomain"):
            continue
        _, path = app.env.relfn2path(link["reftarget"], link["refdoc"])
        if not Path(path).is_dir():
            continue
        page = app.env.path2doc(str(Path(path, "README.md")))
        if page in app.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        else:
            link.replace_self(link.children)


def as_written(_: Sphinx, what: str, _name: str, value: Any, *_others: Any) -> tuple[str, str] | None:
    """The signature of a function or class with its types as the source has them, aliases by their names."""
    if what not in {"function", "class"} or value.__module__ == "builtins":
        return None
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    parameters, _, result = text.partition(" -> ")
    return parameters, "" if result == "None" else result
