"""The same Markdown on the site and in the repository: links are turned into what a site has.

- A link to a page stays one. CONTRIBUTING.md and CHANGELOG.md of the repository are pages of the site.
- A link to an HTML file in docs/ opens that file, which is copied into the site: peers.html as peers-page.html, where
  peers.md is a page of its own.
- A link to another file in docs/ (a table, a script) is a download, by MyST itself.
- What is elsewhere in the repository, and folders, are named and not linked.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
AS_PAGES = {
    "CONTRIBUTING.md": "/project/contributing.md",
    "CHANGELOG.md": "/project/changelog.md",
    "SECURITY.md": "/project/security.md",
    "CODE_OF_CONDUCT.md": "/project/conduct.md",
    "README.md": "/index.md",
}
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|`[^`]*`)+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def copied(path: Path) -> Path:
    """Where in the site an HTML file of docs/ lies."""
    place = path.relative_to(DOCS)
    return place.with_stem(f"{place.stem}-page") if path.with_suffix(".md").exists() else place


def rewrite(text: str, folder: Path, depth: int) -> str:
    """Links of a text that lies in that folder of the repository, for a page that lies so deep in docs/."""

    def one(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", target) or target.startswith("/"):
            return found[0]
        path = (folder / target).resolve()
        if path == ROOT or ROOT not in path.parents or not path.exists():
            return found[0]  # wrong, or made by the build: Sphinx reports it
        name = path.relative_to(ROOT).as_posix()
        if name in AS_PAGES:
            return f"[{words}]({AS_PAGES[name]}{anchor})"
        inside = DOCS in path.parents
        if inside and path.is_file() and path.suffix == ".html":
            return f'<a href="{"../" * depth}{copied(path).as_posix()}{anchor}">{words.replace("`", "")}</a>'
        if inside and path.is_file():
            return f"[{words}](/{path.relative_to(DOCS).as_posix()}{anchor})"
        return words if "`" in words else f"`{words}`"

    kept: list[str] = []

    def keep(fence: re.Match[str]) -> str:
        kept.append(fence[0])
        return f"\0{len(kept) - 1}\0"

    text = LINK.sub(one, FENCE.sub(keep, text))
    return re.sub(r"\0(\d+)\0", lambda mark: kept[int(mark[1])], text)


def read(app, name, source) -> None:
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md":
        source[0] = rewrite(source[0], path.parent, name.count("/"))


def include(app, relative, parent, content) -> None:
    path = (DOCS / relative).resolve()
    if path.suffix == ".md" and path.parent == ROOT:
        content[0] = rewrite(content[0], ROOT, parent.count("/"))


def with_way_back(text: str, page: Path, target: Path) -> str:
    """An HTML page with a link to the page of the site that describes it, above its heading."""
    described = page.with_suffix(".md") if page.with_suffix(".md").exists() else page.with_name("README.md")
    link = f'<p style="margin:.8rem 20px"><a href="{described.stem}.html">← lorank documentation</a></p>'
    return re.sub(r"(?=<(?:header|main|h1)\b)", link, text, count=1)


def copy_html(app, failure) -> None:
    if failure is None and app.builder.format == "html":
        for page in DOCS.rglob("*.html"):
            place = page.relative_to(DOCS)
            if "gallery" not in place.parts and "_templates" not in place.parts:
                target = Path(app.outdir) / copied(page)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(with_way_back(page.read_text(encoding="utf-8"), page, target), encoding="utf-8")
        paper = Path(app.outdir) / "reproduction"  # whose page links to its figures and tables
        shutil.copytree(DOCS / "reproduction" / "figures", paper / "figures", dirs_exist_ok=True)
        for table in (DOCS / "reproduction").glob("*.csv"):
            shutil.copyfile(table, paper / table.name)


def setup(app):
    app.connect("source-read", read)
    app.connect("include-read", include)
    app.connect("build-finished", copy_html)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
