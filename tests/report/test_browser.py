"""The page in headless Chromium: right numbers, no errors, no network, nothing run by names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attribound.auditing.summary import summarise
from attribound.report import write_html
from attribound.report.groups import groups
from attribound.report.radius import attack_at, bound_at, degrees
from report import cases
from shared import needed

CHROMIUM = Path("/usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("browser") / "run")


@pytest.fixture(scope="module")
def browser():
    needed(CHROMIUM, "apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Seen:
    """A page with everything it said, asked for or popped up."""

    def __init__(self, browser, path: Path, **context: object) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("console", lambda said: self.errors.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.route("**/*", self._only(path))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#angles .main-svg")

    def _dismiss(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _only(self, path: Path):
        def decide(route) -> None:
            url = route.request.url
            if url == path.as_uri() or url.startswith("data:"):
                route.continue_()
            else:
                self.requests.append(url)
                route.abort()

        return decide

    def table(self) -> dict[str, list[str]]:
        """The texts of the live table by claim."""
        return self.page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('#live tbody tr')].map("
            "r => [r.dataset.claim, [...r.cells].slice(1).map(c => c.textContent)]))"
        )

    def move(self, epsilon: float) -> None:
        self.page.evaluate(
            "e => { const s = document.getElementById('epsilon'); s.value = e;"
            "s.dispatchEvent(new Event('input')); }",
            epsilon,
        )


@pytest.fixture(scope="module")
def seen(browser, run, tmp_path_factory):
    return Seen(browser, write_html(run, tmp_path_factory.mktemp("html") / "report.html"))


def test_names_run_nothing_and_nothing_is_asked_for(seen) -> None:
    seen.page.hover("#scatter")
    seen.page.wait_for_timeout(200)
    assert seen.dialogs == []
    assert seen.errors == []
    assert seen.requests == []
    assert seen.page.locator("img[src=x]").count() == 0


def test_a_hostile_page_would_be_noticed(browser, tmp_path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        f"<div id=angles><svg class=main-svg width=9 height=9></svg></div>{cases.HOSTILE}"
        "<script>console.error('x')</script><img src='http://example.org/x.png'>"
    )
    bad = Seen(browser, path)
    bad.page.wait_for_timeout(200)
    assert bad.dialogs
    assert bad.errors
    assert "http://example.org/x.png" in bad.requests


def test_scripts_of_others_are_refused_by_the_policy(seen) -> None:
    seen.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'alert(3)';"
        "document.body.append(s); }"
    )
    assert seen.dialogs == []
    assert any("Content Security Policy" in error for error in seen.errors)
    seen.errors.clear()


def test_at_a_measured_radius_the_table_is_the_summary(seen, run) -> None:
    summary = next(
        each
        for each in summarise(run.rows())
        if (each.attribution, each.ball, each.epsilon) == ("saliency", "l2", 0.05)
    )
    seen.page.select_option("#group", label="saliency, l2")
    seen.page.click("#stops button:text-is('0.05')")
    table = seen.table()
    for name, claim in summary.claims.items():
        mean, _, angle, unlimited, exceeded, source = table[name]
        if np.isfinite(claim.mean):
            assert float(mean) == pytest.approx(claim.mean, rel=1e-3)
        else:
            assert mean == "∞"
        assert float(angle) == pytest.approx(claim.degrees, rel=1e-3)
        assert unlimited == f"{claim.open} of {claim.n}"
        assert exceeded == f"{claim.exceeded.count} of {claim.exceeded.n}"
        assert source == "measured"
    assert float(table["attack"][0]) == pytest.approx(summary.best.mean, rel=1e-3)
    assert float(table["attack"][2]) == pytest.approx(summary.best.degrees, rel=1e-3)


@pytest.mark.parametrize("ball", ["l2", "linf"])
@pytest.mark.parametrize("share", [0.3, 0.77, 1.4])
def test_the_slider_gives_the_numbers_of_python(seen, run, ball, share) -> None:
    group = next(
        each for each in groups(run.rows()) if (each.attribution, each.ball) == ("saliency", ball)
    )
    seen.page.select_option("#group", label=f"saliency, {ball}")
    epsilon = share * group.epsilons[-1]
    seen.move(epsilon)
    table = seen.table()
    attack = attack_at(epsilon, group.attacks())
    norms = group.constant("attribution_norm")
    for claim in group.claims:
        row = table[claim.name]
        bound = bound_at(epsilon, group.bounds(claim), claim.moves, group.linear)
        if bound is None:
            assert row == ["-"] * 5 + ["not known at this radius"]
            continue
        angles = degrees(bound, norms)
        assert float(row[0]) == pytest.approx(np.nanmean(bound), rel=1e-3)
        assert float(row[1]) == pytest.approx(np.nanmax(bound), rel=1e-3)
        middle = float(np.nanmedian(angles))
        assert float(row[2].replace("open", "180")) == pytest.approx(middle, rel=1e-3)
        assert row[3] == f"{(angles == 180).sum()} of 23"
        exceeded = "-" if attack is None else f"at least {(attack > bound).sum()} of 23"
        assert row[4] == exceeded
    assert (table["attack"][0] == "-") == (attack is None)


def test_angles_of_the_page_are_those_of_the_library(seen) -> None:
    deviations = [0.0, 1e-9, 0.3, 0.999999, 1.0, 2.0, float("inf"), 0.0, 0.5]
    norms = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    found = [
        seen.page.evaluate(
            "([d, n]) => attribound.degrees(d === 'inf' ? Infinity : d, n)",
            ["inf" if d == float("inf") else d, n],
        )
        for d, n in zip(deviations, norms, strict=True)
    ]
    assert found == pytest.approx(degrees(np.array(deviations), np.array(norms)), rel=1e-12)


def test_the_plots_follow_the_slider(seen) -> None:
    seen.page.select_option("#group", label="saliency, l2")
    read = (
        "[document.getElementById('scatter').data[0].x[0], "
        "document.getElementById('curve').layout.shapes[0].x0]"
    )
    seen.move(0.03)
    before = seen.page.evaluate(read)
    seen.move(0.06)
    after = seen.page.evaluate(read)
    assert after[0] == pytest.approx(2 * before[0], rel=1e-6)
    assert [before[1], after[1]] == [0.03, 0.06]


def test_logarithmic_axes_have_whole_numbers(seen) -> None:
    """0.2 and 0.5, where plotly writes 2 and 5."""
    read = "(() => { const { xaxis } = document.getElementById('scatter').layout;"
    read += "return [xaxis.type, xaxis.tickvals, xaxis.ticktext]; })()"
    kind, values, texts = seen.page.evaluate(read)
    assert kind == "log"
    assert [float(text) for text in texts] == values
    drawn = "[...document.querySelectorAll('#scatter .xtick text')].map(t => t.textContent)"
    assert {*seen.page.evaluate(drawn)} <= {*texts}
    seen.page.uncheck("#log")
    assert seen.page.evaluate(read)[0] == "linear"
    seen.page.check("#log")


def test_what_is_wider_than_a_phone_says_so_and_maps_stand_side_by_side(browser, seen) -> None:
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path, viewport={"width": 390, "height": 800})
    hinted = """[...document.querySelectorAll('.scroll')].filter(
        b => b.scrollWidth > b.clientWidth + 1).map(b => b.previousElementSibling.className)"""
    assert {*shown.page.evaluate(hinted)} == {"hint"}
    tops = """[...document.querySelector('.block:not([hidden]) .card').querySelectorAll('figure')]
        .map(f => [f.querySelector('img').alt.split(': ')[1], f.offsetTop])"""
    placed = dict(shown.page.evaluate(tops))
    maps = ("its attribution", "attacked attribution", "difference of attributions")
    assert len({placed[name] for name in maps}) == 1
    assert placed["input"] == placed["attacked input"] < placed["its attribution"]
    shown.page.set_viewport_size({"width": 2000, "height": 800})
    shown.page.wait_for_timeout(100)
    assert shown.page.locator(".hint").count() == 0
    shown.context.close()


def test_the_part_for_an_auditor_prints_alone(browser, seen) -> None:
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path)
    shown.page.evaluate("() => { window.print = () => dispatchEvent(new Event('beforeprint')); }")
    shown.page.emulate_media(media="print")
    shown.page.click("#print", force=True) if shown.page.is_visible("#print") else (
        shown.page.evaluate("document.getElementById('print').click()")
    )
    seen_ = "[...document.querySelectorAll('main > section')].filter(s => s.offsetHeight).map("
    assert shown.page.evaluate(seen_ + "s => s.className)") == ["auditor"]
    assert shown.page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    shown.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(shown.page.evaluate(seen_ + "s => s.className)")) > 3
    assert not shown.page.evaluate("[...document.querySelectorAll('details')].some(d => d.open)")
    assert shown.errors == []
    shown.context.close()


def test_hovering_a_dot_tells_its_sample(seen) -> None:
    text = seen.page.evaluate("document.getElementById('scatter').data[0].text[1]")
    assert text.startswith("sample 110, class &lt;/script&gt;")
    assert "bound" in text
    assert "attack" in text


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)]
)
def test_it_fits_every_screen_in_both_schemes(browser, seen, scheme, width, tmp_path) -> None:
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path, color_scheme=scheme, viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    colour = shown.page.evaluate("document.getElementById('scatter').layout.font.color")
    assert colour == {"light": "#1c2024", "dark": "#e6e9ec"}[scheme]
    shot = tmp_path / "page.png"
    shown.page.screenshot(path=shot)
    assert shot.stat().st_size > 10_000
    assert shown.errors == []
    shown.context.close()


def test_printed_it_shows_every_setting_in_black_on_white(browser, seen, tmp_path) -> None:
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path, color_scheme="dark")
    blocks = "[...document.querySelectorAll('.block')].filter(b => !b.hidden).length"
    assert shown.page.evaluate(blocks) == 1
    shown.page.emulate_media(media="print")
    shown.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.page.evaluate(blocks) == 4
    read = "getComputedStyle(document.body).backgroundColor"
    assert shown.page.evaluate(read) == "rgb(255, 255, 255)"
    assert shown.page.evaluate("document.getElementById('curve').layout.font.color") == "#000"
    shown.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.page.evaluate(blocks) == 1
    shown.context.close()


def test_plots_fit_the_paper_they_are_printed_on(browser, seen) -> None:
    """A page is drawn for the screen, and then told to fit the width of paper."""
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path, viewport={"width": 1200, "height": 800})
    ends = "[...document.querySelectorAll('.plots svg')].map(s => s.getBoundingClientRect().right)"
    wide = max(shown.page.evaluate(ends))
    shown.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.page.emulate_media(media="print")
    shown.page.set_viewport_size({"width": 700, "height": 1000})
    assert max(shown.page.evaluate(ends)) <= 700 < wide
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 700
    shown.page.evaluate("dispatchEvent(new Event('afterprint'))")
    shown.page.emulate_media(media="screen")
    shown.page.set_viewport_size({"width": 1200, "height": 800})
    for _ in range(100):  # resizing is not at once; the page lets nobody wait by a text of code
        if abs(max(shown.page.evaluate(ends)) - wide) < 2:
            break
        shown.page.wait_for_timeout(100)
    assert max(shown.page.evaluate(ends)) == pytest.approx(wide, abs=2)
    shown.context.close()


def test_on_a_phone_what_a_row_is_about_stays_in_sight(browser, seen) -> None:
    path = Path(seen.page.url.removeprefix("file://"))
    shown = Seen(browser, path, viewport={"width": 390, "height": 800})
    left = "document.querySelector('#summary tbody tr:nth-child(2) th').getBoundingClientRect().x"
    before = shown.page.evaluate(left)
    shown.page.evaluate("document.querySelector('#summary').parentElement.scrollLeft = 150")
    assert shown.page.evaluate(left) == pytest.approx(before, abs=1)
    assert shown.page.evaluate("document.querySelector('#summary').parentElement.scrollLeft") == 150
    shown.context.close()


def test_claims_that_nobody_knows_here_are_shown_and_run_nothing(browser, tmp_path) -> None:
    names = {"first_order": 1.0, "attack": 1.1, cases.HOSTILE: 0.2}
    run = cases.run(tmp_path / "run", claims=names)
    shown = Seen(browser, write_html(run))
    heads = "[...document.querySelectorAll('#live tbody th')].map(h => h.textContent)"
    titles = ["first-order", "attack", "strongest attack"]
    assert sorted(shown.page.evaluate(heads)) == sorted([*titles, cases.HOSTILE])
    colours = "document.getElementById('scatter').data.map(d => d.marker?.color ?? d.line.color)"
    assert shown.page.evaluate(colours) == ["#d55e00", "#666666", "#666666", "#888888"]
    shown.move(0.07)
    known = "[...document.querySelectorAll('#live tbody tr')].map(r => r.cells[6].textContent)"
    assert shown.page.evaluate(known).count("not known at this radius") == 2
    assert shown.dialogs == []
    assert shown.errors == []
    shown.context.close()


@pytest.fixture(scope="module")
def copied(browser, tmp_path_factory):
    """A run with a smooth copy, calibrated bounds of the network itself, and its page."""
    chosen = cases.Copied(1.4, own=("calibrated",))
    made = cases.run(tmp_path_factory.mktemp("copied") / "run", copied=chosen)
    return made, Seen(browser, write_html(made))


def test_the_verdict_has_two_parts_and_only_the_copy_is_praised(copied) -> None:
    run, shown = copied
    read = """[...document.querySelectorAll('h3.network')].map(h => {
        let list = h; while (list.tagName !== 'UL') list = list.nextElementSibling;
        return [h.textContent, [...list.children].map(li => [li.className, li.textContent])];
    })"""
    (yours, said), (copy, of_copy) = shown.page.evaluate(read)
    assert (yours, copy) == ("Your network", "Its smooth copy, β = 20")
    flags = [each for each in run.bounds().to_pylist() if each["claim"] == "first_order"]
    count = sum(bool(each["yours_exceeded"]) for each in flags)
    first = next(text for _, text in said if text.startswith("first-order"))
    assert f"exceeded {count} of {23 * 8} bounds" in first
    assert "good" not in {tone for tone, _ in said}
    # One map is zero and one sample failed: not even the certificates are all good.
    assert "good" not in {tone for tone, _ in of_copy}
    assert shown.errors == []


def test_the_live_table_counts_for_both_networks(copied) -> None:
    run, shown = copied
    summary = next(
        each
        for each in summarise(run.rows())
        if (each.attribution, each.ball, each.epsilon) == ("saliency", "l2", 0.05)
    )
    shown.page.select_option("#group", label="saliency, l2")
    shown.page.click("#stops button:text-is('0.05')")
    table = shown.table()
    differ = 0
    for name, claim in summary.claims.items():
        own, yours = table[name][4:6]
        assert own == f"{claim.exceeded.count} of {claim.exceeded.n}"
        assert yours == f"{claim.yours.count} of {claim.yours.n}"
        assert float(table[name][2]) == pytest.approx(claim.degrees, rel=1e-3)
        differ += own != yours
    assert differ
    assert float(table["attack"][0]) == pytest.approx(summary.yours.mean, rel=1e-3)
    assert float(table["attack on the copy"][0]) == pytest.approx(summary.best.mean, rel=1e-3)
    heads = "[...document.querySelectorAll('#live tbody th')].map(h => h.textContent)"
    assert shown.page.evaluate(heads) == [
        "first-order, of its smooth copy, β = 20",
        "adjusted, of its smooth copy, β = 20",
        "calibrated, of your network",
        "mean-value (searched), of its smooth copy, β = 20",
        "certified, of its smooth copy, β = 20",
        "strongest attack on your network",
        "strongest attack on its smooth copy, β = 20",
    ]


def test_between_the_radii_both_networks_have_their_own_attacks(copied) -> None:
    run, shown = copied
    group = next(
        each for each in groups(run.rows()) if (each.attribution, each.ball) == ("saliency", "l2")
    )
    shown.page.select_option("#group", label="saliency, l2")
    shown.move(0.077)
    table = shown.table()
    for claim in group.claims:
        bound = bound_at(0.077, group.bounds(claim), claim.moves, group.linear)
        if bound is None:
            assert table[claim.name] == ["-"] * 6 + ["not known at this radius"]
            continue
        for at, attacks in ((4, group.attacks()), (5, group.yours())):
            over = int((attack_at(0.077, attacks) > bound).sum())
            assert table[claim.name][at] == f"at least {over} of 23"


def test_plots_name_the_network_that_was_attacked(copied) -> None:
    _, shown = copied
    shown.page.select_option("#group", label="saliency, l2")
    shown.page.click("#stops button:text-is('0.1')")
    read = """(() => { const plot = document.getElementById('scatter');
        const gaps = document.getElementById('gaps');
        return [plot.layout.yaxis.title.text, gaps.layout.xaxis.title.text,
            document.querySelector('.attacked').textContent, plot.data[0].y[0],
            plot.data.map(d => d.name)]; })()"""
    axis, gaps, caption, yours, names = shown.page.evaluate(read)
    assert axis == "attack on your network"
    assert gaps.endswith(" attack on your network / bound")
    assert caption == "your network"
    assert "calibrated, of your network" in names
    shown.page.select_option("#network", "copy")
    axis, _, caption, copy, names = shown.page.evaluate(read)
    assert axis == "attack on its smooth copy, β = 20"
    assert caption == "its smooth copy, β = 20"
    assert yours == pytest.approx(1.4 * copy, rel=1e-5)
    # A bound of the network says nothing of the copy.
    assert "calibrated, of your network" not in names
    shown.page.select_option("#network", "yours")
    lines = shown.page.evaluate("document.getElementById('curve').data.map(d => d.name)")
    assert "strongest attack on your network" in lines
    assert "strongest attack on its smooth copy, β = 20" in lines
    assert shown.errors == []


@pytest.mark.parametrize("width", [1200, 390])
def test_a_page_of_two_networks_fits_every_screen(browser, copied, width) -> None:
    path = Path(copied[1].page.url.removeprefix("file://"))
    shown = Seen(browser, path, viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1200:  # what the copy's bounds are worth is not hidden beyond the edge
        for table in ("summary", "live"):
            edge = (
                f"[...document.querySelectorAll('#{table} thead th')].find(h => "
                "h.textContent === 'exceeded on your network').getBoundingClientRect().right"
            )
            assert shown.page.evaluate(edge) <= width
    shown.context.close()
