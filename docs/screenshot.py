"""A picture of a report, taken in headless Chromium: ``screenshot.py PAGE PICTURE``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTH, SHOWN = 1240, 1640
COLOURS = 256  # a palette keeps the file small


def main(page: Path, picture: Path) -> None:
    """Answers, table and samples on the left; slider, plots and the auditor's part on the right."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("#angles .main-svg")
        tab.wait_for_timeout(500)  # plotly moves labels once more
        tops = {name: _top(tab, name) for name in ("radius", "gallery", "auditor")}
        whole = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB")
        browser.close()
    left = [(0, tops["radius"]), (tops["gallery"], tops["auditor"])]
    right = [(tops["radius"], tops["gallery"]), (tops["auditor"], whole.height)]
    columns = [_stacked(whole, parts) for parts in (left, right)]
    height = min(column.height for column in columns)
    both = Image.new("RGB", (2 * WIDTH, height), "white")
    for number, column in enumerate(columns):
        both.paste(column, (number * WIDTH, 0))
    small = both.resize((SHOWN, height * SHOWN // both.width), Image.Resampling.LANCZOS)
    picture.parent.mkdir(parents=True, exist_ok=True)
    palette = small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    small.quantize(palette=palette, dither=Image.Dither.NONE).save(picture, optimize=True)


def _top(tab: Page, section: str) -> int:
    box = tab.locator(f"section[aria-labelledby={section}]").bounding_box()
    assert box is not None
    return int(box["y"])


def _stacked(whole: Image.Image, parts: list[tuple[int, int]]) -> Image.Image:
    made = Image.new("RGB", (WIDTH, sum(bottom - top for top, bottom in parts)), "white")
    place = 0
    for top, bottom in parts:
        made.paste(whole.crop((0, top, WIDTH, bottom)), (0, place))
        place += bottom - top
    return made


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
