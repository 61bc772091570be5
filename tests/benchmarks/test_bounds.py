from __future__ import annotations

import json
from dataclasses import fields, replace

import pyarrow as pa
import pytest
import torch

import attribound as ab
import bounds
from attribound.basics.errors import InputError
from attribound.basics.locking import Lock
from claim_rows import row
from claims import measure as m
from claims.plan import Settings, plan
from claims.running import given_up
from claims.store import BOUNDS, LINEAR

SETTINGS = Settings(
    tests=3, calibrations=2, batch=2, linear=2, certified=1, networks=("mlp-at-b5",)
)
BLOCKS = [*plan(SETTINGS)]


def described(block, seed) -> str:
    cell = (block.attribution, str(block.ball), block.certified, seed)
    return json.dumps(cell)


@pytest.fixture
def measured(monkeypatch) -> list:
    """Instead of networks, a row per image; the blocks that were asked for."""
    asked = []

    def measure(block, seed):
        asked.append(block)
        common = {"settings": described(block, seed), "network": block.network}
        if block.ball is None:
            made = [{**common, "role": block.role, "place": i} for i in block.images]
            return pa.Table.from_pylist(made, LINEAR)
        made = [row(block.role, 1.0, **common, sample=i, place=i) for i in block.images]
        return pa.Table.from_pylist(made, BOUNDS)

    monkeypatch.setattr(bounds, "measure", measure)
    monkeypatch.setattr(bounds, "described", described)
    return asked


def run(folder, settings: Settings = SETTINGS) -> bounds.Tables:
    """What a process of its own finds and stores."""
    bounds.run(bounds.Tables(folder), settings, jobs=1)
    return bounds.Tables(folder)


def places(*tables: pa.Table) -> list[tuple[str, int, str]]:
    names = ("role", "place", "settings")
    return [key for t in tables for key in zip(*(t[n].to_pylist() for n in names), strict=True)]


def planned(blocks, seed: int = 0) -> list[tuple[str, int, str]]:
    return [(each.role, i, described(each, seed)) for each in blocks for i in each.images]


def test_everything_is_computed_once_and_kept_in_order(tmp_path, measured) -> None:
    tables = run(tmp_path)
    assert measured == BLOCKS
    run(tmp_path)
    assert len(measured) == len(BLOCKS), "what is there is not computed again"
    assert tables.missing(SETTINGS) == []
    audits = [block for block in BLOCKS if block.ball]
    assert places(tables.bounds.rows) == planned(audits)
    assert places(tables.linear.rows) == planned(block for block in BLOCKS if not block.ball)
    wanted = tables.wanted(SETTINGS)
    assert [each.num_rows for each in wanted] == [len(planned(audits)), 2 * 2]
    files = [path.name for path in tmp_path.iterdir()]
    assert sorted(files) == ["bounds.parquet", "linear.parquet"]


@pytest.mark.parametrize("done", [0, 1, 3, 7])
def test_a_kill_loses_the_block_in_flight_only(tmp_path, measured, monkeypatch, done) -> None:
    measure = bounds.measure

    def killed(block, seed):
        if block == BLOCKS[done]:
            raise KeyboardInterrupt
        return measure(block, seed)

    with monkeypatch.context() as patch:
        patch.setattr(bounds, "measure", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    tables = bounds.Tables(tmp_path)
    assert sorted(places(tables.bounds.rows, tables.linear.rows)) == sorted(planned(BLOCKS[:done]))
    assert tables.missing(SETTINGS) == BLOCKS[done:]
    run(tmp_path)
    assert measured == BLOCKS, "nothing twice, nothing left out"


def test_more_images_keep_those_that_were_there(tmp_path, measured) -> None:
    before = run(tmp_path)
    measured.clear()
    more = replace(SETTINGS, tests=4, batch=3)
    after = run(tmp_path, more)
    assert {(block.role, block.images) for block in measured} == {("test", (3,))}
    assert after.bounds.rows.slice(0, before.bounds.rows.num_rows).equals(before.bounds.rows)
    assert after.missing(more) == []


def test_other_settings_compute_again_and_are_not_mixed_in(tmp_path, measured) -> None:
    first = run(tmp_path).wanted(SETTINGS)
    other = replace(SETTINGS, seed=1)
    assert [each.num_rows for each in bounds.Tables(tmp_path).wanted(other)] == [0, 0]
    tables = run(tmp_path, other)
    assert len(measured) == 2 * len(BLOCKS)
    assert {key[2] for key in places(*tables.wanted(other))} == {
        described(block, 1) for block in BLOCKS
    }
    assert all(a.equals(b) for a, b in zip(tables.wanted(SETTINGS), first, strict=True))


def test_two_processes_compute_what_one_does(tmp_path) -> None:
    """The real networks: two cells of two images."""
    few = Settings(tests=2, calibrations=0, batch=1, linear=0, certified=0, networks=("mlp-at-b5",))
    blocks = [block for block in plan(few) if block.attribution == "saliency"][:2]
    assert len({block.ball for block in blocks}) == 2
    tables = bounds.Tables(tmp_path)
    tables.missing = lambda settings: blocks  # type: ignore[method-assign]
    bounds.run(tables, few, jobs=2)
    found = {(r["ball"], r["place"]): r for r in bounds.Tables(tmp_path).bounds.rows.to_pylist()}
    assert len(found) == 2
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for block in blocks:
        (one,) = m.measure(block, 0).to_pylist()
        other = found[block.ball.name, block.images[0]]
        assert one["strongest"]["deviation"] == pytest.approx(other["strongest"]["deviation"])
        assert one["settings"] == other["settings"]
    torch.set_num_threads(threads)


def test_a_block_that_kills_its_workers_is_not_stored() -> None:
    with pytest.raises(SystemExit, match="block 3: died; run again to go on"):
        given_up(3, "died")


def test_the_table_of_another_process_is_left_to_it(tmp_path, measured, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["bounds.py", "--folder", str(tmp_path)])
    lock = Lock(tmp_path)
    with pytest.raises(InputError, match="another one at it"):
        bounds.main()
    lock.release()
    assert measured == []


def test_the_command_measures_reports_and_says_what_is_missing(
    tmp_path, measured, monkeypatch, capsys
) -> None:
    """Of the networks that were chosen; a report alone measures nothing."""
    text = tmp_path / "bounds.txt"
    monkeypatch.setattr(bounds, "report", lambda rows, linear: f"{len(rows)} and {len(linear)}")
    chosen = [f"--set={name}={value}" for name, value in ab.to_spec(SETTINGS).items()]
    command = ["bounds.py", *chosen, "--folder", str(tmp_path), "--text", str(text)]
    monkeypatch.setattr("sys.argv", [*command, "--report"])
    bounds.main()
    assert measured == []
    lacks = f"{len(BLOCKS)} of {len(BLOCKS)} blocks are not measured yet: this is about the rest."
    assert text.read_text() == f"{lacks}\n\n0 and 0\n"
    monkeypatch.setattr("sys.argv", command)
    bounds.main()
    assert measured == BLOCKS
    assert text.read_text() == "50 and 4\n"
    assert f"{len(BLOCKS)}/{len(BLOCKS)}  {BLOCKS[-1]}" in capsys.readouterr().out


def test_the_command_line_has_every_setting(monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit):
        bounds.arguments(["--help"])
    shown = capsys.readouterr().out
    assert all(each.name in shown for each in fields(Settings))
    assert bounds.arguments([]).folder == bounds.RESULTS
    monkeypatch.setattr("sys.argv", ["bounds.py", "--set", "tests=many", "--report"])
    with pytest.raises(InputError, match="tests: expected a valid integer, got 'many'"):
        bounds.main()


def test_only_networks_that_there_are_can_be_chosen() -> None:
    with pytest.raises(InputError, match=r"networks: expected some of conv-3072, .*, got 'resnet'"):
        Settings(networks=("at", "resnet"))


@pytest.fixture(scope="module")
def stored() -> bounds.Tables:
    return bounds.Tables(bounds.RESULTS)


def test_the_stored_report_is_that_of_the_stored_rows(stored) -> None:
    """What is missing from the plan is said before."""
    made = bounds.report(stored.bounds.rows, stored.linear.rows) + "\n"
    assert bounds.TEXT.read_text().endswith(made)


def test_the_stored_rows_are_all_of_the_plan_and_each_once(stored, monkeypatch) -> None:
    """Also if they were measured with other versions."""
    (known,) = {
        (told["attribound"], told["torch"])
        for text in stored.bounds.rows["settings"].unique().to_pylist()
        for told in [json.loads(text)]
    }
    monkeypatch.setattr(m, "MEASURED_BY", known[0])
    monkeypatch.setattr(m.torch, "__version__", known[1])
    small = Settings(networks=tuple(name for name in Settings().networks if name != "cifar10-at"))
    assert stored.missing(small) == []
    rows, linear = stored.wanted(small)
    assert (len(rows), len(linear)) == (len(stored.bounds.keys()), len(stored.linear.keys()) - 8)
    assert (len(rows), len(linear) + 8) == (len(stored.bounds.rows), len(stored.linear.rows))


def test_the_stored_rows_say_what_they_must(stored) -> None:
    """The strongest attack is the stronger pass, and a bound is exceeded where that is beyond."""
    for each in stored.bounds.rows.to_pylist():
        one, two = (attack["deviation"] for attack in each["attacks"])
        best = each["strongest"]
        assert best["deviation"] == max(one, two)
        assert best["by"] == ("second" if two > one else "first")
        for bound in each["bounds"]:
            assert bound["exceeded"] == (best["deviation"] > bound["euclidean"])
        assert each["error"] is None
