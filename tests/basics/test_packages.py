from __future__ import annotations

import sys

import pytest

import attribound as ab
from attribound.basics.packages import package
from attribound.data import load


def test_gives_the_module() -> None:
    assert package("json.decoder", extra="data", purpose="x").JSONDecoder


@pytest.mark.parametrize(("module", "extra"), [("pooch", "data"), ("PIL.Image", "data")])
def test_names_the_extra_to_install(monkeypatch, module, extra) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = rf"images: expected the package {module.split('.')[0]}, .*'attribound\[{extra}\]'"
    with pytest.raises(ab.InputError, match=message):
        package(module, extra=extra, purpose="images")


def test_digits_without_scikit_learn(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        ab.InputError, match=r"digits: .* sklearn, .* pip install 'attribound\[demo\]'"
    ):
        load("digits")
