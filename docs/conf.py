"""How the site is built: `make site` writes it to build/site, with warnings as errors and without a network."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any

ROOT = os.path.abspath("..")
sys.path.insert(0, ROOT)

import dkdist  # noqa: E402

project, author = "dkdist", "the authors of dkdist"
version = release = dkdist.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["templates", "tutorials"]
templates_path = ["templates"]
html_theme = "furo"
html_title = "dkdist"
html_show_copyright = False
html_static_path, html_css_files = ["static"], ["site.css"]
html_theme_options = {"light_css_variables": {"code-font-size": "75%"}}  # a line of code fits
highlight_language = "none"  # formulas

default_role = "py:obj"  # `SampleSets` in a docstring is a link
strip_signature_backslash = True  # napoleon escapes `classes_`, which a signature would show as `classes\\_`
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_numpy_docstring, napoleon_google_docstring = True, False
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # "array of shape (n,)": shape is a word there, and no attribute
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
    "reference_url": {"dkdist": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "ignore_repr_types": "matplotlib",
    "remove_config_comments": True,
}

warnings.filterwarnings("error", module="dkdist")

LITERAL = re.compile(r"(``.+?``|`[^`]+`|(?<!\w)\*\w[^*]*\w\*(?!\w))")  # code and emphasis
LISTED = set[str]()  # fitted attributes in the docstring of the class that is being documented
TYPED = re.compile(r"\w+(, \w+)* : ")  # a parameter or attribute and its type
FORMULA = re.compile(r"([|*\\])|(?<=\w)_(?!\w)")


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Formulas of docstrings as they stand: indented ones are literal, and no |x| or n_ is markup."""
    if not getattr(obj, "__module__", "dkdist").startswith("dkdist"):
        return
    made, last, literal = [], "", False
    if what == "class":  # its docstring comes before its members
        LISTED.clear()
    for i, line in enumerate(lines):
        indented = line.startswith("    ")
        if line and not indented:
            literal = False
        if indented and i and not lines[i - 1] and last and not last.startswith(" ") and ">>>" not in line:
            literal = True
            made += ["::", ""]
        described = not indented and "".join(lines[i + 1 : i + 2]).startswith("    ")
        is_field = described or TYPED.match(line)
        if what == "class" and is_field and line.partition(" :")[0].endswith("_"):
            LISTED.update(line.partition(" :")[0].split(", "))
        name, colon, rest = (
            line.partition(" :") if is_field else ("", "", line)
        )  # napoleon escapes names itself
        made.append(line if literal or ">>>" in line else name + colon + _escaped(rest))
        last = line or last
    lines[:] = made


def _escaped(line: str) -> str:
    parts = LITERAL.split(line)
    parts[::2] = [FORMULA.sub(lambda found: "\\" + found[0], part) for part in parts[::2]]
    return "".join(parts)


def not_ours(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave out members of scikit-learn's base classes, and properties that the class docstring lists as attributes."""
    is_listed = isinstance(obj, property) and name in LISTED
    return skip or is_listed or str(getattr(obj, "__module__", "")).startswith("sklearn")


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", not_ours)
    app.connect("autodoc-process-docstring", as_rst, priority=400)  # before napoleon
