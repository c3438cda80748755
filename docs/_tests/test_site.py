"""The built site: links and pictures of all pages, and some pages in a browser at two widths. ``make docs-test`` runs this.

Nothing but the folder build/docs/html is looked at, and nothing outside this machine is asked for.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "docs" / "html"
MADE_ELSEWHERE = ("reproduction/index.html", "benchmarks/peers-page.html")  # pages of their own, with tests of their own
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
SEEN = [
    "index.html",
    "choose.html",
    "gallery/index.html",
    "gallery/plot_front_page.html",
    "gallery/plot_phase_image.html",
    "api/index.html",
    "api/generated/lorank.solve.html",
    "api/generated/lorank.metrics.RowColumn.html",
    "theory/why-the-metric.html",
    "notation.html",
    "architecture.html",
    "losses.html",
    "benchmarks/uneven.html",
    "benchmarks/core.html",
    "benchmarks/peers.html",
    "metrics.html",
    "scale.html",
    "guides/index.html",
    "guides/result.html",
    "ratings.html",
]
WIDTHS = {"desktop": 1300, "phone": 390}

# Loads each page in a frame of each width, waits until it has drawn, and writes down what it sees.
PROBE = """<!doctype html><meta charset=utf-8><body><script>
(async () => {
  const seen = [];
  for (const page of PAGES) for (const [name, width] of WIDTHS) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    frame.src = "/" + page;
    document.body.append(frame);
    await new Promise(done => { frame.onload = done; setTimeout(done, 20000); });
    const inside = frame.contentDocument, view = frame.contentWindow;
    for (const image of inside.images) image.loading = "eager";
    if (view.MathJax && view.MathJax.startup) await view.MathJax.startup.promise;
    const here = () => [...inside.images].every(image => image.complete);
    for (let k = 0; k < 40 && !here(); k++) await new Promise(done => setTimeout(done, 50));
    const root = inside.documentElement;
    const wide = root.scrollWidth > root.clientWidth + 1;
    const out = e => e.getBoundingClientRect().right > root.clientWidth + 1;
    const named = e => e.tagName + "." + e.className;
    const sticks = wide ? [...inside.querySelectorAll("main *")].filter(out).slice(0, 3).map(named) : [];
    seen.push({
      page, name, title: inside.title, heading: (inside.querySelector("h1") || {}).textContent || "", sticks, wide,
      pictures: inside.querySelectorAll("main img").length,
      missing: [...inside.images].filter(image => !image.naturalWidth).map(image => image.getAttribute("src")),
      formulas: inside.querySelectorAll("mjx-container").length,
      raw: [...inside.querySelectorAll(".math")].filter(e => !e.querySelector("mjx-container")).length,
      styled: view.getComputedStyle(inside.querySelector("h1")).fontFamily,
    });
    frame.remove();
  }
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
})();
</script>"""


class Links(HTMLParser):
    """What a page leads to, and the places in it that one can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.places |= {found[name] or "" for name in ("id", "name") if name in found}
        for name in ("href", "src"):
            if found.get(name):
                self.targets.append(found[name] or "")


@functools.cache
def links(page: Path) -> Links:
    return Links(page.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """All of them but the theme's templates, pages that are made elsewhere, and listings of sources."""
    names = {path: path.relative_to(SITE).as_posix() for path in sorted(SITE.rglob("*.html"))}
    return [
        path for path, name in names.items() if not name.startswith(("_static/", "_modules/")) and name not in MADE_ELSEWHERE
    ]


def test_the_site_is_there():
    assert (SITE / "index.html").exists(), "build it first: make docs"
    assert len(pages()) > 150


def test_links_lead_somewhere():
    broken = []
    for page in [*sorted(with_listings()), *(SITE / name for name in MADE_ELSEWHERE)]:
        for target in links(page).targets:
            parts = urlsplit(target)
            if parts.scheme or target.startswith(("//", "data:")):
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not path.is_file():
                broken.append(f"{page.relative_to(SITE)} -> {target}")
            elif parts.fragment and path in with_listings() and unquote(parts.fragment) not in links(path).places | {"top"}:
                broken.append(f"{page.relative_to(SITE)} -> {target} (no such place)")
    assert broken == []


@functools.cache
def with_listings() -> frozenset[Path]:
    """The pages, and the listings of sources."""
    return frozenset([*pages(), *(SITE / "_modules").rglob("*.html")])


def test_nothing_is_fetched_from_elsewhere():
    """Scripts, styles and pictures are the site's own: it works without a network."""
    foreign = set()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        foreign |= set(re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]+)"', text))
        foreign |= set(re.findall(r'<link[^>]* rel="(?:stylesheet|preload)"[^>]* href="(https?:[^"]+)"', text))
    assert foreign == set()


def test_every_public_name_has_a_page_with_its_source():
    import lorank

    for name in lorank.__all__:
        thing = getattr(lorank, name)
        if callable(thing) and thing.__name__ == name:  # not an alias
            page = SITE / "api" / "generated" / f"lorank.{name}.html"
            assert page.exists(), name
            assert "_modules/" in page.read_text(encoding="utf-8"), f"{name}: no link to its source"


def test_every_example_has_a_picture_on_its_page():
    for script in (Path(__file__).resolve().parents[2] / "examples").glob("plot_*.py"):
        page = SITE / "gallery" / f"{script.stem}.html"
        assert f"sphx_glr_{script.stem}_001.png" in page.read_text(encoding="utf-8"), script.stem


def test_numbers_are_not_torn_apart_in_tables():
    """10 000 is one word in a cell, however narrow. (Tables of the reference are names and sentences.)"""
    torn, kept = [], 0
    for page in (page for page in pages() if "api" not in page.parts):
        cells = re.findall(r"<td\b.*?</td>", page.read_text(encoding="utf-8"), re.DOTALL)
        kept += sum('<span class="whole">' in cell for cell in cells)
        loose = [
            re.sub(r'<span class="whole">.*?</span>|<code.*?</code>|<span class="math.*?</span>', "", cell) for cell in cells
        ]
        torn += [f"{page.relative_to(SITE)}: {cell}" for cell in loose if re.search(r"(?<![\w.])\d{1,3} \d{3}(?!\d)", cell)]
    assert torn == []
    assert kept > 100


def test_no_formula_is_left_as_it_was_typed():
    for page in pages():
        text = re.sub(r"<(script|pre|code|style)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r"\$[A-Za-z\\][^$<>\n]{0,80}\$", text) == [], page.relative_to(SITE)


def test_no_label_is_left_as_it_was_typed():
    """On a phone the heading of a column stands before each cell, as text."""
    for page in pages():
        labels = re.findall(r'data-label="([^"]*)"', page.read_text(encoding="utf-8"))
        assert [label for label in labels if re.search(r"[\\$`]", label)] == [], page.relative_to(SITE)


def test_every_example_says_where_to_read_on():
    for page in (SITE / "gallery").glob("plot_*.html"):
        assert "Read on:" in page.read_text(encoding="utf-8"), page.stem


def test_pages_have_a_description_and_opengraph_properties():
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if page.stem not in ("genindex", "search", "py-modindex") and "generated" not in page.parts:
            found = re.findall(r'<meta property="og:(?:title|description)" content="[^"]{4,}', text)
            assert len(found) == 2, page.relative_to(SITE)
    assert '<meta name="description" content="Low-rank matrix completion' in (SITE / "index.html").read_text(encoding="utf-8")


def test_notebooks_install_lorank():
    found = list(SITE.rglob("plot_*.ipynb"))
    assert len(found) == len(list((Path(__file__).resolve().parents[2] / "examples").glob("plot_*.py")))
    for path in found:
        cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        first = cells[0]
        assert not [cell for cell in cells if re.search(r":\w+:`", cell)], f"{path.name}: roles of reStructuredText"
        assert "%pip install" in first, path.name
        assert "lorank[files]" in first, path.name


@pytest.mark.parametrize("name", MADE_ELSEWHERE)
def test_pages_made_elsewhere_link_back(name):
    page = SITE / name
    (target,) = re.findall(r'<a href="([^"]+)">← lorank documentation</a>', page.read_text(encoding="utf-8"))
    assert (page.parent / target).is_file()


def test_addresses(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "_ext"))
    from addresses import addresses, install_cell, theme_options

    assert "example.org" not in "".join(addresses().values())
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert [url for name, url in addresses().items() if name in ("Issues", "Documentation") and url not in readme] == []
    urls = {"Repository": "https://a.test/lorank", "Documentation": "https://a.test/docs"}
    options = theme_options(urls)
    assert [one["url"] for one in options["icon_links"]] == ["https://a.test/lorank"]
    assert options["switcher"]["json_url"].startswith("https://a.test/docs/")
    assert "version-switcher" in options["navbar_end"]
    assert "git+https://a.test/lorank" in install_cell(urls)
    assert theme_options({})["navbar_end"] == ["theme-switcher"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> list[dict]:
    if BROWSER is None:
        pytest.fail("no Chromium here: install it, or leave this test out with -k 'not browser'")
    probe = PROBE.replace("PAGES", json.dumps(SEEN)).replace("WIDTHS", json.dumps(list(WIDTHS.items())))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/probe":
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(probe.encode())
            return None

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--enable-logging=stderr"]
        command += [f"--user-data-dir={tmp_path_factory.mktemp('browser')}", "--virtual-time-budget=600000", "--dump-dom"]
        url = f"http://127.0.0.1:{server.server_port}/probe"
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=600, check=False)
    finally:
        server.shutdown()
        server.server_close()
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the browser gave no answer: {done.stderr[-2000:]}"
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "[PST]: " not in line]  # the theme
    assert said == [], "the console has something to say"
    return json.loads(html.unescape(found[1]))


def test_in_a_browser(seen):
    assert len(seen) == len(SEEN) * len(WIDTHS)
    for one in seen:
        where = f"{one['page']} ({one['name']})"
        assert one["heading"], where
        assert one["missing"] == [], where
        assert not one["wide"], f"{where}: sticks out to the right: {one['sticks']}"
        assert one["raw"] == 0, f"{where}: formulas that were not drawn"
        assert "serif" in one["styled"], f"{where}: no style"
        if one["page"].startswith(("gallery/plot", "index", "theory/why")):
            assert one["pictures"] > 0, where
        if one["page"].startswith("theory"):
            assert one["formulas"] > 5, where


@pytest.mark.parametrize("page", ["index.html", "ratings.html", "tables.html", "guides/result.html", "guides/completion.html"])
def test_output_of_printing_blocks_is_shown(page):
    text = (SITE / page).read_text(encoding="utf-8")
    blocks = re.findall(r'<div class="highlight-python notranslate">.*?</div>', text, re.DOTALL)
    printing = sum("print" in block for block in blocks)
    assert printing
    assert len(re.findall(r'<div class="output ', text)) >= printing
