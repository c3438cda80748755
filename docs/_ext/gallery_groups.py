"""The gallery's front page: examples grouped by kind of data, each with the central part of its picture.

sphinx-gallery writes docs/gallery/index.rst with all examples in one list; here that list is cut and put together again. An
example that no group names is a warning, and so an error of ``make docs``.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image
from sphinx.util import logging

# Each example with the part of its first picture, from left to right, that its thumbnail shows.
GROUPS: dict[str, dict[str, tuple[float, float]]] = {
    "Ratings and recommendations": {
        "ratings": (0.34, 0.7),
        "clicks": (0.32, 1),
        "stars": (0, 0.5),
        "one_bit_ratings": (0, 0.69),
    },
    "Tables, series and sensors": {
        "traffic": (0.42, 1),
        "sensors_days_hours": (0, 0.64),
        "stuck_sensors": (0.5, 1),
        "how_sure": (0, 0.5),
        "spectra": (0.34, 0.69),
        "seasonal_gaps": (0, 1),
    },
    "Images, signals and tensors": {
        "image": (0, 0.67),
        "phase_image": (0, 0.45),
        "video_background": (0.5, 1),
        "tensor": (0, 0.53),
        "nmr": (0, 1),
        "tomography": (0, 1),
    },
    "Matrix completion": {
        "front_page": (0, 0.67),
        "choosing_the_rank": (0, 0.37),
        "outliers": (0, 1),
        "uneven": (0.52, 1),
    },
    "Custom operators": {
        "your_own_operator": (0, 0.315),
        "distances": (0.58, 1),
        "blind_deconvolution": (0, 0.66),
        "multitask": (0, 1),
    },
    "Theory and the paper": {
        "figure_one": (0, 1),
        "prgd_and_rgd": (0, 0.33),
        "geometry": (0, 1),
        "why_the_metric": (0.34, 1),
    },
    "Large data": {
        "partitions": (0, 0.5),
        "gpu": (0, 1),
    },
}
# Where to read on below each example: in the texts' own words, as links of reStructuredText.
READ_ON = {
    "Ratings and recommendations": ":doc:`/ratings`, :doc:`/losses`, :doc:`/guides/result`",
    "Tables, series and sensors": ":doc:`/tables`, :doc:`/losses`, :doc:`/guides/result`",
    "Images, signals and tensors": ":doc:`/guides/sensing`, :doc:`/losses`, :doc:`/guides/extending`",
    "Matrix completion": ":doc:`/guides/completion`, :doc:`/guides/result`, :doc:`/losses`",
    "Custom operators": ":doc:`/guides/extending`, :doc:`/guides/sensing`, :doc:`/solvers`",
    "Theory and the paper": ":doc:`/theory/index`, :doc:`/notation`, :doc:`/reproduction/README`",
    "Large data": ":doc:`/scale`, :doc:`/guides/gpu`, :doc:`/benchmarks/gpu`",
}
SIZE = (400, 280)
BLOCK = re.compile(r'\.\. raw:: html\n\n    <div class="sphx-glr-thumbcontainer".*?\n    </div>\n', re.DOTALL)
log = logging.getLogger(__name__)


def thumbnail(images: Path, name: str, part: tuple[float, float]) -> None:
    """That part of the first picture, where there is one."""
    picture = images / f"sphx_glr_plot_{name}_001.png"
    if not picture.exists():  # a build that shows texts alone
        return
    whole = Image.open(picture).convert("RGBA")
    cut = whole.crop((int(part[0] * whole.width), 0, int(part[1] * whole.width), whole.height))
    scale = min(SIZE[0] / cut.width, SIZE[1] / cut.height)
    cut = cut.resize((max(1, int(cut.width * scale)), max(1, int(cut.height * scale))), Image.Resampling.LANCZOS)
    sheet = Image.new("RGBA", SIZE)
    sheet.paste(cut, ((SIZE[0] - cut.width) // 2, (SIZE[1] - cut.height) // 2))
    sheet.save(images / "thumb" / f"sphx_glr_plot_{name}_thumb.png")


def arrange(app) -> None:
    folder = Path(app.srcdir) / "gallery"
    index = folder / "index.rst"
    text = index.read_text(encoding="utf-8")
    blocks = {re.search(r":doc:`/gallery/plot_(\w+)`", block)[1]: block for block in BLOCK.findall(text)}
    grouped = [name for names in GROUPS.values() for name in names]
    for name in sorted(set(blocks) ^ set(grouped)):
        log.warning(
            "the example plot_%s is in %s", name, "no group of the gallery" if name in blocks else "a group, and not there"
        )
    parts = [text[: text.index(".. raw:: html")]]
    for title, names in GROUPS.items():
        parts.append(f'{title}\n{"-" * len(title)}\n\n.. raw:: html\n\n    <div class="sphx-glr-thumbnails">\n')
        for name, part in names.items():
            thumbnail(folder / "images", name, part)
            parts.append(blocks.get(name, "").replace("``", ""))
        parts.append(".. raw:: html\n\n    </div>\n")
        listed = "\n".join(f"   /gallery/plot_{name}" for name in names)
        parts.append(f".. toctree::\n   :hidden:\n   :caption: {title}\n\n{listed}\n")
    index.write_text("\n".join(parts), encoding="utf-8")


def without_roles(app) -> None:
    """Notebooks without roles of reStructuredText: names as code, and pages by their place in the documentation."""
    for path in (Path(app.srcdir) / "gallery").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        plain = re.sub(r":doc:`/?([^`<]+)`", r"*\1* (documentation)", text)
        plain = re.sub(r":(?:py:)?[a-z]+:`~?([^`<]+)`", r"``\1``", plain)
        if plain != text:
            path.write_text(plain, encoding="utf-8")


def read_on(app, name, source) -> None:
    """A line below the pictures of an example, above its downloads."""
    found = re.fullmatch(r"gallery/plot_(\w+)", name)
    group = next((title for title, names in GROUPS.items() if found and found[1] in names), None)
    if group:
        head, mark, rest = source[0].rpartition(".. rst-class:: sphx-glr-timing")
        source[0] = f"{head}Read on: {READ_ON[group]}.\n\n{mark}{rest}" if mark else source[0]


def setup(app):
    app.connect("builder-inited", arrange, priority=900)  # after sphinx-gallery
    app.connect("builder-inited", without_roles, priority=900)
    app.connect("source-read", read_on)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
