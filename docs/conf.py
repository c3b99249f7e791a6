"""Settings of the documentation site; ``make docs`` builds it into out/docs.

Pages are plain Markdown that GitHub shows as well. Tutorials are Python files that sphinx-gallery
runs. Nothing in the built pages is loaded from a network: formulas are plain text, so that no page
needs MathJax, and fonts and scripts are those of the theme's own package.
"""

from __future__ import annotations

import inspect
import os
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

import discreet

# tutorials leave nothing behind in the folders of whoever builds the pages
state = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = state.name
os.environ.pop("DISCREET_LEDGER", None)

project = "discreet"
author = "the authors of discreet"
copyright = author
version = release = discreet.__version__

PAGES = Path(__file__).parent

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["tutorials", "generated/tutorials/*.ipynb"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # of the function below, which cannot be pickled

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

default_role = "py:obj"  # `name` in a docstring links to the name, if it is public
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"  # docstrings state the types
autodoc_default_options = {"members": True, "inherited-members": "str, tuple, Exception"}
napoleon_google_docstring = False
napoleon_custom_sections = [  # numpydoc would leave the first one out
    ("Privacy", "notes_style"),
    ("Attributes", "params_style"),
]
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"discreet {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("risk.js", {"defer": "defer"})]
html_copy_source = True  # "Show Source" of a page is its text, a file beside it
html_show_sourcelink = True
html_show_search_summary = False  # a page that is opened as a file may not fetch others
html_context = {"default_mode": "auto"}
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": {"**": ["page-toc", "sourcelink"], "index": []},
    "logo": {"text": f"discreet {version}"},
    "search_bar_text": "Search the documentation",
}
html_sidebars = {page: [] for page in ("index", "install", "quickstart", "glossary", "faq")}


def draw_returned_figures(block: Any, block_vars: Any, gallery_conf: Any) -> str:
    """Show figures that a function returned without pyplot, such as ``model.plot_effects()``."""
    found = [
        figure
        for figure in block_vars["example_globals"].values()
        if isinstance(figure, Figure) and getattr(figure, "number", None) is None
    ]
    paths, titles = [], []
    for figure in found:
        if not hasattr(figure, "_shown_by_the_gallery"):
            figure._shown_by_the_gallery = True  # type: ignore[attr-defined]
            paths.append(next(block_vars["image_path_iterator"]))
            figure.savefig(paths[-1], dpi=120)
            names = filter(None, (axes.get_title() for axes in figure.axes))
            titles.append(figure.get_suptitle() or ", ".join(names))
    return figure_rst(paths, gallery_conf["src_dir"], "; ".join(titles))


sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "generated/tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": "",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib",),
    "image_scrapers": ("matplotlib", draw_returned_figures),
    "default_thumb_file": str(PAGES / "_static" / "thumb.svg"),
}

LINK_TO_TUTORIAL = re.compile(r"\]\(((?:\.\./)*)tutorials/(\w+)\.py\)")
PAGE_IN_DOCSTRING = re.compile(r"`{0,2}docs/([\w/-]+)\.md`{0,2}")
LITERAL = re.compile(r"(``.*?``)")
LINK_BACK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>')
PRINTED = re.compile(r"(?<=\n \.\. code-block:: none\n\n)(?: {4}.*\n|\n)+")  # by a tutorial
WIDEST_PRINTED = 96  # characters; a table of coefficients with its notes has 92
SENTENCE = re.compile(r"^    \S+(?: \S+)+$", re.MULTILINE)  # without runs of spaces: no table


def link_to_built_tutorials(app: Any, docname: str, content: list[str]) -> None:
    """Point links to a tutorial's Python file, which GitHub shows, to the page made of it."""
    content[0] = LINK_TO_TUTORIAL.sub(r"](\1generated/tutorials/\2.rst)", content[0])


def wrap_printed_sentences(app: Any, docname: str, content: list[str]) -> None:
    """Wrap sentences that a tutorial prints on one long line; tables keep their lines."""

    def wrapped(line: re.Match[str]) -> str:
        return textwrap.indent(textwrap.fill(line[0].strip(), WIDEST_PRINTED), "    ")

    if "/tutorials/" in docname:
        content[0] = PRINTED.sub(lambda block: SENTENCE.sub(wrapped, block[0]), content[0])


def adapt_docstring(
    app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Link ``docs/page.md`` to that page, and keep bars such as those of |x| as they are."""
    for number, line in enumerate(lines):
        parts = LITERAL.split(PAGE_IN_DOCSTRING.sub(r":doc:`/\1`", line))
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[number] = "".join(parts)


def drop_links_back(app: Any, page: str, template: str, context: Any, doctree: Any) -> None:
    """Leave out links from code to the reference: those of re-exported names lead nowhere."""
    if page.startswith("_modules/") and "body" in context:
        context["body"] = LINK_BACK.sub("", context["body"])


def skip_scikit_learn(
    app: Any, what: str, name: str, obj: object, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn's base classes add: its own documentation has it."""
    module = getattr(inspect.unwrap(obj) if callable(obj) else obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") or name.endswith("_request") else None


def setup(app: Any) -> None:
    """Connect the rules."""
    app.connect("source-read", link_to_built_tutorials)
    app.connect("source-read", wrap_printed_sentences)
    app.connect("autodoc-process-docstring", adapt_docstring)
    app.connect("autodoc-skip-member", skip_scikit_learn)
    app.connect("html-page-context", drop_links_back)
