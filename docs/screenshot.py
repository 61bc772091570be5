"""Pictures of a report, taken in headless Chromium: ``screenshot.py PAGE PICTURE [VIEWS]``.

PICTURE is the page on a desktop; VIEWS what it is on a phone, in the dark, and printed. If PAGE is
the folder of the site, PICTURE shows its home and a page of the API, on a desktop, on a phone and
in the dark.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTH, SHOWN = 1240, 1640
PHONE, PAPER, HEIGHT = 390, 760, 1500  # widths in pixels; what is shown of the views
SCREEN = 1100  # height of what is shown of the site
COLOURS = 256  # a palette keeps the file small


def main(page: Path, picture: Path, views: Path | None = None) -> None:
    """Take them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if page.is_dir():
            _save(_site(browser, page), picture)
        else:
            _save(_desktop(_opened(browser, page, WIDTH)), picture)
        if views is not None:
            _save(_views(browser, page), views)
        browser.close()


def _site(browser: Browser, folder: Path) -> Image.Image:
    """Home and API above each other on a desktop, both on a phone, home in the dark."""
    home, room = folder / "index.html", folder / "api_balls.html"
    rows = [
        [(home, WIDTH, "light"), (home, PHONE, "light"), (room, PHONE, "dark")],
        [(room, WIDTH, "light"), (home, PHONE, "dark"), (room, PHONE, "light")],
    ]
    made = [_beside([_screen(browser, *shown) for shown in row], SCREEN) for row in rows]
    whole = Image.new("RGB", (made[0].width, 2 * SCREEN), "white")
    for number, row in enumerate(made):
        whole.paste(row, (0, number * SCREEN))
    return whole


def _screen(browser: Browser, page: Path, width: int, scheme: str) -> Image.Image:
    """What a reader sees first."""
    tab = browser.new_page(viewport={"width": width, "height": SCREEN}, color_scheme=scheme)
    tab.goto(page.resolve().as_uri())
    tab.wait_for_timeout(500)  # the theme moves its menus
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


def _opened(browser: Browser, page: Path, width: int, scheme: str = "light") -> Page:
    tab = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("#angles .main-svg")
    tab.wait_for_timeout(500)  # plotly moves labels once more
    return tab


def _desktop(tab: Page) -> Image.Image:
    """Answers, table and samples on the left; slider, plots and the auditor's part on the right."""
    tops = {name: _top(tab, name) for name in ("radius", "gallery", "auditor")}
    whole = _shot(tab)
    left = [(0, tops["radius"]), (tops["gallery"], tops["auditor"])]
    right = [(tops["radius"], tops["gallery"]), (tops["auditor"], whole.height)]
    columns = [_stacked(whole, parts) for parts in (left, right)]
    return _beside(columns, min(column.height for column in columns))


def _views(browser: Browser, page: Path) -> Image.Image:
    """The beginning on a phone, the samples in the dark, the auditor's part on paper."""
    first = _shot(_opened(browser, page, PHONE)).crop((0, 0, PHONE, HEIGHT))
    dark = _opened(browser, page, PHONE, "dark")
    names = ("reasons", "gallery")
    section = next(name for name in names if dark.locator(f"#{name}").count())
    top = _top(dark, section)
    second = _shot(dark).crop((0, top, PHONE, top + HEIGHT))
    paper = _opened(browser, page, PAPER)
    paper.evaluate("document.body.classList.add('alone')")
    paper.emulate_media(media="print")
    paper.evaluate("dispatchEvent(new Event('beforeprint'))")
    third = _shot(paper)
    return _beside([first, second, third], HEIGHT)


def _shot(tab: Page) -> Image.Image:
    return Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB")


def _beside(columns: list[Image.Image], height: int) -> Image.Image:
    both = Image.new("RGB", (sum(column.width for column in columns), height), "white")
    place = 0
    for column in columns:
        both.paste(column, (place, 0))
        place += column.width
    return both


def _save(picture: Image.Image, path: Path) -> None:
    width = min(SHOWN, picture.width)
    size = (width, picture.height * width // picture.width)
    small = picture.resize(size, Image.Resampling.LANCZOS)
    path.parent.mkdir(parents=True, exist_ok=True)
    palette = small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    reduced = small.quantize(palette=palette, dither=Image.Dither.NONE)
    reduced.putpalette(_commonest(small, reduced))
    reduced.save(path, optimize=True)


def _commonest(picture: Image.Image, reduced: Image.Image) -> bytes:
    """Of every place in a palette the colour that most of its pixels have: greys stay grey."""
    pixels, places = np.asarray(picture).reshape(-1, 3), np.asarray(reduced).ravel()
    colours = np.zeros((COLOURS, 3), dtype=np.uint8)
    for place in np.unique(places):
        found, counts = np.unique(pixels[places == place], axis=0, return_counts=True)
        colours[place] = found[counts.argmax()]
    return colours.tobytes()


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
    main(*map(Path, sys.argv[1:]))
