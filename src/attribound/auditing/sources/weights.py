"""Weights from files of tensors alone, into a network that fits them."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from attribound.basics.errors import InputError
from attribound.basics.limits import refuse_inflation
from attribound.models.files import with_counts
from attribound.models.normalisation import Normalised

#: How to make a file of weights out of a pickled model.
CONVERT = """if you trust it, write its weights alone:
    import torch
    from safetensors.torch import save_file
    stored = torch.load("model.pt", weights_only=False)  # runs its code
    state = stored if isinstance(stored, dict) else stored.state_dict()
    save_file({k: v.contiguous() for k, v in state.items()}, "net.safetensors")
and give --model MODULE:FACTORY --weights net.safetensors"""

#: Where checkpoints of training scripts keep the weights.
_NESTED = ("state_dict", "model_state_dict", "model")
#: What torch's parallel and compiled wrappers put before every name.
_WRAPPERS = ("module.", "_orig_mod.")
_SHOWN = 5


def load_weights(model: nn.Module, path: Path) -> tuple[str, ...]:
    """Put the weights stored at ``path`` into ``model``; notes on what was changed for that.

    Names and shapes must be the model's, all of them; counts of batches that its batch norms
    have seen may be left out, and so may the normalisation in front of the library's own
    networks. Of a checkpoint the part named ``state_dict`` or ``model`` is taken. A model
    takes the precision of double weights.

    Raises:
        InputError: the file has other weights, is damaged, or is not of tensors alone.
    """
    stored = read_weights(existing(path))
    if isinstance(model, Normalised) and not any(name.startswith("network.") for name in stored):
        stored = {f"network.{name}": value for name, value in stored.items()}
    weights, notes = _unwrapped(stored, model.state_dict())
    weights = with_counts(weights, model.state_dict())
    _check(path.name, weights, model.state_dict())
    floats = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    if torch.float64 in floats:
        model.double()
    half = sorted(str(d).removeprefix("torch.") for d in floats if d.itemsize < 4)
    if half:
        notes += (f"weights in {', '.join(half)} were converted to float32",)
    model.load_state_dict(weights)
    return notes


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors at ``path`` by name, from safetensors or a checkpoint; runs no code from it."""
    if path.suffix.lower() == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise InputError(
                path.name,
                expected="a whole safetensors file",
                got=str(error),
                remedy="fetch or save it again",
            ) from error
    _refuse_packed(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kinds of files that are refused anyway
            stored = torch.load(path, map_location="cpu", weights_only=True)
    # The restricted unpickler stops at the first thing that is no tensor or plain container;
    # a damaged file can make it stop anywhere.
    except Exception as error:
        raise InputError(
            path.name,
            expected="a file of weights alone",
            got=f"what cannot be read without running code from it ({_reason(error)})",
            remedy=CONVERT,
        ) from error
    if isinstance(stored, Mapping):
        stored = next((stored[k] for k in _NESTED if isinstance(stored.get(k), Mapping)), stored)
    if not isinstance(stored, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in stored.items()
    ):
        raise InputError(
            path.name,
            expected=f"weights by name, at the top or under {' or '.join(map(repr, _NESTED))}",
            got=_contents(stored),
            remedy="save model.state_dict()",
        )
    return dict(stored)


def _refuse_packed(path: Path) -> None:
    """Refuse a checkpoint whose compressed members would be far larger than their file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            becomes = sum(each.file_size for each in archive.infolist())
        refuse_inflation(path.name, becomes, path.stat().st_size, "save it again with torch.save")


def existing(path: Path) -> Path:
    """``path``, if there is a file."""
    if not path.is_file():
        raise InputError(
            str(path),
            expected="a file",
            got="a directory" if path.is_dir() else "nothing of that name",
            remedy="check the spelling; a path is taken from the current directory",
        )
    return path


def _unwrapped(
    weights: dict[str, Tensor], wanted: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    for prefix in _WRAPPERS:
        if weights.keys() == {f"{prefix}{name}" for name in wanted}:
            bare = {name.removeprefix(prefix): value for name, value in weights.items()}
            return bare, (f"{prefix!r} was taken off the names of the weights",)
    return weights, ()


def _check(name: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    problems = {
        "missing": [key for key in wanted if key not in weights],
        "not in the network": [key for key in weights if key not in wanted],
        "of another shape": [
            f"{key} {tuple(weights[key].shape)} for {tuple(wanted[key].shape)}"
            for key in wanted
            if key in weights and weights[key].shape != wanted[key].shape
        ],
    }
    if any(problems.values()):
        raise InputError(
            name,
            expected="the weights of the network that the factory makes",
            got="; ".join(f"{what}: {_few(keys)}" for what, keys in problems.items() if keys),
            remedy="give the factory the settings that these weights were trained with",
        )


def _few(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _contents(stored: object) -> str:
    if not isinstance(stored, Mapping):
        return f"a {type(stored).__name__}"
    return "a dict of " + (_few([f"{k!r}: {type(v).__name__}" for k, v in stored.items()]))


def _reason(error: Exception) -> str:
    """What is wrong, without torch's advice to switch the protection off."""
    text = str(error)
    found = re.search(r"GLOBAL ([\w.]+)", text) or re.search(
        r"WeightsUnpickler error:\s*(.+)", text
    )
    return found[1] if found else f"{type(error).__name__}: {(text.splitlines() or [''])[0]}"
