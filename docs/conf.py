"""The site: ``make docs`` builds it into build/docs/html. Warnings are errors there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("LORANK_DATA", None)  # the gallery shows what everybody can run
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

from addresses import addresses, install_cell, theme_options  # noqa: E402

import lorank  # noqa: E402

ADDRESSES = addresses()  # those of pyproject.toml that are no placeholders

project, author, copyright = "lorank", "The lorank developers", "The lorank developers, BSD 3-Clause license"
version = release = lorank.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    # of docs/_ext
    "addresses",
    "api_pages",
    "code_outputs",
    "decision_diagram",
    "gallery_groups",
    "offline_mathjax",
    "open_pictures",
    "paper_links",
    "phone_tables",
    "repository_links",
    "room_drawing",
    "source_links",
    "whole_numbers",
]
exclude_patterns = ["_ext", "_tests"]
templates_path = ["_templates"]
nitpicky = False
highlight_language = "none"  # a block without a language is the output of a program
suppress_warnings = ["config.cache", "myst.xref_missing.none"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 4
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"  # numbers: labels of names stumble over accents
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The API
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have them, with shapes
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False
add_module_names = False

# The gallery: each script of examples/ is run, with its pictures; what has not changed is not run again.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": os.environ.get("LORANK_GALLERY", "run") != "show",  # show: the texts alone
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("lorank",),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "lorank.io.figures.use_style"),
    "write_computation_times": False,
    "first_notebook_cell": install_cell(ADDRESSES),
}

# HTML
html_theme = "pydata_sphinx_theme"
html_title = "lorank"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo-dark.svg", "text": "lorank"},
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": {  # none next to the gallery's scripts: they have long lines
        **{
            where: ["page-toc"]
            for where in ("*", "guides/*", "api/**", "theory/*", "benchmarks/*", "reproduction/*", "project/*")
        },
        "gallery/*": [],
    },
    "search_bar_text": "Search …",
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_theme_options |= theme_options(ADDRESSES)
html_baseurl = f"{ADDRESSES['Documentation']}/dev/" if "Documentation" in ADDRESSES else ""
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "choose": []}
