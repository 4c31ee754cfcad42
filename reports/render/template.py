"""The templates of every HTML page, and what all pages share: style, script and the policy that permits only these."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from peakgate.reports.render import phrases

PAGE_TEMPLATES = Path(__file__).with_name("templates")
NO_SCRIPT = "'none'"


@cache
def environment(folder: Path = PAGE_TEMPLATES) -> Environment:
    """A folder's templates; whatever a page inserts is escaped. A page adds the filters that it uses."""
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["line"] = phrases.one_line
    return found


def fill(template: str, *, styles: tuple[str, ...] = ("page.css",), trail: Any = (), **context: Any) -> str:
    """The page as text; ``trail`` are (name, address) of the pages above it, of a site."""
    style = Markup("\n").join(asset(name) for name in styles)
    return environment().get_template(template).render(style=style, trail=trail, **context)


def asset(name: str) -> Markup:
    """A file of our own, to be inserted as it is."""
    return Markup((PAGE_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  # a file of our own


def policy(*scripts: str) -> str:
    """The scripts that a page may run, as its policy names them."""
    return " ".join(f"'sha256-{digest(script)}'" for script in scripts)


def digest(text: str) -> str:
    """SHA-256 in base64."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
