from __future__ import annotations

import pytest
import torch

import fashion

RECIPE = fashion.Recipe("MLP", 5.0, 3, 1)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2 * fashion.BATCH, 1, 28, 28, generator=generator)
    return images, torch.randint(10, (len(images),), generator=generator)


class KilledError(Exception):
    pass


def kill_after(epochs: int, monkeypatch) -> None:
    """Stop training in the epoch after ``epochs``, as a kill would."""
    shuffle, calls = torch.randperm, []

    def counted(size: int):
        calls.append(size)
        if len(calls) > epochs:
            raise KilledError
        return shuffle(size)

    monkeypatch.setattr(torch, "randperm", counted)


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_killed_training_goes_on_to_the_same_network(data, epochs, monkeypatch, tmp_path) -> None:
    undisturbed = fashion.train("whole", RECIPE, data, tmp_path)
    with monkeypatch.context() as patch:
        kill_after(epochs, patch)
        with pytest.raises(KilledError):
            fashion.train("part", RECIPE, data, tmp_path)
    assert (tmp_path / "fashion-part.partial").exists() == (epochs > 0)
    torch.manual_seed(99)  # a new process does not know the old one's random numbers
    assert same(fashion.train("part", RECIPE, data, tmp_path), undisturbed)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "fashion-part.safetensors",
        "fashion-whole.safetensors",
    ]


def test_without_the_random_numbers_it_would_be_another(data, monkeypatch, tmp_path) -> None:
    """The check above can fail."""
    undisturbed = fashion.train("whole", RECIPE, data, tmp_path)
    with monkeypatch.context() as patch:
        kill_after(1, patch)
        with pytest.raises(KilledError):
            fashion.train("part", RECIPE, data, tmp_path)
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    assert not same(fashion.train("part", RECIPE, data, tmp_path), undisturbed)


def test_another_recipe_starts_afresh(data, monkeypatch, tmp_path) -> None:
    other = fashion.Recipe("MLP", 20.0, 3, 1)
    with monkeypatch.context() as patch:
        kill_after(1, patch)
        with pytest.raises(KilledError):
            fashion.train("one", other, data, tmp_path)
    fresh = fashion.train("one", RECIPE, data, tmp_path)
    assert same(fresh, fashion.train("two", RECIPE, data, tmp_path))


def test_the_networks_of_the_other_benchmarks_keep_their_recipes() -> None:
    assert fashion.NETWORKS == ("nat", "at")
    assert [fashion.RECIPES[name] for name in fashion.NETWORKS] == [
        fashion.Recipe("SmallCNN", 20.0, 2, 0),
        fashion.Recipe("SmallCNN", 20.0, 2, 7),
    ]
