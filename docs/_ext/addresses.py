"""Addresses of the project, from [project.urls] in pyproject.toml: links, version switcher, metadata, notebooks.

Placeholder addresses (under example.org) are not linked.
"""

from __future__ import annotations

import html
import json
import shutil
import tomllib
from pathlib import Path

from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("dev",)  # with a site of their own, below Documentation; the first is the one that is built here
DESCRIPTION_LENGTH = 200


def addresses() -> dict[str, str]:
    """Real addresses by name; a placeholder is left out."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    return {name: url.rstrip("/") for name, url in urls.items() if "//example.org/" not in url}


def theme_options(urls: dict[str, str]) -> dict:
    """Links of the navigation bar, and the version switcher."""
    icons = {"Repository": "fa-solid fa-code-branch", "Issues": "fa-solid fa-circle-question"}
    links = [{"name": name, "url": urls[name], "icon": icon} for name, icon in icons.items() if name in urls]
    options: dict = {"icon_links": links, "navbar_end": ["theme-switcher", *(["navbar-icon-links"] if links else [])]}
    if "Documentation" in urls:
        switcher = {"json_url": f"{urls['Documentation']}/{VERSIONS[0]}/_static/switcher.json", "version_match": VERSIONS[0]}
        options |= {"switcher": switcher, "check_switcher": False}
        options["navbar_end"] = ["version-switcher", *options["navbar_end"]]
    return options


def install_cell(urls: dict[str, str]) -> str:
    """First cell of the notebooks: installs lorank where it is missing, as on Colab and Binder."""
    where = f"git+{urls['Repository']}" if "Repository" in urls else "file:///path/to/a/checkout"
    return (
        f'%matplotlib inline\ntry:\n    import lorank\nexcept ImportError:\n    %pip install --quiet "lorank[files] @ {where}"'
    )


def description(doctree: nodes.document | None) -> str:
    """First paragraph of a page, shortened."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    text = next((" ".join(one.astext().split()) for one in paragraphs if len(one.astext()) > 40), "")
    return text if len(text) <= DESCRIPTION_LENGTH else f"{text[:DESCRIPTION_LENGTH].rsplit(' ', 1)[0]} …"


def add_metadata(app, page, template, context, doctree) -> None:
    """Description and OpenGraph properties, for search engines and previews of links."""
    if doctree is None:
        return
    title = next((one.astext() for one in doctree.findall(nodes.title)), "lorank")
    properties = {"og:type": "website", "og:site_name": "lorank", "og:title": title, "og:description": description(doctree)}
    if base := app.config.html_baseurl:
        properties |= {"og:url": f"{base}{page}.html", "og:image": f"{base}_static/front-page.png"}
    tags = [f'<meta property="{name}" content="{html.escape(text)}">' for name, text in properties.items() if text]
    if properties["og:description"]:
        tags.append(f'<meta name="description" content="{html.escape(properties["og:description"])}">')
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def write_files(app, failure) -> None:
    """Picture of previews, and the list of versions."""
    urls = addresses()
    if failure is None and app.builder.format == "html" and "Documentation" in urls:
        static = Path(app.outdir) / "_static"
        shutil.copyfile(ROOT / "docs" / "images" / "front-page.png", static / "front-page.png")
        listed = [{"version": name, "url": f"{urls['Documentation']}/{name}/"} for name in VERSIONS]
        (static / "switcher.json").write_text(json.dumps(listed), encoding="utf-8")


def setup(app):
    app.connect("html-page-context", add_metadata)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
