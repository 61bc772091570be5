"""Reasons of the credit networks in the benchmark: blocks, resuming, the table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import attribound as ab
import reasons

ON = reasons.ATTACK_ON_AVERAGED


def tiny(name: str) -> reasons.Asked:
    """Six features in five groups; radii count nothing."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 2)).eval()
    groups = torch.tensor([0, 0, 1, 2, 3, 4])
    return ab.Grouped(ab.Saliency(net), groups), torch.rand(4, 6), ab.L2Ball


def row(claim: str, applicant: int, pair: int, norm: int | None = 0) -> reasons.Row:
    known = {"network": reasons.NETWORKS[0], "epsilon": 0.1, "seconds": 0.5}
    return {**known, "claim": claim, "applicant": applicant, "pair": pair, "norm": norm}


def test_the_first_applicants_of_all_networks_come_first() -> None:
    some = [*reasons.blocks(["a", "b"], reasons.AT_ONCE + 1, ["certified"])]
    assert len(some) == 2 * 2 * len(reasons.RADII) * 2
    assert {block[0]["network"] for block in some[: len(some) // 2]} == {"a", "b"}
    assert {block[0]["applicant"] for block in some[: len(some) // 2]} == {0}
    assert [len(block) for block in some[len(some) // 2 :]] == [1] * (len(some) // 2)


def test_what_is_measured_is_what_the_library_says() -> None:
    attribution, x, of_radius = tiny("any")
    (block,) = [
        block
        for block in reasons.blocks(["any"], len(x), ["certified"])
        if (block[0]["claim"], block[0]["epsilon"]) == ("certified", 0.1)
    ]
    found = reasons.measured(block, tiny)
    said = ab.reasons(attribution, x, of_radius(0.1), 4, claim="certified", attack=False)
    assert [each["pair"] for each in found] == said.kept.tolist()
    assert all(each["norm"] <= each["pair"] for each in found)


def test_averaged_maps_are_drawn_once_and_attacked_themselves(monkeypatch) -> None:
    attribution, x, of_radius = tiny("any")
    monkeypatch.setattr(reasons, "AVERAGED", ab.Smoothed(draws=400))
    monkeypatch.setitem(reasons.JUDGING, "draws", 100)
    blocks = [*reasons.blocks(["any"], 2, ["smoothed"])]
    assert [block[0]["claim"] for block in blocks[:3]] == ["attack", ON, "smoothed"]
    rows = [row for block in blocks for row in reasons.measured(block, tiny)]
    for radius in reasons.RADII:
        own = [r for r in rows if (r["claim"], r["epsilon"]) == ("smoothed", radius)]
        said = ab.reasons(
            attribution, x[:2], of_radius(radius), 4, claim=reasons.AVERAGED, attack=False
        )
        assert [each["pair"] for each in own] == said.kept.tolist()
        assert all(each["norm"] <= each["pair"] for each in own)
    assert len({r["seconds"] for r in rows if r["claim"] == "smoothed"}) == 2  # an applicant each
    some = [{**r, "network": reasons.NETWORKS[0], "pair": 3} for r in rows]
    above = [{**r, "pair": 4} if r["claim"] == "smoothed" else r for r in some]
    for shown, exceeded in ((some, "0"), (above, "2")):
        lines = [line.split() for line in reasons.table(shown).splitlines()]
        assert {line[-2] for line in lines if "smoothed" in line} == {exceeded}


def test_killed_it_goes_on_where_it_was(tmp_path, capsys) -> None:
    file = tmp_path / "reasons.parquet"
    wanted = [*reasons.blocks(["any"], 4, ["first_order"])]
    reasons.run(wanted[:3], file, tiny)
    before = reasons.stored(file).listed()
    assert len(before) == 3 * 4
    capsys.readouterr()
    reasons.run(wanted, file, tiny)
    assert len(capsys.readouterr().err.splitlines()) == len(wanted) - 3
    after = reasons.stored(file).listed()
    assert len(after) == 4 * len(wanted)
    assert all(each in after for each in before)


def test_the_table_counts_what_attacks_contradict() -> None:
    rows = [
        row("attack", 0, 4, None),
        row("attack", 1, 2, None),
        row("certified", 0, 4, 4),
        row("certified", 1, 3, 1),  # it left two
        row("certified", 2, 4, 4),  # not attacked, so not in a share beside the attack's
    ]
    lines = reasons.table(rows).splitlines()
    assert lines[-1].split()[1:] == ["2", "certified", "50.0%", "50.0%", "1", "0.50"]
    assert lines[-2].split()[1:] == ["2", "attack", "50.0%", "0.50"]


@pytest.mark.parametrize("name", reasons.NETWORKS[:1])
def test_categories_of_applicants_are_frozen(name) -> None:
    attribution, x, of_radius = reasons.asked(name)
    assert x.shape == (reasons.APPLICANTS, x.shape[1])
    scale = of_radius(0.1).scale
    assert (scale == 0).any()
    assert (scale > 0).any()
    assert attribution(x[:2]).shape[1] < x.shape[1]


ROOT = Path(__file__).resolve().parents[2]


def test_the_stored_table_is_shown() -> None:
    told = reasons.table(reasons.stored().listed())
    assert (ROOT / "benchmarks" / "reasons.txt").read_text() == f"{told}\n"


def test_the_page_says_in_sentences_what_the_rows_say() -> None:
    """Every figure beside the table of docs/credit.md, made again from what is stored."""
    page = " ".join((ROOT / "docs" / "credit.md").read_text().split())
    rows = list(reasons.stored().listed())
    soft, relu = "credit-german/at-mlp", "credit-german/at-mlp-relu"

    def some(name: str, claim: str, radius: float = 0.1) -> list[reasons.Row]:
        asked = (name, claim, radius)
        return [r for r in rows if (r["network"], r["claim"], r["epsilon"]) == asked]

    def share(name: str, claim: str, by: str = "pair", radius: float = 0.1) -> float:
        own = some(name, claim, radius)
        return 100 * sum(row[by] == reasons.REASONS for row in own) / len(own)

    def cost(name: str) -> list[float]:
        every = (some(name, "certified", radius) for radius in reasons.RADII)
        return sorted(sum(row["seconds"] for row in own) / len(own) for own in every)

    def times(claim: str, name: str) -> float:
        return share(name, claim) / share(name, claim, "norm")

    left = {row["applicant"]: row["pair"] for row in some(relu, "attack")}
    wrong = sum(row["pair"] > left[row["applicant"]] for row in some(relu, "first_order"))
    norms = sorted(share(name, "first_order", "norm") for name in (soft, relu))
    first = sorted(times("first_order", name) for name in (soft, relu))
    crossed = "credit-german/ce-mlp"
    assert share(crossed, "certified") == share(crossed, "attack")
    assert round(times("certified", soft)) == 6
    assert round(times("certified", relu)) == 10
    for said in (
        f"keeps {share(soft, 'certified', 'norm'):.1f} % of the lists of the softplus network",
        (
            f"pair by pair {share(soft, 'certified'):.1f} %, where the attack left "
            f"{share(soft, 'attack'):.0f} %"
        ),
        (
            f"{share(relu, 'certified', 'norm'):.1f} % are proved by the norm, "
            f"{share(relu, 'certified'):.1f} % pair by pair, and the attack left "
            f"{share(relu, 'attack'):.0f} %"
        ),
        "six and ten times the norm's share by proof",
        (
            f"{first[0]:.1f} to {first[1]:.1f} times under the first order, "
            f"whose norm already keeps {norms[0]:.0f} to {norms[1]:.0f} %"
        ),
        f"said too much for {wrong} of {len(left)} applicants of the ReLU network",
        f"{cost(soft)[0]:.2f} to {cost(soft)[-1]:.2f} CPU-seconds an applicant of the softplus",
        f"of the ReLU network {cost(relu)[0]:.2f} to {cost(relu)[-1]:.2f}",
        f"cross-entropy {len(some(crossed, 'certified'))} applicants are measured",
        (
            f"{share(crossed, 'certified', 'norm'):.0f} % are proved by the norm and "
            f"{share(crossed, 'certified'):.0f} % pair by pair, all that the attack left"
        ),
        f"leave {share(relu, reasons.ATTACK_ON_AVERAGED):.0f} % at ε = 0.1",
        (
            f"By pair it keeps {share(relu, 'smoothed'):.0f} % there and "
            f"{share(relu, 'smoothed', radius=0.2):.0f} % at 0.2"
        ),
    ):
        assert said in page, said
