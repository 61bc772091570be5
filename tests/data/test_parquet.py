from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import attribound as ab
from attribound.data import arrays, load

ROWS = np.random.default_rng(0).normal(size=(6, 3))
Y = [0, 1, 2, 0, 1, 2]


def png(shade: int, size: tuple[int, int] = (4, 3)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def saved(path, **columns: object):
    pq.write_table(pa.table(columns), path / "mine.parquet")
    return path / "mine.parquet"


def features(**changes: object) -> dict[str, object]:
    return {
        "a": ROWS[:, 0],
        "b": ROWS[:, 1].astype(np.float32),
        "label": Y,
        "c": ROWS[:, 2],
    } | changes


def test_feature_columns_in_their_order(tmp_path) -> None:
    data = load(saved(tmp_path, **features()))
    x, y = arrays(data)
    assert torch.equal(x, torch.from_numpy(ROWS).float())
    assert y.tolist() == Y
    assert (data.name, data.classes, data.shape) == ("mine", ("0", "1", "2"), (3,))


def test_whole_numbers_truth_values_and_lists(tmp_path) -> None:
    lists = pa.array(ROWS.tolist(), pa.list_(pa.float64()))
    fixed = pa.array(ROWS.tolist(), pa.list_(pa.float64(), 3))
    path = saved(tmp_path, n=[1, 2, 3, 4, 5, 6], l=lists, b=[True, False] * 3, f=fixed, y=Y)
    expected = np.column_stack([np.arange(1, 7), ROWS, [1, 0] * 3, ROWS])
    assert torch.equal(arrays(load(path))[0], torch.from_numpy(expected).float())


@pytest.mark.parametrize("dictionary", [False, True])
def test_labels_as_texts(tmp_path, dictionary) -> None:
    texts = pa.array(["dog", "cat", "eel"] * 2)
    data = load(
        saved(tmp_path, **features(label=texts.dictionary_encode() if dictionary else texts))
    )
    assert data.classes == ("cat", "dog", "eel")
    assert data.labels.tolist() == [1, 0, 2] * 2


@pytest.mark.parametrize("kind", ["hugging face", "bytes"])
def test_an_image_column(tmp_path, kind) -> None:
    contents = [png(shade) for shade in (0, 51, 255)]
    if kind == "hugging face":
        contents = [{"bytes": content, "path": "x.png"} for content in contents]
    table = pa.table({"image": contents, "id": ["p", "q", "r"], "label": [2, 0, 1]})
    names = {"info": {"features": {"label": {"names": ["x", "y", "z"], "_type": "ClassLabel"}}}}
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(names)}), tmp_path / "i.parquet"
    )
    data = load(tmp_path / "i.parquet")
    assert data.classes == ("x", "y", "z")
    assert data.shape == (3, 3, 4)
    assert [(round(float(x[0].mean()), 3), y) for x, y in data] == [(0, 2), (0.2, 0), (1, 1)]
    assert load(tmp_path / "i.parquet", size=2).shape == (3, 2, 2)


def test_parts_as_hugging_face_lays_them_out(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    for name, scale in (("train-0-of-2", 1), ("train-1-of-2", 2), ("validation-0-of-1", 3)):
        table = pa.table({"a": ROWS[:, 0] * scale, "label": Y})
        pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
    first = torch.from_numpy(ROWS[:, :1]).float()
    assert torch.equal(arrays(load(tmp_path, "train"))[0], torch.cat([first, first * 2]))
    assert len(load(tmp_path)) == len(load(tmp_path, "test")) == 6
    assert len(load(tmp_path / "data" / "train-0-of-2.parquet", "train")) == 6
    with pytest.raises(ab.InputError, match="expected a part for split='test', got one set"):
        load(tmp_path / "data" / "train-0-of-2.parquet", "test")
    (tmp_path / "data" / "validation-0-of-1.parquet").unlink()
    with pytest.raises(
        ab.InputError, match=r"expected a file test\*.parquet, got train-0-of-2.parquet"
    ):
        load(tmp_path)


def test_a_folder_without_parts(tmp_path) -> None:
    saved(tmp_path, **features())
    assert len(load(tmp_path)) == 6
    with pytest.raises(ab.InputError, match="expected a part for split='test'"):
        load(tmp_path, "test")
    pq.write_table(pa.table({"other": [1], "label": [0]}), tmp_path / "more.parquet")
    with pytest.raises(ab.InputError, match="expected files with the same columns"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0]}, "expected a column of labels .*, got a; name the column"),
        (features(label=[0, 1, None, 0, 1, 2]), "got 1 missing in column 'label'"),
        (
            features(a=[1.0, None, None, 0, 1, 2]),
            "got 2 missing in column 'a', the first in row 2; remove",
        ),
        (features(label=[-1, *Y[1:]]), "expected labels from 0 to 2, got -1"),
        (features(label=ROWS[:, 0]), "expected one whole number per example as label, got float64"),
        (
            features(a=[b"x"] * 6),
            "expected numbers or texts in every column, got binary in column 'a'; leave",
        ),
        (
            features(a=[[1.0]] * 5 + [[1.0, 2.0]]),
            "one length in column 'a', got lengths from 1 to 2",
        ),
        (features(a=[[1.0, 2.0]] * 5 + [[1.0, None]]), "got NaN or infinity in row 5"),
        (
            features(a=ROWS[:, 0] * np.inf),
            "expected finite numbers in column 'a', got -?inf in row 1",
        ),
        ({"image": ["a.png"], "label": [0]}, "expected images as bytes of .*, got string; store"),
        ({"image": [{"bytes": None, "path": "a.png"}], "label": [0]}, "not their paths"),
        (
            {"image": [png(1), png(2, (9, 9))], "label": [0, 1]},
            "in mine, row 0 .* row 1; pass size=",
        ),
        ({"image": [png(1)], "label": [[1]]}, "one whole number per example as label, got object"),
        ({"image": [b"broken"], "label": [0]}, "mine, row 0: expected a whole JPEG or PNG"),
    ],
)
def test_refuses_other_columns(tmp_path, columns, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        load(saved(tmp_path, **columns))


def test_features_cannot_be_scaled(tmp_path) -> None:
    with pytest.raises(ab.InputError, match=r"mine: .* got data of a fixed shape; leave size out"):
        load(saved(tmp_path, **features()), size=8)


@pytest.mark.parametrize("keep", [0, 100, -20])
def test_refuses_a_cut_file(tmp_path, keep) -> None:
    path = saved(tmp_path, **features())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ab.InputError, match=r"mine.parquet: expected a whole Parquet file"):
        load(path)
