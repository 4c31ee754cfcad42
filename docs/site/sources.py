"""A page for each source file that pages link to, with its code in colours: Sphinx itself would offer a download."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from pygments.lexers import find_lexer_class_for_filename
from sphinx import addnodes
from sphinx.application import Sphinx

FOLDER = "source"
NOT_CODE = {".csv", ".gz", ".json", ".ipynb", ".npz", ".svg", ".txt"}
"""Records and pictures: they stay downloads."""

CLASS = "source-file"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; before it collects downloads."""
    app.connect("doctree-read", lead_to_pages, priority=400)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def lead_to_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Let links to source files lead to their pages."""
    for link in list(doctree.findall(addnodes.download_reference)):
        path, _ = app.env.relfn2path(link["reftarget"], link["refdoc"])
        if PurePosixPath(path).suffix not in NOT_CODE:
            target = os.path.relpath(f"{FOLDER}/{path}.html", PurePosixPath(link["refdoc"]).parent)
            link.replace_self(nodes.reference("", "", *link.children, refuri=target, classes=[CLASS], source_file=path))


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages, each with links to the files before and after it in its folder: stages of a family are in order."""
    doctrees = map(app.env.get_doctree, sorted(app.env.found_docs))
    links = (link for tree in doctrees for link in tree.findall(nodes.reference) if CLASS in link["classes"])
    files = sorted({PurePosixPath(link["source_file"]) for link in links})
    for before, file, after in zip([None, *files], files, [*files[1:], None], strict=False):
        beside = {"prev": before, "next": after}
        around = {
            name: {"link": f"{other.name}.html", "title": other.name}
            for name, other in beside.items()
            if other is not None and other.parent == file.parent
        }
        yield f"{FOLDER}/{file}", {"title": str(file), "body": _body(app, file), "parents": [], **around}, "page.html"


def _body(app: Sphinx, file: PurePosixPath) -> str:
    text = Path(app.srcdir, file).read_text(encoding="utf-8")
    lexer = find_lexer_class_for_filename(file.name, text)
    code = app.builder.highlighter.highlight_block(text, lexer.aliases[0] if lexer else "text")
    folder = str(file.parent)
    if f"{folder}/README" in app.env.found_docs:
        up = os.path.relpath(f"{folder}/README.html", PurePosixPath(FOLDER, file).parent)
        folder = f'<a href="{up}">{folder}</a>'
    return f"<h1>{file.name}</h1><p>{folder}</p>{code}"
