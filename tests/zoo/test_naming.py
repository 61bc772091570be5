from __future__ import annotations

import pytest

from attribound.basics.errors import InputError
from attribound.zoo.naming import check_describes, check_name, unknown

KNOWN = ("fashion-mnist/at", "fashion-mnist/trades-igr", "mnist/at")


@pytest.mark.parametrize("name", [*KNOWN, "cifar10/at-resnet18"])
def test_names(name) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["at", "../at", "mnist/../at", "mnist/.at", "/at", "mnist/at/x", "MNIST/at", "mnist/", 3],
)
def test_refuses_what_is_no_name(name) -> None:
    with pytest.raises(InputError, match="expected <data>/<method>"):
        check_name(name)


@pytest.mark.parametrize(
    ("name", "data", "method", "architecture"),
    [
        ("mnist/at", "mnist", "at", "small_cnn"),
        ("mnist/trades-igr", "mnist", "trades+igr", "small_cnn"),
        ("mnist/ce-mlp", "mnist", "ce", "mlp"),
        ("mnist/ce-small-cnn", "mnist", "ce", "small_cnn"),
        ("cifar10/trades-igr-resnet18-wide", "cifar10", "trades+igr", "resnet18"),
    ],
)
def test_names_that_say_what_a_model_is(name, data, method, architecture) -> None:
    check_describes(name, data, method, architecture)


@pytest.mark.parametrize(
    ("name", "data", "method", "architecture"),
    [
        ("fashion-mnist/at", "mnist", "at", "small_cnn"),
        ("mnist/trades-igr", "mnist", "trades", "small_cnn"),
        ("mnist/trades", "mnist", "trades+igr", "small_cnn"),
        ("mnist/at-mlp", "mnist", "at", "small_cnn"),
        ("mnist/at-mlpx", "mnist", "at", "mlp"),
    ],
)
def test_refuses_names_that_say_something_else(name, data, method, architecture) -> None:
    with pytest.raises(InputError, match="for that is what it is, got"):
        check_describes(name, data, method, architecture)


def test_an_unknown_name_gives_the_nearest() -> None:
    message = str(unknown("fashion-mnist/trades-irg", KNOWN))
    assert "such as fashion-mnist/trades-igr" in message
    assert "attribound.zoo.names()" in message


def test_a_name_like_no_other_gives_none() -> None:
    assert "expected a model of the zoo, got 'xyz'" in str(unknown("xyz", KNOWN))
