"""Sphinx's settings of the documentation site: ``nox -s docs``.

Its source is the whole repository, of which it renders every page where it is: so links and
pictures work on the site as they do in a checkout. ``generated.py`` writes what pages have of the code.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "Peakgate"
author = "The Peakgate authors"
release = metadata.version("peakgate")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "generated", "sources", "offline"]
root_doc = "docs/index"
include_patterns = ["**.md"]
exclude_patterns = [
    ".[!g]*",
    ".git",
    "**/tests",
    "README.md",
    "build",
    "docs/site",
    "reports/out",
    "tests",
]

myst_heading_anchors = 4
"""Levels of headings that have the anchors that a link such as ``page.md#how-right-is-right`` names."""

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

man_pages = [("docs/reference/commands", "peakgate", "measure GPU kernels, prove them right, judge changes", author, 1)]

html_theme = "furo"
html_favicon = "static/icon.svg"
html_title = f"Peakgate {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "start.html"}
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path = ["templates"]
html_theme_options = {"navigation_with_keys": True, "footer_icons": []}
