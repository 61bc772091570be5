from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import attribound as ab
from attribound.report import figures
from report import cases


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("figures")
    chosen = cases.settings(
        attributions=(ab.IntegratedGradients(label=cases.HOSTILE),),
        balls=cases.L2,
    )
    run = cases.run(place / "run", chosen)
    return place / "deep" / "figures", figures(run, place / "deep" / "figures")


def test_there_are_three_figures_as_png_and_pdf(folder) -> None:
    place, written = folder
    assert sorted(place.iterdir()) == sorted(written)
    stem = "0-script-script-alert-1-script-img-src-x-onerror-alert-2-l2"
    assert {path.name for path in written} == {
        f"{stem}-{name}.{kind}" for name in ("scatter", "gaps", "curves") for kind in ("png", "pdf")
    }


def test_the_files_are_what_they_are_called_and_show_something(folder) -> None:
    for path in folder[1]:
        if path.suffix == ".png":
            pixels = np.asarray(Image.open(path).convert("L"))
            assert pixels.std() > 5
        else:
            assert path.read_bytes().startswith(b"%PDF-")
