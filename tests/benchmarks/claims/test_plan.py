from __future__ import annotations

from dataclasses import replace

from claims.plan import BALLS, CNNS, LARGE, MLPS, Settings, batches, places, plan

SMALL = Settings(
    tests=30,
    calibrations=50,
    calibrations_cnn=20,
    batch=25,
    linear=6,
    certified=10,
    certified_cnn=4,
)


def test_batches_cover_everything_once() -> None:
    assert [list(run) for run in batches(5, 2)] == [[0, 1], [2, 3], [4]]
    assert batches(0, 2) == []


def test_tests_and_calibration_never_share_an_image() -> None:
    tests, calibration = places("test", range(40)), places("calibration", range(40))
    assert not set(tests) & set(calibration)
    assert places("test", range(50))[:40] == tests, "more images keep those that were there"
    assert places("linear", range(40)) == tests


def test_every_cell_gets_all_its_images_once() -> None:
    parts = [*plan(SMALL)]
    assert len({part.path(SMALL.parts) for part in parts}) == len(parts)
    for network in (*MLPS, *CNNS):
        for attribution in ("saliency", "ig-3"):
            for ball in BALLS:
                few = 50 if network in MLPS else 20
                for role, count in {"test": 30, "calibration": few}.items():
                    key = (network, attribution, ball, role)
                    same = [
                        part
                        for part in parts
                        if (part.network, part.attribution, part.ball, part.role) == key
                    ]
                    for again in (False, True):
                        runs = [part.images for part in same if part.again == again]
                        assert [i for run in runs for i in run] == list(range(count))


def test_the_second_pass_follows_its_part_in_a_file_of_its_own() -> None:
    parts = [part for part in plan(SMALL) if part.ball]
    for part, second in zip(parts[::2], parts[1::2], strict=True):
        assert (part.again, second) == (False, replace(part, again=True))
        folder, name = part.path(SMALL.parts).parent, part.path(SMALL.parts).name
        assert second.path(SMALL.parts) == folder / f"again-{name}"
        assert name == f"{part.role}-{part.number:03}.parquet", "what is measured stays valid"
    assert not any(part.again for part in plan(SMALL) if part.ball is None)


def test_the_early_parts_are_the_useful_ones() -> None:
    parts = [*plan(SMALL)]
    stages = [
        0
        if part.network in LARGE
        else 1
        if part.network in MLPS
        else 2 + (part.attribution != "saliency")
        for part in parts
    ]
    assert stages == sorted(stages)
    mlps = [part for part in parts if part.network in MLPS and part.ball]
    assert [part.number for part in mlps] == sorted(part.number for part in mlps)


def test_the_large_networks_are_only_compared_at_x() -> None:
    large = [part for part in plan(SMALL) if part.network in LARGE]
    assert [(part.role, len(part.images)) for part in large] == [("linear", 4)] * 2 * len(LARGE)


def test_only_chosen_networks_are_planned() -> None:
    chosen = Settings(networks=("at", "mlp-at-b5"))
    assert {part.network for part in plan(chosen)} == {"at", "mlp-at-b5"}


def test_what_is_certified() -> None:
    counted: dict[str, int] = {}
    for part in plan(SMALL):
        count = part.claims(SMALL).get("certified", 0)
        assert count == 0 or part.role == "test"
        counted[part.cell] = counted.get(part.cell, 0) + count
    some = {cell: count for cell, count in counted.items() if count}
    assert {count for cell, count in some.items() if cell.startswith("mlp")} == {10}
    assert sum(cell.startswith("mlp") for cell in some) == len(MLPS) * 2 * len(BALLS)
    assert {cell for cell in some if not cell.startswith("mlp")} == {
        f"{network}_saliency_l2-0.01" for network in CNNS
    }
    assert some["at_saliency_l2-0.01"] == 4


def test_calibration_has_both_its_bases() -> None:
    for part in plan(SMALL):
        claims = part.claims(SMALL)
        if part.ball is None or part.again:
            assert claims == {}
            continue
        assert claims["first_order"] == len(part.images)
        assert claims["mean_value"] == len(part.images)
