from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from PIL import Image

import attribound as ab
from attribound.data import arrays, load
from attribound.data.registry import FLOWERS17_CLASSES


def picture(path: Path, shade: int = 0, size: tuple[int, int] = (4, 3), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, shade).convert(mode).save(path)


def shades(data) -> list[tuple[int, int]]:
    return [(round(float(x.mean()) * 255), y) for x, y in data]


@pytest.fixture
def cats_and_dogs(tmp_path) -> Path:
    picture(tmp_path / "pets" / "dogs" / "b.png", 40)
    picture(tmp_path / "pets" / "dogs" / "a.PNG", 30)
    picture(tmp_path / "pets" / "cats" / "c.png", 10)
    (tmp_path / "pets" / "cats" / ".hidden.png").write_bytes(b"-")
    (tmp_path / "pets" / "cats" / "notes.txt").write_text("-")
    (tmp_path / "pets" / ".cache").mkdir()
    return tmp_path / "pets"


def test_one_folder_a_class(cats_and_dogs) -> None:
    data = load(cats_and_dogs)
    assert data.name == "pets"
    assert data.classes == ("cats", "dogs")
    assert data.shape == (3, 3, 4)
    assert shades(data) == [(10, 0), (30, 1), (40, 1)]
    assert load(str(cats_and_dogs), size=7).shape == (3, 7, 7)


def test_a_folder_of_grey_images_has_one_channel(tmp_path) -> None:
    picture(tmp_path / "only" / "a.png", 7, mode="L")
    assert load(tmp_path).shape == (1, 3, 4)


def test_data_without_parts_has_no_training_part(cats_and_dogs) -> None:
    for part in ("train", "test"):
        with pytest.raises(ab.InputError, match=f"expected a part for split='{part}', got one set"):
            load(cats_and_dogs, part)


def test_folders_of_parts(tmp_path) -> None:
    picture(tmp_path / "train" / "x" / "a.png", 1)
    picture(tmp_path / "val" / "x" / "a.png", 2)
    assert shades(load(tmp_path, "train")) == [(1, 0)]
    assert shades(load(tmp_path)) == shades(load(tmp_path, "test")) == [(2, 0)]
    picture(tmp_path / "test" / "x" / "a.png", 3)
    assert shades(load(tmp_path)) == [(3, 0)]


def test_a_missing_part(tmp_path) -> None:
    picture(tmp_path / "train" / "x" / "a.png")
    with pytest.raises(
        ab.InputError, match="expected a folder test or val or validation, got train"
    ):
        load(tmp_path)


def test_a_class_may_be_called_test(tmp_path) -> None:
    picture(tmp_path / "test" / "a.png")
    picture(tmp_path / "exam" / "a.png")
    assert load(tmp_path).classes == ("exam", "test")


def test_refuses_folders_that_hide_something(cats_and_dogs) -> None:
    (cats_and_dogs / "birds").mkdir()
    with pytest.raises(ab.InputError, match="in every class folder, got none in birds; remove"):
        load(cats_and_dogs)
    picture(cats_and_dogs / "stray.png")
    with pytest.raises(
        ab.InputError, match=r"images without a class such as stray.png; put images in"
    ):
        load(cats_and_dogs)


def test_an_empty_folder(tmp_path) -> None:
    with pytest.raises(ab.InputError, match="expected one folder for each class, got no folders"):
        load(tmp_path)


def test_sizes_that_differ(cats_and_dogs) -> None:
    picture(cats_and_dogs / "cats" / "d.png", size=(9, 9))
    with pytest.raises(ab.InputError, match="pass size="):
        load(cats_and_dogs)
    assert arrays(load(cats_and_dogs, size=2))[0].shape == (4, 3, 2, 2)


def test_a_broken_file_is_named_at_once(cats_and_dogs) -> None:
    (cats_and_dogs / "cats" / "d.jpg").write_bytes(b"broken")
    with pytest.raises(ab.InputError, match=r"cats/d.jpg: expected a whole JPEG or PNG image"):
        load(cats_and_dogs)


def flowers(root: Path, names: list[str], count: int = 80) -> None:
    for label, name in enumerate(names):
        for number in range(count):
            picture(root / "flowers17" / name / f"{number:04}.png", label * 10, (1, 1))


@pytest.mark.parametrize("pattern", ["{k:02}-{n}", "{n}", "{u}"])
def test_flowers_have_the_official_labels_whatever_the_order_of_the_folders(
    tmp_path, pattern
) -> None:
    names = [
        pattern.format(k=k, n=n, u=n.replace("-", "_").title())
        for k, n in enumerate(FLOWERS17_CLASSES)
    ]
    flowers(tmp_path, names)
    train, test = (load("flowers17", part, root=tmp_path, size=1) for part in ("train", "test"))
    assert test.classes == FLOWERS17_CLASSES
    assert torch.bincount(train.labels).tolist() == [60] * 17
    assert torch.bincount(test.labels).tolist() == [20] * 17
    assert all(shade == 10 * label for shade, label in shades(test))


def test_flowers_that_are_others_or_too_few(tmp_path) -> None:
    flowers(tmp_path, [*FLOWERS17_CLASSES[:-1], "rose"], 1)
    with pytest.raises(ab.InputError, match=r"expected one folder .*pansy, got .*rose"):
        load("flowers17", root=tmp_path)
    (tmp_path / "flowers17" / "rose").rename(tmp_path / "flowers17" / "pansy")
    with pytest.raises(ab.InputError, match=r"expected 80 images of each class, got \[1, 1,"):
        load("flowers17", root=tmp_path)


def test_imagenet_by_class_index(tmp_path) -> None:
    for index in (990, 20, 7):
        picture(tmp_path / "imagenet" / "val" / f"{index:03}" / "a.png", index % 100, (256, 300))
    data = load("imagenet", root=tmp_path)
    assert data.shape == (3, 224, 224)
    assert len(data.classes) == 1000
    assert shades(data) == [(7, 7), (20, 20), (90, 990)]


def test_imagenet_without_parts_is_for_testing(tmp_path) -> None:
    picture(tmp_path / "imagenet" / "5" / "a.png")
    assert load("imagenet", "test", root=tmp_path).labels.tolist() == [5]
    with pytest.raises(ab.InputError, match="expected a part for split='train'"):
        load("imagenet", "train", root=tmp_path)


def test_imagenet_by_all_wordnet_numbers(tmp_path) -> None:
    folders = [tmp_path / "imagenet" / "val" / f"n{number:08}" for number in range(1000)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a.JPEG").write_bytes(b"not decoded here")
    data = load("imagenet", root=tmp_path)
    assert data.classes[999] == "n00000999"
    assert data.labels.tolist() == list(range(1000))


def test_imagenet_whose_labels_cannot_be_known(tmp_path) -> None:
    picture(tmp_path / "imagenet" / "val" / "n01440764" / "a.png")
    with pytest.raises(ab.InputError, match="got 1 folders such as 'n01440764'; with a part of"):
        load("imagenet", root=tmp_path)
    with pytest.raises(
        ab.InputError, match=re.escape(f"{tmp_path}/none/imagenet/val, got no such")
    ):
        load("imagenet", root=tmp_path / "none")
