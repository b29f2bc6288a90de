"""How Sphinx builds these pages: `make docs`. Nothing is fetched from elsewhere, neither by the build nor by the pages."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from onebit.version import VERSION

project = "onebit"
author = project_copyright = "The onebit developers"
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docs.extensions.formulas",
    "docs.extensions.pages",
]
root_doc = "index"
templates_path: list[str] = []
exclude_patterns = ["extensions"]

myst_heading_anchors = 4
myst_fence_as_directive = {"math"}
smartquotes = False  # which would make one dash of those of --options
highlight_language = "text"  # of an indented block, which names none
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

default_role = "code"  # of `words` in docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "onebit"
html_static_path = ["extensions/site.css", "extensions/site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_math_renderer = "mathml"
html_favicon = "favicon.ico"
html_copy_source = html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
