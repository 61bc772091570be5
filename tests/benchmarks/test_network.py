from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
import torch

import attribound as ab
import credit
import network
from attribound.attacks import RandomPerturbation
from attribound.auditing.calibrating import FromRun
from attribound.basics.errors import InputError
from claims.store import COPIED, KEY
from relu import measure as m
from relu import networks
from relu.networks import NETWORKS
from relu.plan import COPIES, Block, Settings, effort, plan
from relu.report import report
from relu.scores import STAGES, scored

NAME = "mlp-at"
SETTINGS = Settings(mlp=3, calibrations=2, networks=(NAME,))


def described(block: Block, copy: str, seed: int) -> str:
    return json.dumps([block.attribution, str(block.ball), copy, seed])


def row(own: float, copy: float, bound: float | None, /, **changed) -> dict[str, object]:
    """An example whose network and copy were moved so far."""
    record = {"claim": "first_order", "subject": "copy", "euclidean": bound, "degrees": 20.0}
    base = {
        "network": NAME,
        "role": "test",
        "place": 0,
        "settings": "{}",
        "smooth": "20",
        "beta": 20.0,
        "accuracy": 0.8,
        "own_norm": 10.0,
        "sample": 0,
        "batch": 0,
        "label": 0,
        "attribution": "saliency",
        "ball": "l2",
        "epsilon": 0.05,
        "features": 784,
        "fidelity": {"degrees": 4.0, "ball_degrees": 5.0},
        "strongest": {"by": "ascent", "deviation": copy},
        "yours": {"by": "kinks", "deviation": own},
        "bounds": [{**record, "status": None if bound else "not for this network"}],
        "attacks": [
            {"attack": name, "subject": "yours", "deviation": share * own}
            for name, share in zip(STAGES, (0.5, 0.8, 1.0, 0.1), strict=True)
        ],
    }
    return {**base, **changed}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{**each, "place": i} for i, each in enumerate(rows)], COPIED)


@pytest.fixture
def measured(monkeypatch) -> list[Block]:
    """Instead of networks, a row for each copy and example; the blocks that were asked for."""
    asked: list[Block] = []

    def measure(block: Block, seed: int) -> pa.Table:
        asked.append(block)
        common = {"network": block.network, "role": block.role}
        made = [
            row(2.0, 1.0, 1.0, **common, smooth=copy, place=i)
            | {"settings": described(block, copy, seed)}
            for copy in block.copies
            for i in block.examples
        ]
        return pa.Table.from_pylist(made, COPIED)

    monkeypatch.setattr(network, "measure", measure)
    monkeypatch.setattr(network, "described", described)
    monkeypatch.setattr(networks.Network, "missing", None)
    return asked


def run(folder, settings: Settings = SETTINGS):
    network.run(network.stored(folder), settings, jobs=1)
    return network.stored(folder)


def test_everything_is_computed_once(tmp_path, measured) -> None:
    kept = run(tmp_path)
    blocks = [*plan(SETTINGS)]
    assert measured == blocks
    assert kept.rows.num_rows == 8 * (3 + 2) * len(COPIES)
    run(tmp_path)
    assert measured == blocks, "what is there is not computed again"
    assert network.wanted(kept, SETTINGS).num_rows == kept.rows.num_rows
    assert network.wanted(kept, replace(SETTINGS, seed=1)).num_rows == 0


def test_a_block_shrinks_to_the_examples_and_copies_that_it_lacks(tmp_path, measured) -> None:
    kept = run(tmp_path)
    first = next(plan(SETTINGS))
    lost = {key for key, own in network.keys(first, SETTINGS).items() if own in {("50", 1)}}
    kept.rows = kept.only(kept.keys() - lost)
    assert network.missing(kept, SETTINGS) == [replace(first, copies=("50",), examples=(1,))]
    more = network.missing(kept, replace(SETTINGS, mlp=4))
    assert more[1] == replace(first, examples=(3,))


def test_every_cell_comes_before_any_comes_again(monkeypatch) -> None:
    monkeypatch.setattr(networks.Network, "missing", None)
    blocks = [*plan(Settings(mlp=16, cnn=4, narrow=2, wide=2))]
    tests = [block for block in blocks if block.role == "test"]
    assert {block.network for block in tests} == {*NETWORKS}
    assert {block.network for block in blocks if block.role == "calibration"} == {
        name for name, each in NETWORKS.items() if each.size == "mlp"
    }
    second = next(i for i, block in enumerate(tests) if block.examples[0])
    quick = {name for name, each in NETWORKS.items() if each.size != "wide"}
    assert {block.network for block in tests[:second]} == quick


def test_attacks_on_the_network_are_as_strong_as_eight_starts_through_three_copies() -> None:
    for name in NETWORKS:
        for kind in ("saliency", "ig-10"):
            own = effort(name, kind, "test").own_attacks
            assert [*own] == [*STAGES[1:]], "what is transferred the audit adds"
            assert own["through"].betas == (20, 50, 200)
            assert own["through"].attack.random_starts == 8
    assert [type(each) for each in effort(NAME, "saliency", "calibration").claims] == [
        ab.FirstOrder
    ]


def test_networks_without_their_files_are_left_out_and_named(
    tmp_path, measured, monkeypatch
) -> None:
    monkeypatch.setattr(networks.Network, "missing", "mlp-at is left out: no file")
    assert [*plan(SETTINGS)] == []
    text = network.told(network.stored(tmp_path), SETTINGS)
    assert text == "mlp-at is left out: no file.\n\nNothing is measured yet."


def test_a_missing_file_is_the_reason(tmp_path) -> None:
    lacking = replace(NETWORKS[NAME], needs=(tmp_path, tmp_path / "weights"))
    assert lacking.missing == f"mlp-at is left out: no {tmp_path / 'weights'}"
    assert replace(lacking, needs=(tmp_path,)).missing is None


def test_softplus_gives_way_to_relu() -> None:
    model = networks._with_relu(ab.models.SmallCNN())
    kinds = [type(each) for each in model.modules()]
    assert torch.nn.Softplus not in kinds
    assert kinds.count(torch.nn.ReLU) == 6


def test_scores_say_what_is_exceeded_on_which_network() -> None:
    (found,) = scored(table(row(3.0, 0.5, 1.0), row(0.8, 1.2, 1.0), row(1.0, 1.0, None)))
    score = found.scores["first_order"]
    assert (score.subject, score.count, score.useful) == ("copy", 2, 1.0)
    assert (score.exceeded, score.own_exceeded) == (1, 1)
    assert score.slack == pytest.approx(np.median([2.0, 1 / 1.2]))
    assert (score.median_over, score.worst_over) == pytest.approx((1.9, 3.0))
    assert [*found.stages["through"]] == pytest.approx([2.4, 0.64, 0.8])
    assert [*found.stages["noise"]] == pytest.approx([3.0, 0.8, 1.0])


def test_calibrated_is_about_the_network_itself() -> None:
    """Nineteen others moved up to 1.9 times as far as the copy's bound; one more is predicted."""
    others = [row(0.1 * i, 0.5, 1.0, role="calibration") for i in range(1, 20)]
    (found,) = scored(table(row(1.8, 0.5, 1.0), row(4.2, 0.5, 2.0), *others))
    assert found.factor == pytest.approx(1.9)
    score = found.scores["calibrated"]
    assert score.subject == "yours"
    assert [*score.bound] == pytest.approx([1.9, 3.8])
    assert [*score.degrees] == pytest.approx([math.degrees(math.asin(b / 10)) for b in score.bound])
    assert score.exceeded == score.own_exceeded == 1
    (few,) = scored(table(row(1.8, 0.5, 1.0), *others[:18]))
    assert few.factor == math.inf
    assert "calibrated" not in few.scores


def test_the_factor_is_that_of_the_library() -> None:
    """Which makes calibrations of runs with a copy about the network itself, too."""
    torch.manual_seed(0)
    tiny, x = ab.models.MLP(4, (8,), 2, torch.nn.ReLU).eval(), torch.randn(20, 4)
    ball, y = ab.L2Ball(0.3), tiny(x).argmax(1)
    told = {"attributions": [ab.Saliency()], "balls": [ball], "claims": [ab.FirstOrder()]}
    run = ab.audit(tiny, (x, y), smooth=20.0, batch=20, maps="none", **told)
    stored = [{**row(1.0, 1.0, 1.0), **own} for own in run.rows().to_pylist()]
    others = [{**each, "role": "calibration"} for each in stored]
    (found,) = scored(table(stored[0], *others))
    calibration = FromRun()(run, tiny, (x, y))["saliency", ball]
    assert found.factor == pytest.approx(calibration.factor)


def test_the_report_is_no_better_for_the_network_than_its_rows() -> None:
    text = report(table(*[row(2.0, 0.9, 1.0)] * 3, row(0.5, 0.9, 1.0)))
    (line,) = (each for each in text.splitlines() if each.split()[:3] == ["first", "order", "20"])
    assert " ".join(line.split()) == "first order 20 the copy 4 100% 1.111 0% 3 (75%) 2.00 2"
    assert "Furthest on the network itself, of 4: transferred 0, through 0, kinks 4" in text
    refused = report(table(row(2.0, 0.9, None), row(1.0, 1.0, 1.0, error="no memory")))
    assert "mlp-at, saliency, l2 0.05, beta 20: no memory" in refused
    none = report(table(row(2.0, 0.9, None)))
    assert "first_order does not apply to mlp-at, saliency: not for this network" in none


def test_an_attack_on_the_network_is_made_once_for_all_copies(monkeypatch) -> None:
    calls = []

    class Counted(RandomPerturbation):
        def __call__(self, *args, **options):
            calls.append(args)
            return super().__call__(*args, **options)

    monkeypatch.setattr(m, "_found", {})
    model, x, target = ab.models.MLP(4, (3,), 2), torch.rand(2, 4), torch.tensor([0, 1])
    attack = m.Once(Counted())
    first = attack(ab.Saliency(model), x, ab.L2Ball(0.1), target)
    assert attack(ab.Saliency(model), x, ab.L2Ball(0.1), target) is first
    for other in ((x + 1, ab.L2Ball(0.1)), (x, ab.L2Ball(0.2))):
        attack(ab.Saliency(model), *other, target)
    attack(ab.IntegratedGradients(model), x, ab.L2Ball(0.1), target)
    attack.seeded(1)(ab.Saliency(model), x, ab.L2Ball(0.1), target)
    assert len(calls) == 5


def test_a_block_has_a_row_for_every_copy_and_example(monkeypatch) -> None:
    """A network of its own, as small as can be; auto is chosen as audits do."""
    torch.manual_seed(0)
    tiny = ab.models.MLP(4, (8,), 2, torch.nn.ReLU).eval().requires_grad_(False)
    x = torch.randn(40, 4)
    own = replace(
        NETWORKS[NAME],
        make=lambda: tiny,
        examples=lambda: (x, tiny(x).argmax(1)),
        balls=(ab.L2Ball(0.1),),
        needs=(),
    )
    for cached in (networks.model_of, networks.chosen, networks.recognised, m.auto):
        monkeypatch.setattr(m, cached.__name__, cached.__wrapped__)
    monkeypatch.setattr(networks, "model_of", networks.model_of.__wrapped__)
    monkeypatch.setitem(NETWORKS, NAME, own)
    block = Block(NAME, "saliency", ab.L2Ball(0.1), "test", (0, 1), ("20", "auto"))
    rows = m.measure(block, 0).to_pylist()
    found = [(each["smooth"], each["place"]) for each in rows]
    assert found == [("20", 0), ("20", 1), ("auto", 0), ("auto", 1)]
    for each in rows:
        assert each["accuracy"] == 1.0
        assert each["error"] is None
        made = {record["claim"] for record in each["bounds"]}
        assert made == {"first_order", "mean_value", "certified"}
        named = {attack["attack"] for attack in each["attacks"] if attack["subject"] == "yours"}
        assert named == {*STAGES}
        assert json.loads(each["settings"])["smooth"] == each["smooth"]
    assert [each["tried"] is None for each in rows] == [True, True, False, False]
    assert m.places(block) == [0, 2]
    assert m.places(replace(block, role="calibration")) == [1, 3]


def test_customers_are_standardised_and_parted(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "credit"
    folder.mkdir()
    lines = [f"{i % 7},{'ab'[i % 2]},{'good' if i % 3 else 'bad'}" for i in range(300)]
    (folder / "german.csv").write_text("\n".join(["amount,kind,creditability", *lines]))
    monkeypatch.setenv("ATTRIBOUND_DATA", str(tmp_path))
    credit.customers.cache_clear()
    x, y = credit.customers("german", "train")
    test, _ = credit.customers("german", "test")
    credit.customers.cache_clear()
    assert (len(x), len(test), x.shape[1]) == (100, 200, 3)
    torch.testing.assert_close(x.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0), torch.ones(3), atol=1e-4, rtol=0)
    assert {*y.tolist()} == {0, 1}


def test_the_command_line_has_every_setting(capsys) -> None:
    with pytest.raises(SystemExit):
        network.arguments(["--help"])
    shown = capsys.readouterr().out
    assert all(each.name in shown for each in fields(Settings))
    with pytest.raises(InputError, match=r"networks: expected some of .*, got 'lenet'"):
        Settings(networks=("lenet",))


def test_the_command_measures_and_reports(tmp_path, measured, monkeypatch, capsys) -> None:
    monkeypatch.setattr(network.certificates, "run", lambda *asked: None)
    monkeypatch.setattr(network.smoothed, "run", lambda *asked: None)
    text = tmp_path / "network.txt"
    chosen = [f"--set={name}={value}" for name, value in ab.to_spec(SETTINGS).items()]
    command = ["network.py", *chosen, "--folder", str(tmp_path), "--text", str(text)]
    monkeypatch.setattr("sys.argv", [*command, "--report"])
    network.main()
    assert measured == []
    assert text.read_text().startswith("16 of 16 blocks are not measured yet")
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr(network, "report", lambda rows: f"{len(rows)} rows")
    network.main()
    assert text.read_text() == "160 rows\n"
    assert "16/16" in capsys.readouterr().out


def test_the_stored_rows_say_what_they_must() -> None:
    """Of which network each record speaks; the strongest are the strongest of theirs."""
    kept = network.stored(network.RESULTS).rows.to_pylist()
    assert len({tuple(each[name] for name in KEY) for each in kept}) == len(kept)
    for each in kept:
        if each["error"]:
            continue
        for column, subject in {"strongest": "copy", "yours": "yours"}.items():
            own = [a["deviation"] for a in each["attacks"] if a["subject"] == subject]
            assert each[column]["deviation"] == max(own)
        for bound in each["bounds"]:
            if bound["euclidean"] is not None:
                beyond = each["yours"]["deviation"] > bound["euclidean"]
                assert bound["yours_exceeded"] == beyond


def test_the_stored_report_is_that_of_the_stored_rows() -> None:
    """What is missing from the plan is said before."""
    stored = network.stored(network.RESULTS)
    made = report(network.wanted(stored, Settings())) + "\n"
    assert network.TEXT.read_text().endswith(made)
