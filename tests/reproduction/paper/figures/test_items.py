from __future__ import annotations

import numpy as np
import pytest

import paper_synthetic as synthetic
from attribound.basics import StorageError
from paper_made import attack_of, bound_of
from paper_synthetic import MISSING, SyntheticRuns, texts
from reproduction.paper.figures import ITEMS
from reproduction.paper.figures import items as module
from reproduction.paper.figures.jacobian import DenseJacobian
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan

JACOBIAN = DenseJacobian(np.eye(4, dtype=np.float32), np.ones(4, dtype=np.float32), 0, {})


@pytest.fixture
def runs(tmp_path) -> SyntheticRuns:
    """Four models on MNIST, of which one was not attacked by us."""
    tables = {}
    for i, model in enumerate(("ce", "at", "trades", "trades-igr")):
        paper, strong = (RunSpec("mnist", model, kind) for kind in ("paper", "strong"))
        tables[paper] = synthetic.audit(paper, seed=i)
        if model != "ce":
            tables[strong] = synthetic.audit(paper, scale=1.6, seed=i)
    tables[RunSpec("mnist", "at", "eta")] = synthetic.eta()
    return SyntheticRuns(tmp_path, tables)


@pytest.fixture
def none(tmp_path) -> SyntheticRuns:
    return SyntheticRuns(tmp_path)


def test_there_is_an_item_for_table_1_and_every_figure() -> None:
    assert list(ITEMS) == ["table1", *(f"figure{i}" for i in range(1, 9))]
    assert all(item.name == name and item.title for name, item in ITEMS.items())


def test_items_need_runs_that_are_planned() -> None:
    plan = Plan.read()
    for name in ("table1", "figure2", "figure3", "figure8"):
        planned = [spec for spec in ITEMS[name].needs if plan.has(spec)]
        assert {spec.data for spec in planned} == {"mnist", "fashion-mnist", "cifar10"}


def test_kendall_shows_the_numbers_of_the_tables(runs) -> None:
    figure = module.kendall(runs)
    axes = figure.axes[0]
    drawn = [line.get_xydata()[0] for line in axes.get_lines() if len(line.get_xydata())]
    rows = runs.table(RunSpec("mnist", "at", "paper"))
    own = [row for row in rows.to_pylist() if (row["ball"], row["epsilon"]) == ("linf", 0.05)]
    bounds = [bound_of(row, "first_order")["euclidean"] for row in own]
    degrees = [np.degrees(np.arcsin(bound / 0.5)) for bound in bounds]
    tau = [trial["kendall"] for row in own for trial in attack_of(row, "ifia")["repeats"]]
    np.testing.assert_allclose(drawn[1], [np.mean(degrees), np.mean(tau)])
    written = " ".join(texts(figure).split())
    assert f"MNIST: Left out: IG-NORM, AdvAAT, ART ({MISSING})" in written
    assert "CIFAR-10: Left out: CE, AT" in written


def test_gaps_are_at_the_largest_radius_and_say_who_is_missing(runs) -> None:
    figure = module.gaps(runs, "mnist", "l2")
    labels = [axes.get_xlabel() for axes in figure.axes if axes.axison]
    assert labels[0].endswith("[paper 0/6]")
    rows = [
        row
        for row in runs.table(RunSpec("mnist", "at", "strong")).to_pylist()
        if row["ball"] == "l2" and row["epsilon"] == 0.2
    ]
    exceeded = sum(
        row["strongest"]["deviation"] > bound_of(row, "first_order")["euclidean"] for row in rows
    )
    assert exceeded > 0
    assert labels[1].endswith(f"[paper 0/6, ours {exceeded}/6]")
    assert f"Left out: IG-NORM, AdvAAT, ART ({MISSING})" in texts(figure)


def test_a_model_without_the_largest_radius_is_left_out(runs) -> None:
    spec = RunSpec("cifar10", "ce-full", "paper")
    runs.given[spec] = synthetic.audit(spec)
    figure = module.gaps(runs, "cifar10", "l2")
    assert "CE (full) (no radius 0.3 in its run)" in texts(figure)
    assert "CE (full)" in [axes.get_title() for axes in module.gaps(runs, "cifar10", "linf").axes]


def test_remainders_are_those_of_the_record(runs) -> None:
    figure = module.remainders(runs, "mnist")
    assert [axes.get_title() for axes in figure.axes] == ["AT\nrandom 4%, attack 4%"]
    assert "Left out: CE" in texts(figure)


def test_examples_are_those_in_the_largest_cube(runs) -> None:
    spec = RunSpec("mnist", "at", "paper")
    other = synthetic.maps([30], ["ig"], epsilon=0.03)
    runs.kept[RunSpec("mnist", "ce", "paper")] = other
    runs.kept[spec] = synthetic.maps([60], ["ig"])
    figure = module.examples(runs, "mnist")
    assert figure.axes[0].get_title() == "AT"
    assert len(figure.axes) == 3
    assert "CE" in texts(figure).partition("Left out:")[2]


def test_the_first_jacobian_that_can_be_had_is_drawn(runs, monkeypatch) -> None:
    def stored(settings, path):
        if path.stem == "at":
            raise module.AttriboundError("at", expected="a", got="b", remedy="c")
        assert settings.limit == 1
        return JACOBIAN

    monkeypatch.setattr(module, "stored_jacobian", stored)
    title, found = module.jacobian(runs, "mnist")
    assert (title, found) == ("MNIST, TRADES+IGR", JACOBIAN)
    assert module.full(runs, "mnist").get_suptitle() == "MNIST, TRADES+IGR: 4 by 4"
    both = module.first_entries(runs, "mnist", "fashion-mnist")
    assert len(both.axes) == 5  # with a bar of colours


def test_a_full_disk_is_no_missing_model(runs, monkeypatch) -> None:
    def stored(settings, path):
        raise StorageError("disk", expected="room", got="none", remedy="make some")

    monkeypatch.setattr(module, "stored_jacobian", stored)
    with pytest.raises(StorageError, match="disk: expected room"):
        module.jacobian(runs, "mnist")


def test_without_runs_every_figure_says_what_is_missing(none, monkeypatch) -> None:
    def stored(settings, path):
        raise module.AttriboundError("model", expected="a", got="b", remedy="c")

    monkeypatch.setattr(module, "stored_jacobian", stored)
    figures = [
        module.examples(none, "cifar10"),
        module.kendall(none),
        module.remainders(none, "mnist"),
        module.gaps(none, "fashion-mnist", "linf"),
        module.first_entries(none, "mnist"),
        module.full(none, "cifar10"),
    ]
    for figure in figures:
        assert not figure.axes
        assert MISSING in " ".join(texts(figure).split())


def test_an_item_writes_its_files(none, tmp_path) -> None:
    written = ITEMS["figure2"].make(none, tmp_path / "out")
    assert [path.name for path in written] == ["figure2.png", "figure2.pdf"]
    assert all(path.stat().st_size for path in written)


def test_the_files_of_an_item_are_named_after_what_they_show(none, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "save", lambda figure, folder, name: [folder / name])
    names = [path.name for path in ITEMS["figure8"].make(none, tmp_path)]
    assert len(names) == len(set(names)) == 6
    assert names[0] == "figure8-mnist-l2"
    assert [path.name for path in ITEMS["figure3"].make(none, tmp_path)] == [
        "figure3-mnist",
        "figure3-fashion-mnist",
        "figure3-cifar10",
    ]


def test_what_neither_paper_nor_plan_has_is_not_missed(none, monkeypatch) -> None:
    assert "CE (full)" in texts(module.remainders(none, "cifar10"))
    monkeypatch.setattr(none, "why", lambda spec: module.UNPLANNED)
    written = texts(module.remainders(none, "cifar10"))
    assert "CE, AT" in written
    assert "full" not in written
