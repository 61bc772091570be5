from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import attribound as ab
from attribound import data
from attribound.auditing.sources import chosen, load_data
from auditing.sources import hostile


def table(path, count: int = 50, **more: np.ndarray) -> str:
    x = np.arange(count, dtype=np.float32)[:, None].repeat(2, 1)
    np.savez(path, x=x, y=np.arange(count) % 2, **more)
    return str(path)


def test_everything_without_a_limit(tmp_path) -> None:
    x, y = data.arrays(load_data(table(tmp_path / "a.npz")))
    assert torch.equal(x[:, 0], torch.arange(50.0))
    assert torch.equal(y, torch.arange(50) % 2)


def test_a_limit_takes_what_chosen_says(tmp_path) -> None:
    spec = table(tmp_path / "a.npz")
    for seed in (0, 1):
        x, _ = data.arrays(load_data(spec, limit=10, seed=seed))
        assert torch.equal(x[:, 0].long(), chosen(50, 10, seed))


def test_limits_are_nested_ascending_and_depend_on_the_seed() -> None:
    sets = [set(chosen(1000, limit, 3).tolist()) for limit in (5, 50, 500, 1000)]
    assert all(small < large for small, large in itertools.pairwise(sets))
    assert [len(s) for s in sets] == [5, 50, 500, 1000]
    assert chosen(1000, 50, 3).diff().min() > 0
    assert not torch.equal(chosen(1000, 50, 3), chosen(1000, 50, 4))
    assert torch.equal(chosen(1000, 50, 3), chosen(1000, 50, 3))
    assert all(torch.equal(chosen(10, limit), torch.arange(10)) for limit in (None, 10, 99))


def test_skipping_leaves_out_what_a_limit_takes() -> None:
    first, others = chosen(1000, 300, 3), chosen(1000, 200, 3, skip=300)
    assert torch.equal(torch.cat([first, others]).sort().values, chosen(1000, 500, 3))
    rest = chosen(1000, None, 3, skip=500)
    assert torch.equal(torch.cat([first, others, rest]).sort().values, torch.arange(1000))
    assert len(chosen(1000, None, skip=1000)) == len(chosen(1000, 5, skip=2000)) == 0


def test_it_is_a_shuffle_and_not_the_beginning() -> None:
    assert chosen(1000, 100).max() > 800
    assert 300 < chosen(1000, 100).float().mean() < 700


@pytest.mark.parametrize("limit", [0, -3])
def test_an_empty_limit_is_refused(limit, tmp_path) -> None:
    with pytest.raises(ab.InputError, match=f"limit: expected 1 or more examples, got {limit}"):
        load_data(table(tmp_path / "a.npz"), limit=limit)


def test_names_of_classes_are_data(tmp_path) -> None:
    crafted = ["<script>alert(1)</script>", "{{ 7 * 7 }}"]
    spec = table(tmp_path / "a.npz", classes=np.array(crafted))
    assert load_data(spec, limit=5).classes == tuple(crafted)


def test_a_split_that_is_none(tmp_path) -> None:
    with pytest.raises(ab.InputError, match="split: expected 'train' or 'test', got 'valid'"):
        load_data(table(tmp_path / "a.npz"), "valid")


def test_pickled_data_does_nothing(tmp_path) -> None:
    marker = tmp_path / "marker"
    bomb = np.array([hostile.Bomb(marker)] * 2, dtype=object)
    np.savez(tmp_path / "a.npz", x=bomb, y=np.arange(2))
    (tmp_path / "b.npz").write_bytes(hostile.pickled(marker))
    np.save(tmp_path / "c.npy", bomb)
    (tmp_path / "d.npy").write_bytes(hostile.pickled(marker))
    (tmp_path / "e.parquet").write_bytes(hostile.pickled(marker))
    for name in ("a.npz", "b.npz", "c.npy", "d.npy", "e.parquet"):
        with pytest.raises(ab.InputError, match=name):
            load_data(str(tmp_path / name))
    assert not marker.exists()
    np.load(tmp_path / "c.npy", allow_pickle=True)
    assert marker.exists()
