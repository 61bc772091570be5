"""Embedded texts: no pixels, channels of a token together, padding frozen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import attribound as ab
from attribound.data import arrays, load

X = np.random.default_rng(0).normal(size=(4, 3, 2)) * 5
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])


def saved(path, **given):
    np.savez(path / "texts.npz", **{"embeddings": X, "y": [0, 1, 0, 1], **given})
    return path / "texts.npz"


def test_tokens_and_padding(tmp_path) -> None:
    data = load(saved(tmp_path, mask=MASK))
    assert torch.equal(arrays(data)[0], torch.from_numpy(X).float())
    assert data.columns.names == ("token 1", "token 2", "token 3")
    assert data.columns.groups == (0, 0, 1, 1, 2, 2)
    assert torch.equal(data.free, torch.from_numpy(MASK == 1).unsqueeze(2).expand(4, 3, 2))
    assert data.select(torch.tensor([2])).free.sum() == 2
    assert load(saved(tmp_path)).free is None


def test_parts(tmp_path) -> None:
    saved(tmp_path)
    np.savez(
        tmp_path / "p.npz", embeddings_test=X[:1], y_test=[0], embeddings_train=X, y_train=[0] * 4
    )
    assert len(load(tmp_path / "p.npz")) == 1
    assert len(load(tmp_path / "p.npz", "train")) == 4
    with pytest.raises(ab.InputError, match="expected a part for split='train'"):
        load(tmp_path / "texts.npz", "train")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embeddings": X[0]}, r"embeddings as numbers .examples, tokens, channels., got float64"),
        ({"mask": MASK[:2]}, r"a mask of 0 and 1 of shape \(4, 3\)"),
        ({"mask": MASK * 2}, "a mask of 0 and 1"),
        ({"mask": MASK * 0}, "a token in every text"),
        ({"embeddings": X * np.nan}, "NaN or infinity in row 0"),
    ],
)
def test_refuses_other_arrays(tmp_path, given, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        load(saved(tmp_path, **given))


def test_labels_are_needed_and_pixels_are_pixels(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", embeddings=X)
    with pytest.raises(ab.InputError, match="expected labels y beside embeddings"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=X, y=[0] * 4)
    with pytest.raises(ab.InputError, match=r"save embedded texts .* as embeddings"):
        load(tmp_path / "b.npz")


def test_an_audit_sums_tokens_and_leaves_padding_alone(tmp_path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 2))
    run = ab.audit(
        net,
        str(saved(tmp_path, mask=MASK)),
        attributions="saliency",
        balls="l2:epsilon=0.2",
        claims=["first_order", "certified"],
        batch=3,
        maps="all",
    )
    rows = run.samples()
    assert rows["error"].to_pylist() == [None] * 4
    assert rows["scores"].to_pylist() == [3] * 4
    assert rows["ball"].to_pylist() == ["l2 scaled"] * 4
    deltas = torch.tensor(run.maps()["delta"].to_pylist()).view(4, 3, 2)
    moved = (deltas != 0).any(2)
    assert torch.equal(moved, torch.from_numpy(MASK == 1))
    # As for each text by hand, in a ball of its tokens alone.
    x = torch.from_numpy(X).float()
    scale = torch.from_numpy(MASK).float().unsqueeze(2).expand(4, 3, 2)
    grouped = ab.Grouped(ab.Saliency(net), torch.tensor([[0, 0], [1, 1], [2, 2]]))
    for claim in ("first_order", "certified"):
        by_hand = ab.bound(grouped, x, ab.L2Ball(0.2, scale=scale), claim=claim)
        found = [r["euclidean"] for r in run.bounds().to_pylist() if r["claim"] == claim]
        torch.testing.assert_close(torch.tensor(found), by_hand.euclidean, rtol=1e-3, atol=0)
