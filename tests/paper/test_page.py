"""The page: what it says, what it escapes, and that it works in a browser."""

from __future__ import annotations

import html
import json
import re
import subprocess
from html.parser import HTMLParser

import pytest

import made_up
from made_up import load

pytest.importorskip("matplotlib")

from lorank.experiments.figures import MAX_POINTS, thin
from lorank.experiments.styles import METHODS as STYLES
from lorank.paper.claims import CLAIMS, METHODS, TEXTS, judge
from lorank.paper.page import SHOWN_BRIEFLY, pill, render, write_page
from lorank.paper.panels import PANELS, panels
from lorank.paper.verdicts import NO_DATA
from machine import CHROMIUM

VOID = {"meta", "link", "col", "br"}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return made_up.everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="module")
def page(everything):
    return write_page(load(everything), everything)


class Outline(HTMLParser):
    """The elements of a page, which must be closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict]] = []

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    return found


def test_the_page_holds_all_it_needs(page, everything):
    text = page.read_text(encoding="utf-8")
    found = outline(text)
    assert page == everything / "index.html"
    assert {"claims", *TEXTS} <= set(found.ids)
    assert text.count("<svg ") > 20
    for tag, attributes in found.tags:
        assert "src" not in attributes, tag
        link = attributes.get("href", "#")
        assert "http" not in attributes.get("xlink:href", "")
        assert link.startswith(("#", "data:")) or "/" not in link or link.startswith("figures/"), link
        assert not link.startswith("#") or link == "#" or link[1:] in found.ids, link
    assert "a made-up machine" in text
    assert "2026-01-02" in text
    for one in CLAIMS:
        assert html.escape(one.quote) in text


def test_texts_belong_to_experiments_and_claims():
    assert list(TEXTS) == list(PANELS)
    assert set(METHODS) == set(STYLES)
    assert {claim.experiment for claim in CLAIMS} <= set(TEXTS)


def test_a_page_of_nothing(tmp_path):
    text = write_page(load(tmp_path), tmp_path).read_text(encoding="utf-8")
    assert f"0 of {len(CLAIMS)} claims could be judged" in text


def test_all_that_comes_from_the_tables_is_escaped(tmp_path):
    evil = "<script>alert(1)</script><b class='x'>&\""
    rows = made_up.runs(
        "sensing-oversampling", evil, 50, n1=150, oversampling=1.2, setting=evil, machine=evil, scale=evil, date=evil
    )
    rows += made_up.runs("sensing-oversampling", "prgd", 50, n1=150, oversampling=1.2, field=evil)
    tuned = [{"experiment": "sensing-oversampling", "method": evil, "candidate": evil, "iterations": 5, "chosen": True}]
    way = made_up.trace("phase-real", evil, [0.5, 0.1], n1=128)
    rows += made_up.runs("phase-real", evil, 50, n1=128)
    text = render(load(made_up.write(tmp_path, rows, way, tuned)))
    scripts = re.compile(r"<script[^>]*>.*?</script>", re.DOTALL)
    assert len(scripts.findall(text)) == 1
    assert "alert(1)" in scripts.sub("", text)
    assert "<script>alert" not in text
    assert "<b class=" not in text.lower().replace('<b class="tile', "")
    outline(scripts.sub("", text))


def test_runs_on_a_gpu_are_a_table_of_their_own(tmp_path):
    rows = made_up.runs("completion-size", "prgd", 50, n1=2000, rank=50)
    found = load(made_up.write(tmp_path, rows))
    assert "on a GPU" not in render(found, tmp_path)
    (tmp_path / "ranks-gpu.csv").write_text("rank,method\n100,<prgd>\n", encoding="utf-8")
    text = render(found, tmp_path)
    assert "<td>100</td><td>&lt;prgd&gt;</td>" in text
    assert text.index('id="completion-size"') < text.index("on a GPU")


def test_the_page_says_on_which_machine_seconds_were_measured(tmp_path):
    rows = [*made_up.runs("completion-size", "prgd", 9, n1=100), *made_up.runs("completion-size", "rgd", 9, n1=100)]
    text = render(made_up.load(made_up.write(tmp_path, rows)))
    assert "on one machine, a made-up machine" in text
    rows = [row | {"machine": row["method"]} for row in rows]
    text = render(made_up.load(made_up.write(tmp_path, rows))).replace("\N{NO-BREAK SPACE}", " ")
    assert "PRGD on prgd (1 thread per run); RGD on rgd (1 thread per run)." in text


def test_the_badges_at_the_top_are_those_of_the_table(page):
    """With the figures that decide: as many as are shown, and how many there are beside."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"<li>(.*?)</li>", text.split('<ul class="brief">')[1].split("</ul>")[0])
    shown = [(one, one.claim.brief) for one in judge(load(page.parent)) if one.claim.brief and one.verdict != NO_DATA]
    assert len(lines) == len(shown) > 0
    for line, (one, about) in zip(lines, shown, strict=True):
        assert line.startswith(pill(one.verdict)), one.claim.key
        assert about in html.unescape(line)
        deciding = [part for part in one.parts if part.decides and part.verdict != NO_DATA]
        assert line.count("<b>") == min(len(deciding), SHOWN_BRIEFLY)
        assert (f"and {len(deciding) - SHOWN_BRIEFLY} more" in line) is (len(deciding) > SHOWN_BRIEFLY)


def test_long_curves_are_thinned(tmp_path):
    way = [0.5 * 0.999**t for t in range(5000)]
    made_up.write(tmp_path, traces=made_up.trace("phase-real", "rgd", way, n1=128), results=[])
    made_up.write(tmp_path, made_up.runs("phase-real", "rgd", 5000, n1=128), made_up.trace("phase-real", "rgd", way, n1=128))
    for panel in panels(load(tmp_path), "phase-real"):
        (line,) = panel.lines
        assert len(line.x) <= MAX_POINTS
        assert line.y[0] == pytest.approx(0.5)
        assert line.y[-1] == pytest.approx(way[-1], rel=1e-4)
    assert thin(3).tolist() == [0, 1, 2]


def test_the_paper_s_methods_are_shown_at_first(page):
    text = page.read_text(encoding="utf-8")
    section = text.split('id="completion-size"')[1].split("</section>")[0]
    chips = dict(re.findall(r'<button[^>]*aria-pressed="(\w+)"[^>]*>.*?</svg>([^<]+)<', section))
    found = re.findall(r'data-chip="([^"]+)"[^>]*aria-pressed="(\w+)"', section)
    assert dict(found) == {"prgd": "true", "rgd": "true", "shampoo": "true", "niht": "true", "auto": "false"}, chips
    assert 'data-key="auto" hidden' in section
    assert 'data-key="prgd" hidden' not in section


def test_one_cause_of_failed_claims_is_named_at_the_top(page):
    text = page.read_text(encoding="utf-8")
    judged = judge(load(page.parent))
    failed = [one for one in judged if one.verdict == "not"]
    alike = [one for one in failed if one.claim.experiment.startswith(("sensing", "phase"))]
    assert f"{len(alike)} of the {len(failed)} claims that are not reproduced have one cause" in text


# -- in a browser ------------------------------------------------------------------------------------------------------
WATCH = """<script>
window.said = [];
for (const kind of ["error", "warn"]) {
  const old = console[kind];
  console[kind] = (...all) => { window.said.push(kind + ": " + all.join(" ")); old.apply(console, all); };
}
window.addEventListener("error", (event) => window.said.push("error: " + event.message));
window.addEventListener("unhandledrejection", (event) => window.said.push("rejected: " + event.reason));
</script>"""

PROBE = """<script>
(async function () {
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const $ = (selector) => Array.from(document.querySelectorAll(selector));
  const lines = () => new Set($("#completion-size .chart [data-key]").filter((one) => one.getClientRects().length)
    .map((one) => one.dataset.key)).size;
  const shown = () => $(".claims > tbody > tr").filter((row) => row.getClientRects().length).length;
  const out = {};
  out.plots = $(".panel:not([hidden]) .chart").length;
  out.drawn = $(".chart").filter((plot) => plot.querySelector("svg path") && plot.getBoundingClientRect().height > 100).length;
  out.inside = $(".chart").every((plot) => plot.getBoundingClientRect().right <= document.documentElement.clientWidth + 1);
  out.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;

  out.lines = lines();
  const chip = document.querySelector('#completion-size .chip[data-chip="rgd"]');
  chip.click(); await wait(300);
  out.off = [chip.getAttribute("aria-pressed"), lines()];
  chip.click(); await wait(300);
  out.on = [chip.getAttribute("aria-pressed"), lines()];
  chip.dispatchEvent(new MouseEvent("dblclick", { bubbles: true })); await wait(300);
  out.alone = lines();

  const map = document.querySelector('#sensing-success .chip[data-chip="prgd"]');
  map.click(); await wait(300);
  out.maps = $("#sensing-success .panel").filter((panel) => !panel.hidden).length;

  out.claims = shown();
  document.querySelector('.tile[data-verdict="not"]').click();
  out.filtered = [shown(), $('.claims > tbody > tr[data-verdict="not"]').length];
  document.querySelector('.tile[data-verdict="not"]').click();
  out.back = shown();

  out.said = window.said;
  const probe = document.createElement("pre");
  probe.id = "probe";
  probe.textContent = JSON.stringify(out);
  document.body.appendChild(probe);
})();
</script>"""


def browse(page, folder, *options: str) -> dict:
    """Open the page in headless Chromium, play with it, and return what was seen."""
    text = page.read_text(encoding="utf-8").replace("<head>", "<head>" + WATCH, 1)
    copy = folder / "probed.html"
    copy.write_text(text.replace("</body></html>", PROBE + "</body></html>"), encoding="utf-8")
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=60000", *options, "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the browser gave no answer: {done.stderr[-2000:]}"
    return json.loads(html.unescape(found[1]))


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    "options",
    [("--window-size=1400,900",), ("--window-size=500,800", "--blink-settings=preferredColorScheme=0")],
    ids=["laptop", "small-dark"],
)
def test_in_a_browser(page, tmp_path, options):
    seen = browse(page, tmp_path, *options)
    assert seen["said"] == []  # no errors, no warnings
    assert seen["plots"] == seen["drawn"] > 20
    assert seen["inside"]
    assert not seen["wide"]  # nothing sticks out to the right

    assert seen["lines"] == 4  # the methods of the paper
    assert seen["off"] == ["false", 3]
    assert seen["on"] == ["true", 4]
    assert seen["alone"] == 1
    assert seen["maps"] == 2  # three methods of the paper, one of them switched off

    assert seen["claims"] == seen["back"] == len(CLAIMS)
    assert seen["filtered"][0] == seen["filtered"][1] < len(CLAIMS)
