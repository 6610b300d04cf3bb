"""The documentation site: `make docs` builds it, offline, with warnings as errors, into build/docs."""

import os
import sys
from pathlib import Path

OURS = Path(__file__).parent / "_sphinx"
sys.path.insert(0, str(OURS))
os.environ["MATPLOTLIBRC"] = str(OURS / "matplotlibrc")  # for the tutorials

from surface import DOORS

from delaytron import LEARNERS, __version__

project = "Delaytron"
author = "the authors of Delaytron"
version = release = __version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "pages",
    "mathml",
    "notebooks",
    "surface",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}  # autosummary writes files of the first kind
exclude_patterns = ["_*", "README.md"]  # the second is for readers of the folder on GitHub
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in docstrings are words for people; Markdown links are checked
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header", "misc.highlighting_failure"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 600  # a cell takes seconds, but one once took more than 120, for an unknown reason
nb_execution_raise_on_error = True
nb_merge_streams = True

autosummary_generate = True
autosummary_context = {  # whose methods are described elsewhere
    "learners": ["Bold", *(learner.__name__ for learner in LEARNERS.values())],
    "doors": DOORS,
}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings name the types
numpydoc_show_class_members = False  # the templates list them

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "Delaytron"
html_context = {"default_mode": "auto"}  # light or dark as the system is; else the browser's console has an error
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_sidebars = {"index": [], "start": []}  # pages that are alone in their section
html_theme_options = {
    "logo": {"image_light": "_static/mark.svg", "image_dark": "_static/mark.svg", "text": "Delaytron"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navigation_with_keys": False,
    "footer_start": ["licence"],
    "footer_end": [],
    "show_prev_next": True,
    "back_to_top_button": False,
}
copybutton_prompt_text = "$ "
