"""README and docs: every snippet runs, generated parts are what the code gives."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

import attribound as ab
from attribound.auditing.given import samples_of, settings_of
from attribound.basics.errors import InputError
from attribound.cli.app import app
from attribound.data import NAMES, load
from attribound.models import config_from_json
from shared import shared

ROOT = Path(__file__).resolve().parents[1]


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


render, demo = module(ROOT / "docs" / "render.py"), module(ROOT / "examples" / "demo.py")

SITE, DIVIDE = module(ROOT / "docs" / "site.py"), module(ROOT / "docs" / "divide.py")

README = (ROOT / "README.md").read_text()


#: How many bounds were exceeded; the share follows.
COUNTS = re.compile(r"(\d+) \(\d+\.\d%\)")


def part(name: str) -> str:
    return re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end", README, re.DOTALL)[1]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"(?<![\w'])-?\d+\.?\d*(?:e-?\d+)?", text)]


def test_the_readme_shows_what_its_example_prints() -> None:
    """Words to the letter, numbers to two percent: other processors round differently."""
    shown, printed = part("example output"), f"```text\n{render.run(README)}\n```"
    assert re.findall("[a-zA-Z']+", shown) == re.findall("[a-zA-Z']+", printed)
    assert numbers(shown) == pytest.approx(numbers(printed), rel=0.02, abs=1e-4)


def test_the_example_has_ten_lines() -> None:
    (block,) = render.python_blocks(README)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_readme_shows_what_the_demo_prints_in_its_words() -> None:
    """The numbers are compared by a slow test, as it takes minutes."""
    shown = part("demo output")
    assert re.match(r"```text\n(Proved|Not proved|Contradicted)", shown)  # the answer first
    assert f"runs/demo: {demo.MODEL} on 20 samples of {demo.DATA}" in shown
    made = [claim for claim in ab.claims() if claim.method and claim.method.needs_slopes]
    for words in (*map(str, made), "report.html"):
        assert words in shown


def test_the_demo_calibrates_on_other_images_than_it_audits() -> None:
    sample = load(demo.DATA)
    settings = settings_of(demo.MODEL, demo.DATA, {"limit": 20})
    audited = samples_of(demo.DATA, settings).indices.tolist()
    assert sorted([*audited, *demo.others(sample, 20).tolist()]) == list(range(len(sample)))


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path, monkeypatch) -> None:
    """Words to the letter, counts within two of twenty."""
    monkeypatch.chdir(tmp_path)
    shown, printed = part("demo output"), f"```text\n{render.demo()}\n```"
    assert re.findall("[a-zA-Z']+", shown) == re.findall("[a-zA-Z']+", printed)
    found = [COUNTS.findall(text) for text in (shown, printed)]
    for here, there in zip(*found, strict=True):
        assert [int(count) for count in here] == pytest.approx([int(c) for c in there], abs=2)
    both = [numbers(COUNTS.sub("", text)) for text in (shown, printed)]
    assert both[0] == pytest.approx(both[1], rel=0.1, abs=0.1)


def test_the_screenshot_is_there_and_small() -> None:
    (path,) = re.findall(r"!\[[^]]+\]\((docs/images/\S+)\)", README)
    picture = (ROOT / path).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 300_000


def test_the_readme_links_every_page() -> None:
    linked = re.findall(r"\]\(docs/(\w+)\.md\)", README)
    assert {*linked} == {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_the_readme_has_the_claims_of_the_code() -> None:
    assert part("claims") == render.claims()


#: What the snippets of a page print, among other things.
PAGES = {
    "guide": ["relu in '1' (ReLU)", "derivatives that agree with finite differences", "certified"],
    "calibration": [
        "claim: calibrated",
        "calibration samples: expected 19 or more for alpha=0.05",
        "attribution: expected {'kind': 'ig'",
    ],
    "smoothed": [
        "the averaged map of your network",
        "certified (smoothed)",
        "Largest l2 radius with degrees <= 15 for the averaged map of your network",
        "What stays in the averaged map of your network",
        "'subject': 'averaged'",
    ],
    "reasons": [
        "The 3 largest scores by value of your network",
        "late payments",
        "an attack left",
        "\nTrue\n",
        "money",
        "torch.Size([1, 4, 4])",
        "by value of the averaged map of your network",
        "One category switched: the 2 largest scores",
        "9 reasons",
        "Largest l2 radius with the 3 largest by value kept",
    ],
    "exact_ig": ["your network"],
    "relu": ["claim: certified", "switches"],
    "howto": [
        "J v (2, 6)",
        "trades+igr",
        "the same: True another seed: True",
        "in the ball: True",
        "label kept: True",
        "reasons that surely stay, of 2: [",
    ],
    "models": ["same logits: True", "relu in 'act1' (ReLU)", "SmoothResNet18"],
    "data": [
        "examples of shape (1, 8, 8), 10 classes",
        "mnist: expected t10k-images-idx3-ubyte.gz in ",
        "pass size= to scale and crop",
        "Images('pets', 6 examples of shape (3, 28, 28), 2 classes)",
        "50 25 25 ('left', 'right')",
        "('age', 'housing=own', 'housing=rent') ('no', 'yes') ('ada', 'bob', 'cy')",
        "got nothing in row 2; remove or fill in",
    ],
    "audit": [
        "2 of 2 batches) True 24 rows",
        "'low': 0.0, 'high': 1.0",
        "6 settings",
        "{'converged'}",
        'got model was "sha256:',
    ],
    "training": ["above chance: True", "settings.epochs is 6 there and 7 here"],
    "zoo": ["at on digits: better than chance: True", "expected a model of the zoo"],
    "report": [
        "ot proved",
        "strongest attack",
        "report.html True",
        r"setting & angle $^\circ$ & open & exceeded",
        "6 figures",
        "paired: True samples: 6 True",
        "6 samples; 2 settings; first_order",
    ],
    "sources": [
        "same logits: True",
        "was not opened",
        "converted to float32",
        "missing: 5.weight",
    ],
}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def test_every_page_with_snippets_is_run() -> None:
    with_snippets = {p.stem for p in (ROOT / "docs").glob("*.md") if "```python" in p.read_text()}
    assert with_snippets == {*PAGES, "stories"}


@pytest.mark.parametrize(("name", "expected"), PAGES.items(), ids=PAGES)
def test_pages_run_and_show_what_they_say(name, expected) -> None:
    printed = render.run(page(name))
    for words in expected:
        assert words in printed
    if name == "calibration":
        shares = [int(share) for share in re.findall(r"bound held for (\d+)%", printed)]
        assert shares[0] < shares[1]


def test_the_stories_stand_alone_and_show_what_they_print(monkeypatch) -> None:
    """Words to the letter, numbers nearly: other processors round differently."""
    monkeypatch.setenv("ATTRIBOUND_DATA", str(shared("cifar10").parent))
    text = page("stories")
    shown = re.findall(r"<!-- begin story \d -->\n```text\n(.*?)\n```", text, re.DOTALL)
    titles, printed, begun = [], [], time.process_time()
    for title, told in render.stories(text):
        titles.append(title)
        printed += told
        assert time.process_time() - begun < 120, title  # seconds that a story may take
        begun = time.process_time()
    assert re.findall(r"^\| \[([^]]+)\]", text, re.MULTILINE) == titles
    assert len(titles) == 5
    for before, now in zip(shown, printed, strict=True):
        assert re.findall("[a-zA-Z']+", before) == re.findall("[a-zA-Z']+", now)
        assert numbers(before) == pytest.approx(numbers(now), rel=0.05, abs=0.11)


def wanted() -> list[str]:
    """The third column of the table of what is wanted, and how."""
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| `([^`]+)` \|$", page("howto"), re.MULTILINE)
    assert len(rows) >= 10
    return rows


def test_what_is_wanted_is_had_from_python() -> None:
    names: dict[str, Any] = {}
    exec(render.python_blocks(page("howto"))[0], names)
    for snippet in (row for row in wanted() if not row.startswith("attribound ")):
        assert str(eval(snippet, names)), snippet


def test_what_is_wanted_is_had_from_the_command_line(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (row for row in wanted() if row.startswith("attribound ")):
        done = CliRunner().invoke(app, command.split()[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}"
    assert (tmp_path / "runs" / "first" / "report.html").is_file()
    assert (tmp_path / "runs" / "igr" / "model.safetensors").is_file()


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """The pages of the site; MkDocs itself, which `make site` installs, is not needed for them."""
    return SITE.gathered()


def test_links_between_pages_of_the_site_lead_somewhere(site) -> None:
    links = [
        (name, target)
        for name, text in site.items()
        for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text)
    ]
    assert len(links) > 50
    assert [(name, target) for name, target in links if target not in site] == []
    broken = SITE.linked("[a](../docs/guide.md) [b](../CONTRIBUTING.md#adding) [c](docs/x.md)")
    assert broken == "[a](guide.md) [b](contributing.md#adding) [c](x.md)"


def test_links_to_sections_lead_to_the_pages_that_have_them_now(site) -> None:
    heads = {name: {DIVIDE.slug(head) for _, head in DIVIDE.headings(site[name])} for name in site}
    links = [
        (name, page or name, anchor)
        for name, text in site.items()
        for page, anchor in re.findall(r"\]\(([\w.-]+\.md|)#([\w-]+)\)", text)
    ]
    assert len(links) >= 5
    assert [link for link in links if link[2] not in heads[link[1]]] == []


#: A list of what changed has no parts that a reader would look for.
LISTS = {"changelog.md"}


def test_no_page_of_the_site_is_longer_than_three_screens_except_for_tables(site) -> None:
    lengths = {name: DIVIDE.length(text) for name, text in site.items()}
    long = {name for name, screens in lengths.items() if screens > DIVIDE.SCREENS}
    assert {name for name in long if not DIVIDE.is_table(site[name])} <= LISTS
    for name in long - LISTS:  # nothing but the table
        said = re.sub(r"<!-- begin .*|^\|.*|^```text.*?^```$", "", site[name], flags=re.S | re.M)
        assert DIVIDE.length(said) < 1, name


def test_every_page_of_the_site_is_in_its_menu_or_in_the_list_of_its_room(site) -> None:
    entries = [
        {title: names} if (names := re.findall(r"[\w]+\.md", rest)) else {title: []}
        for title, rest in re.findall(
            r"^  - ([\w ]+):(.*?)(?=^  - |\Z)",
            (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2],
            re.MULTILINE | re.DOTALL,
        )
    ]
    menu = re.findall(r"[\w.-]+\.md", json.dumps(SITE.menu(entries, site)))
    rooms = [f"api_{room}.md" for room in SITE.ROOMS]
    of_rooms = [name for room in rooms for name in re.findall(r"\]\((\S+)\) \|", site[room])]
    assert sorted({*menu, *of_rooms}) == sorted(site)
    assert len(menu) == len({*menu})


class TestDivide:
    """Pages that are too long, in parts."""

    LONG = "word " * 3000

    def test_a_short_page_stays_as_it_is(self) -> None:
        pages = {"a.md": "# A\n\n## B\n\nb\n"}
        assert DIVIDE.divided(pages) == pages

    def test_sections_become_pages_and_links_follow_them(self) -> None:
        text = f"# A\n\nSee [c](#c).\n\n## B\n{self.LONG}\n\n## C\n{self.LONG}\n\n### D\nd\n"
        pages = DIVIDE.divided({"a.md": text, "z.md": "[b](a.md#b) [d](a.md#d) [?](a.md#gone)"})
        assert [*pages] == ["a.md", "a.1-b.md", "a.2-c.md", "z.md"]
        assert "See [c](a.2-c.md)." in pages["a.md"]
        assert "- [B](a.1-b.md)" in pages["a.md"]
        assert pages["a.2-c.md"].startswith("# C\n\n*Part 2 of 2 of [A](a.md).*\n")
        assert "\n## D\n" in pages["a.2-c.md"]
        assert pages["z.md"] == "[b](a.1-b.md) [d](a.2-c.md#d) [?](a.md#gone)"
        assert DIVIDE.parts("a.md", pages) == ["a.1-b.md", "a.2-c.md"]

    def test_a_short_section_joins_the_one_before(self) -> None:
        text = f"# A\n\n## B\n{self.LONG}\n\n## C\n" + "word " * 700 + "\n\n## D\nd\n"
        pages = DIVIDE.divided({"a.md": text})
        assert [*pages] == ["a.md", "a.1-b.md", "a.2-c-d.md"]
        assert pages["a.2-c-d.md"].startswith("# C; D\n")
        assert "\n## D\nd" in pages["a.2-c-d.md"]

    def test_a_long_table_has_a_page_of_its_own(self) -> None:
        table = "\n".join(["```text", *["1 2 3"] * 200, "# no heading", "```"])
        text = f"# A\n\nSaid.\n\n<!-- begin t u -->\n{table}\n<!-- end t u -->\n\nMore.\n"
        pages = DIVIDE.divided({"a.md": text})
        assert [*pages] == ["a.md", "a.t-u.md"]
        assert "[Table: t u](a.t-u.md), on a page of its own" in pages["a.md"]
        assert DIVIDE.is_table(pages["a.t-u.md"])
        assert table in pages["a.t-u.md"]

    def test_comments_in_code_are_no_headings(self) -> None:
        assert [*DIVIDE.headings("# A\n```\n# no\n```\n## `B` c\n")] == [(1, "A"), (2, "`B` c")]
        assert DIVIDE.slug("What `ε` means: [x](y.md), 95 %") == "what-means-x-95"


def public() -> Iterator[tuple[str, object]]:
    """Every name that users import: of the package, and of the lists of its rooms."""
    yield from ((name, getattr(ab, name)) for name in ab.__all__)
    for room in {*SITE.ROOMS} - {*SITE.HOMES}:
        module = importlib.import_module(f"attribound.{room}")
        yield from ((name, getattr(module, name)) for name in getattr(module, "__all__", ()))


def test_every_public_name_has_a_page_or_if_it_is_a_constant_a_row(site) -> None:
    listed = "".join(text for name, text in site.items() if name.startswith("api_"))
    for name, value in public():
        if inspect.isclass(value) or inspect.isfunction(value):
            assert f"::: {value.__module__}.{value.__qualname__}\n" in listed, name
        elif not inspect.ismodule(value):
            assert f"| `{name}` | " in listed, name


def test_every_command_has_a_page(site) -> None:
    made = {text.splitlines()[0] for name, text in site.items() if name.startswith("commands.")}
    for command in typer.main.get_command(app).commands:
        assert f"# `attribound {command}`" in made


def said_commands() -> list[str]:
    """Every command that README and docs say, and the examples of the program's own help."""
    texts = [README, *(path.read_text() for path in (ROOT / "docs").glob("*.md"))]
    blocks = [
        block for text in texts for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    ]
    spans = [span for text in texts for span in re.findall(r"`(attribound [^`\n]+)`", text)]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in [*lines, *spans] if line.startswith("attribound ")]


def test_commands_in_docs_have_options_that_there_are() -> None:
    """What they do is tested elsewhere; a name that changed must not stay in a page."""
    commands = said_commands()
    assert len(commands) > 30
    root = typer.main.get_command(app)
    for line in commands:
        name, *rest = shlex.split(line, comments=True)[1:]
        if name.startswith("-") or "..." in rest:
            continue
        command = root.commands[name]
        if hasattr(command, "commands"):
            if not rest:
                continue
            command, rest = command.commands[rest[0]], rest[1:]
        known = {option for each in command.params for option in [*each.opts, *each.secondary_opts]}
        asked = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert asked <= {*known, "--help"}, line


def test_names_that_differ_by_case_alone_share_a_page(monkeypatch) -> None:
    kind = type("Bound", (), {"__module__": "attribound.x", "__doc__": "Kind | :func:`~a.b`."})
    other = type("bound", (), {"__module__": "attribound.x", "__doc__": "Other."})
    room = SimpleNamespace(__all__=["Bound", "bound"], __doc__="Room.", Bound=kind, bound=other)
    monkeypatch.setitem(sys.modules, "attribound.x", room)
    pages = SITE.reference("x")
    assert [*pages] == ["api_x.md", "api_x.bound.md"]
    assert "| [`Bound`](api_x.bound.md) | Kind \\| `b`. |" in pages["api_x.md"]
    assert "::: attribound.x.Bound" in pages["api_x.bound.md"]
    assert "::: attribound.x.bound" in pages["api_x.bound.md"]


def test_docstrings_are_markdown_on_the_site() -> None:
    source = 'def f():\n    """See :class:`~a.b.Ball`.\n\n    >>> f()\n    1\n    """\n'
    made = SITE.readable(source)
    assert "See ``Ball``." in made
    assert '    ```pycon\n    >>> f()\n    1\n    ```\n    """' in made


def test_the_json_of_models_is_a_config() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", page("models"), re.DOTALL)
    data = json.loads(shown)
    assert config_from_json(data).to_json() == data


def test_the_data_page_names_every_data_set() -> None:
    assert tuple(re.findall(r"^\| `([\w-]+)` \|", page("data"), re.MULTILINE)) == NAMES


def test_the_audit_page_shows_what_faults_cost() -> None:
    shown = render.faults()
    assert f"<!-- begin faults -->\n{shown}\n" in page("audit")
    heads, _, *lines, sums = [line.strip("| ").split(" | ") for line in shown.splitlines()]
    total = dict(zip(heads[2:-1], sums[-len(heads[2:-1]) :], strict=True))
    assert (total["lost"], total["differ"]) == ("0", "0")
    killed = [line for line in lines if line[0].startswith("kill -9")]
    assert sum(int(line[3]) for line in killed) >= 100
    kinds = {"audit, 1 worker", "audit, 2 workers", "audit with Ray", "training"}
    assert {line[1] for line in killed} == kinds


def test_the_zoo_page_shows_the_cards() -> None:
    assert f"<!-- begin leaderboard -->\n{render.leaderboard()}\n" in page("zoo")
    assert f"<!-- begin sweeps -->\n{render.sweeps()}\n" in page("zoo")


def test_the_paper_pages_are_made_again_from_what_is_stored_alone(monkeypatch) -> None:
    def measured(*_: object) -> None:
        raise AssertionError("nothing may be measured")

    monkeypatch.setattr("reproduction.paper.measuring.audit", measured)
    monkeypatch.setattr("reproduction.paper.measuring.measure_record", measured)
    made = render.paper()
    assert {*made} == {part for parts in render.PAPER.values() for part in parts}
    for name, parts in render.PAPER.items():
        for part in parts:
            shown = f"<!-- begin {part} -->\n{made[part]}\n<!-- end"
            assert shown in page(name.removesuffix(".md"))


def test_without_results_the_paper_page_says_so(tmp_path) -> None:
    assert set(render.paper(tmp_path).values()) == {render.ANEW}
    assert "make paper" in render.ANEW


@pytest.mark.parametrize(
    ("name", "part"), [(name, each) for name, parts in render.MEASURED.items() for each in parts]
)
def test_pages_show_the_last_measurement(name, part) -> None:
    measured = (ROOT / "benchmarks" / f"{part}.txt").read_text().strip("\n")
    shown = f"<!-- begin {part} -->\n```text\n{measured}\n```\n<!-- end"
    assert shown in page(name.removesuffix(".md"))


def test_a_part_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one part 'x', found 0"):
        render.fill("nothing", "x", "y")


def test_every_picture_of_a_page_is_there() -> None:
    linked = [
        path.parent / picture
        for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text())
        if not picture.startswith("http")
    ]
    assert linked  # the pictures of the paper come with `make paper`
    assert [path for path in linked if not path.is_file()] == []


def test_the_paper_page_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text()
    files = re.findall(r"`((?:bounding|attributions|spectral)/[\w/]*(?:\.py|/))`", text)
    assert len(files) >= 15
    assert [name for name in files if not (ROOT / "src" / "attribound" / name).exists()] == []
    beside = re.findall(r"`(reproduction/[\w./-]+)`", text)
    assert len(beside) >= 2
    assert [name for name in beside if not (ROOT / name).exists()] == []


class TestCredit:
    """The example that goes from a table to a sentence."""

    @pytest.fixture
    def credit(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        return module(ROOT / "examples" / "credit.py")

    def test_it_ends_in_the_sentence(self, credit, monkeypatch, capsys) -> None:
        monkeypatch.setattr(sys, "argv", ["credit.py", "--limit", "2", "--eps", "0.02"])
        credit.main()
        first, *rest = capsys.readouterr().out.splitlines()
        found = re.fullmatch(
            r"For (\d) of 2 refused applicants the four reasons can't change within 0.02 standard "
            r"deviations; for (\d) an attack changed one.",
            first,
        )
        assert found
        assert int(found[1]) + int(found[2]) <= 2  # what can't change was not changed
        assert sum("stays" in line or "may leave" in line for line in rest) == 2 * credit.REASONS

    def test_it_reads_what_it_wrote(self, credit, tmp_path) -> None:
        people = credit.applicants(credit.written(tmp_path / "people.csv"))
        shipped = credit.load(credit.DATA, "test")
        rows = torch.arange(len(shipped))
        assert torch.equal(people.read(rows), shipped.read(rows))
        assert people.labels.tolist() == shipped.labels.tolist()

    def test_a_table_of_other_columns_is_refused(self, credit, tmp_path) -> None:
        lines = credit.written(tmp_path / "people.csv").read_text(encoding="utf-8").splitlines()
        cut = [line.split(",")[0:1] + line.split(",")[2:] for line in lines]
        (tmp_path / "less.csv").write_text("\n".join(map(",".join, cut)), encoding="utf-8")
        gone = lines[0].split(",")[1]
        with pytest.raises(InputError, match=f"expected a column '{gone}', got id, "):
            credit.applicants(tmp_path / "less.csv")
        more = [f"{line},{'more' if number == 0 else 1}" for number, line in enumerate(lines)]
        (tmp_path / "more.csv").write_text("\n".join(more), encoding="utf-8")
        with pytest.raises(InputError, match="use the columns that the network was trained on"):
            credit.applicants(tmp_path / "more.csv")
