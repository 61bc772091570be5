from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import attribound as ab
from attribound.data import arrays, load

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (6, 5, 4), dtype=np.uint8)
FLOATS = RNG.random((6, 5, 4))
ROWS = RNG.normal(size=(6, 3)) * 100
Y = np.array([0, 1, 2, 0, 1, 2])


def saved(path, **arrays_: object):
    np.savez(path / "mine.npz", **arrays_)
    return path / "mine.npz"


def test_rows_of_features(tmp_path) -> None:
    data = load(saved(tmp_path, x=ROWS, y=Y))
    x, y = arrays(data)
    assert torch.equal(x, torch.from_numpy(ROWS).float())
    assert y.tolist() == Y.tolist()
    assert (data.name, data.classes, data.shape) == ("mine", ("0", "1", "2"), (3,))


@pytest.mark.parametrize("kind", [BYTES, FLOATS, FLOATS.astype(np.float16)])
def test_images_in_every_layout(tmp_path, kind) -> None:
    expected = torch.from_numpy(kind.astype(np.float32) / np.float32(255 if kind is BYTES else 1))
    colours = np.stack([kind, kind[::-1], kind], 1)
    layouts = {"grey": kind, "first": colours, "last": colours.transpose(0, 2, 3, 1)}
    found = {
        k: arrays(load(saved(tmp_path, images=v, labels=Y[:, None])))[0] for k, v in layouts.items()
    }
    assert torch.equal(found["grey"], expected[:, None])
    assert torch.equal(found["first"][:, 1], expected.flip(0))
    assert torch.equal(found["last"], found["first"])


@pytest.mark.parametrize("names", ["{a}_{s}", "{s}_{a}"])
def test_parts_and_names_of_classes(tmp_path, names) -> None:
    def part(split: str, scale: float) -> dict[str, np.ndarray]:
        return {names.format(a="x", s=split): ROWS * scale, names.format(a="y", s=split): Y}

    path = saved(tmp_path, **part("train", 2), **part("test", 1), classes=["a", "b", "c"])
    assert torch.equal(load(path)[0][0], torch.from_numpy(ROWS[0]).float())
    assert torch.equal(load(path, "train")[0][0], torch.from_numpy(2 * ROWS[0]).float())
    assert load(path).classes == ("a", "b", "c")


def test_a_part_that_is_not_there(tmp_path) -> None:
    path = saved(tmp_path, x_train=ROWS, y_train=Y)
    with pytest.raises(
        ab.InputError, match="expected arrays x and y, or x_test and y_test, got x_train"
    ):
        load(path)
    with pytest.raises(ab.InputError, match="expected a part for split='train'"):
        load(saved(tmp_path, x=ROWS, y=Y), "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": ROWS}, "expected arrays x and y.*, got x; save it"),
        ({}, "got nothing"),
        ({"x": ROWS, "y": Y[:5]}, "expected as many labels as examples, got 6 examples and 5"),
        ({"x": ROWS, "y": Y - 1}, "expected labels from 0 to 1, got -1"),
        ({"x": ROWS, "y": Y, "classes": ["a"]}, "expected labels from 0 to 0, got 1"),
        ({"x": ROWS, "y": Y / 2}, "expected one whole number per example as label, got float64"),
        ({"x": ROWS, "y": np.eye(6, 3, dtype=int)}, r"got int64 of shape \(6, 3\); number the"),
        ({"x": ROWS, "y": Y + 10**12}, "at most 1000000, got 1000000000002; check that these"),
        ({"x": ROWS.astype(str), "y": Y}, "expected an array of numbers, got <U"),
        ({"x": np.where(ROWS[3, 0] < ROWS, np.nan, ROWS), "y": Y}, "got NaN or infinity in row"),
        ({"x": ROWS * 1e300, "y": Y}, "expected finite float32 features"),
        (
            {"x": FLOATS * 255, "y": Y},
            "expected images as bytes, or as numbers from 0 to 1, got float64",
        ),
        ({"x": FLOATS * np.nan, "y": Y}, "numbers from 0 to 1, got float64 from nan"),
        ({"x": np.zeros((6, 5, 4, 4)), "y": Y}, r"got shape \(6, 5, 4, 4\); reshape"),
        ({"x": np.zeros((6, 3, 4, 3)), "y": Y}, r"got shape \(6, 3, 4, 3\)"),
        ({"x": np.zeros(6), "y": Y}, r"got shape \(6,\)"),
        ({"x": np.array([object()] * 6), "y": Y}, "without pickled objects, got Object arrays"),
    ],
)
def test_refuses_other_arrays(tmp_path, content, message) -> None:
    with np.errstate(over="ignore"), pytest.raises(ab.InputError, match=message):
        load(saved(tmp_path, **content))


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_refuses_a_cut_file(tmp_path, keep) -> None:
    path = saved(tmp_path, x=ROWS, y=Y)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ab.InputError, match=r"mine.npz: expected a whole .npz file"):
        load(path)


def test_refuses_changed_bytes(tmp_path) -> None:
    path = saved(tmp_path, x=ROWS, y=Y)
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ab.InputError, match=r"expected a whole .npz file .*, got Bad CRC"):
        load(path)


def test_refuses_a_single_array_by_that_name(tmp_path) -> None:
    with (tmp_path / "mine.npz").open("wb") as file:
        np.save(file, ROWS)
    with pytest.raises(ab.InputError, match=r"expected a whole .npz file"):
        load(tmp_path / "mine.npz")


def test_arrays_cannot_be_scaled(tmp_path) -> None:
    with pytest.raises(
        ab.InputError, match="images of any size, for size=, got data of a fixed shape"
    ):
        load(saved(tmp_path, x=ROWS, y=Y), size=8)


TEXTS = np.random.default_rng(0).normal(size=(4, 3, 2)) * 5
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])


def embedded(path, **given):
    np.savez(path / "texts.npz", **{"embeddings": TEXTS, "y": [0, 1, 0, 1], **given})
    return path / "texts.npz"


def test_tokens_and_padding(tmp_path) -> None:
    data = load(embedded(tmp_path, mask=MASK))
    assert torch.equal(arrays(data)[0], torch.from_numpy(TEXTS).float())
    assert data.columns.names == ("token 1", "token 2", "token 3")
    assert data.columns.groups == (0, 0, 1, 1, 2, 2)
    assert torch.equal(data.free, torch.from_numpy(MASK == 1).unsqueeze(2).expand(4, 3, 2))
    assert data.select(torch.tensor([2])).free.sum() == 2
    assert load(embedded(tmp_path)).free is None


def test_parts_of_texts(tmp_path) -> None:
    embedded(tmp_path)
    np.savez(
        tmp_path / "p.npz",
        embeddings_test=TEXTS[:1],
        y_test=[0],
        embeddings_train=TEXTS,
        y_train=[0] * 4,
    )
    assert len(load(tmp_path / "p.npz")) == 1
    assert len(load(tmp_path / "p.npz", "train")) == 4
    with pytest.raises(ab.InputError, match="expected a part for split='train'"):
        load(tmp_path / "texts.npz", "train")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"embeddings": TEXTS[0]},
            r"embeddings as numbers .examples, tokens.*, got float64",
        ),
        ({"mask": MASK[:2]}, r"a mask of 0 and 1 of shape \(4, 3\)"),
        ({"mask": MASK * 2}, "a mask of 0 and 1"),
        ({"mask": MASK * 0}, "a token in every text"),
        ({"embeddings": TEXTS * np.nan}, "NaN or infinity in row 0"),
    ],
)
def test_refuses_other_texts(tmp_path, given, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        load(embedded(tmp_path, **given))


def test_labels_are_needed_and_pixels_are_pixels(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", embeddings=TEXTS)
    with pytest.raises(ab.InputError, match="expected labels y beside embeddings"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=TEXTS, y=[0] * 4)
    with pytest.raises(ab.InputError, match=r"save embedded texts .* as embeddings"):
        load(tmp_path / "b.npz")


def test_an_audit_sums_tokens_and_leaves_padding_alone(tmp_path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 2))
    run = ab.audit(
        net,
        str(embedded(tmp_path, mask=MASK)),
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
    x = torch.from_numpy(TEXTS).float()
    scale = torch.from_numpy(MASK).float().unsqueeze(2).expand(4, 3, 2)
    grouped = ab.Grouped(ab.Saliency(net), torch.tensor([[0, 0], [1, 1], [2, 2]]))
    for claim in ("first_order", "certified"):
        by_hand = ab.bound(grouped, x, ab.L2Ball(0.2, scale=scale), claim=claim)
        found = [r["euclidean"] for r in run.bounds().to_pylist() if r["claim"] == claim]
        torch.testing.assert_close(torch.tensor(found), by_hand.euclidean, rtol=1e-3, atol=0)
