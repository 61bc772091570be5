"""The page as text: whole, small enough, and safe whatever the names are."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import torch

import attribound as ab
from attribound.basics.errors import InputError
from attribound.data.examples import InMemory
from attribound.report import export, write_html
from attribound.report.gallery import BYTES
from attribound.report.groups import groups
from attribound.report.page import render
from attribound.report.page_data import ROWS, page_data, script_json
from attribound.results import claims
from report import cases


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data) -> None:
        self.texts.append(data)


def parsed(html: str) -> Elements:
    parser = Elements()
    parser.feed(html)
    return parser


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("page") / "run", shape=(1, 28, 28))


@pytest.fixture(scope="module")
def html(run):
    return render(run)


def hostile(elements: Elements) -> bool:
    scripts = [attributes for tag, attributes in elements.tags if tag == "script"]
    pictures = [attributes for tag, attributes in elements.tags if tag == "img"]
    return len(scripts) != 3 or any("onerror" in attributes for attributes in pictures)


def test_names_become_text_and_nothing_else(html) -> None:
    elements = parsed(html)
    assert not hostile(elements)
    assert any(cases.HOSTILE in text for text in elements.texts)


def test_the_check_would_find_a_name_that_was_not_escaped(html) -> None:
    assert hostile(parsed(html.replace("&lt;", "<").replace("&gt;", ">").replace("&#34;", '"')))


def test_nothing_is_loaded_from_elsewhere(html) -> None:
    for tag, attributes in parsed(html).tags:
        for name in ("src", "href", "action", "poster", "srcset"):
            value = attributes.get(name)
            own = value is None or value.startswith(("data:image/", "#"))
            assert own, (tag, value)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe-inline&#39;; img-src" in policy  # for styles only
    assert policy.count("sha256-") == 2


def test_everything_is_labelled(html) -> None:
    elements = parsed(html)
    labels = {
        attributes["for"] for tag, attributes in elements.tags if tag == "label" and attributes
    }
    assert {"group", "epsilon"} <= labels
    assert all(attributes.get("alt") for tag, attributes in elements.tags if tag == "img")
    assert all(attributes.get("scope") for tag, attributes in elements.tags if tag == "th")
    assert ("html", {"lang": "en"}) in elements.tags


def test_claims_have_their_meaning_and_the_run_its_command(html) -> None:
    text = " ".join(parsed(html).texts)
    for claim in claims():
        made = claim.method is None or claim.method.needs_slopes  # as the run has them
        assert (claim.promise in text) == made
    assert "attribound audit --config audit.toml" in text
    assert "sha256:model" in text


def test_the_page_goes_into_the_run_and_is_small_enough(run) -> None:
    path = write_html(run)
    assert path == run.path / "report.html"
    assert path.stat().st_size < 6_000_000


def test_the_largest_page_is_small_enough(tmp_path, html) -> None:
    """Rows and pictures are limited, so that no run makes a page of more than 6 MB."""
    chosen = cases.settings(limit=600, batch=600, attributions=(ab.Saliency(),))
    run = cases.run(tmp_path / "run", chosen, shape=(2,))
    rows = len(script_json(page_data(groups(run.rows()), cases.CLASSES)))
    assert ROWS > 4 * 600
    rows = rows * ROWS // (4 * 600)
    most = len(html.encode()) + rows + BYTES  # more than it can be: this page has both already
    assert most < 6_000_000


def test_rows_of_features_and_unfinished_runs_have_pages(tmp_path) -> None:
    chosen = cases.settings(attributions=(ab.Saliency(),), claims=("first_order", "adjusted"))
    run = cases.run(tmp_path / "run", chosen, shape=(13,), batches=1)
    html = render(run)
    assert "not finished; samples missing: 16" in html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])
    assert [*data["claims"]] == ["first_order", "adjusted"]


def test_a_run_that_was_only_begun_has_a_page(tmp_path) -> None:
    html = render(cases.run(tmp_path / "run", batches=0))
    assert "samples missing: 24" in html
    assert "<script" not in html


def test_long_settings_are_cut_and_do_not_fill_the_page(tmp_path, html) -> None:
    """A unit for each pixel of a large image is in run.json, not twice in the page."""
    ball = ab.L2Ball(0.1, scale=torch.rand(3, 224, 224))
    run = cases.run(tmp_path / "run", document={"balls": [ab.to_spec(ball, whole=True)]})
    found = render(run)
    assert "The settings are too long for a page; run.json of the run has them." in found
    assert len(found) < len(html) + 100_000


def test_every_setting_is_listed_and_a_value_is_one_line(html) -> None:
    listed = dict(re.findall(r"<dt>(settings[^<]*)</dt><dd>([^<]*)</dd>", html))
    assert listed["settings.limit"] == "24"
    assert listed["settings.balls 3"] == "linf:epsilon=0.01,low=0.0,high=1.0"
    assert listed["settings.attacks.ascent"].startswith("ascent:objective=distance,steps=")
    assert "settings.weights" not in listed


def test_what_is_missing_is_named(run, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(InputError, match=r"pip install 'attribound\[audit\]'"):
        render(run)


def test_names_turn_no_line_around_and_move_no_cursor(tmp_path) -> None:
    """Class names and ids with control characters and marks of direction, in page and CSV."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    sly = ["a\u202eb\x1b[31m\x07", "x\u2066y\x9b2J", "z\x7f"]
    examples = InMemory("d\u202ed", torch.rand(3, 6), torch.tensor([0, 1, 2]), sly)
    examples.ids = ("1\x1b[2J", "2\u202e", "3\x9b")
    run = ab.audit(net, examples, attributions="saliency", balls=ab.L2Ball(0.1))
    html = render(run)
    (path, *_) = export(run, "csv", tmp_path / "rows.csv")
    for text in (html, path.read_text()):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]", text)
    assert "a\\u202eb\\u001b[31m" in html
    assert "1\\x1b[2J" in path.read_text()
    data = re.search('<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert json.loads(data[1])
