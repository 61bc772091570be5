"""Networks in files: weights and config together, never a pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attribound.basics.errors import InputError, ModelError
from attribound.basics.limits import parse_json
from attribound.basics.whole_files import write_whole
from attribound.models.config import Config, build, config_from_json, normalised
from attribound.models.normalisation import Normalised

#: The key of the config, as JSON text, in the metadata of the file.
KEY = "attribound.config"
#: Characters of a config: far more than any has, and no network of so many layers is built.
_LONGEST = 2**14
_DRAWS = (Tensor.normal_, Tensor.uniform_)
#: How the names of counts end that batch norms keep while they are trained.
_COUNT = "num_batches_tracked"


def save(model: nn.Module, config: Config, path: str | Path) -> None:
    """Write the weights of ``model`` and its ``config`` to one safetensors file.

    The file is complete or not there: it is written beside ``path`` and then moved.
    A model that is not what ``config`` builds is refused, e.g. a smooth copy with the
    config of its original: it would come back as another function.
    """
    with _weightless():
        wanted = build(config)
    got = str(model)
    if got != str(wanted):
        raise ModelError(
            "model",
            expected=f"what its config builds, {_first_difference(str(wanted), got)}",
            got=_first_difference(got, str(wanted)),
            remedy="save the module that build(config) gave, before it is wrapped or smoothed",
        )
    network = model[1] if isinstance(model, Normalised) else model
    weights = {
        name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()
    }
    # "format" is what other readers of safetensors look for.
    metadata = {"format": "pt", KEY: json.dumps(config.to_json(), allow_nan=False)}
    write_whole(Path(path), to_bytes(weights, metadata))


def load(
    path: str | Path, config: Config | None = None, dtype: torch.dtype | None = None
) -> nn.Module:
    """The network stored at ``path``, in eval mode, on the CPU, in the dtype it was saved in.

    Counts of batches that a batch norm has seen may be left out: eval mode has no use for them.

    Args:
        path: a safetensors file with the weights of the network behind any normalisation.
        config: for files without one, such as weights published by others.
        dtype: to convert to, for files that keep large weights in half precision.

    Raises:
        InputError: the file is no safetensors file or truncated; has no config, or not
            this one; or names, shapes and dtypes of its weights are not the network's.
            Changed bytes inside a weight are not noticed: compare checksums for that.
    """
    path = Path(path)
    stored, weights = _read(path)
    config = _agree(path.name, stored, config)
    network = _empty(path.name, config)
    weights = with_counts(weights, network.state_dict())
    _check(path.name, weights, network.state_dict())
    found = dtype or _dtype(path.name, weights)
    network.load_state_dict(weights, assign=True)
    return normalised(config, network).to(found).eval()


def with_counts(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``weights``, and zero for the counts of batches among the ``wanted`` that they lack."""
    counts = (name for name in wanted if name.endswith(_COUNT) and name not in weights)
    return {**weights, **{name: torch.tensor(0) for name in counts}}


def _read(path: Path) -> tuple[Config | None, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
            # Copies: the file may be changed while its network is in use.
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(
            path.name,
            expected="a whole safetensors file",
            got=str(error),
            remedy="fetch or save it again; pickled checkpoints are not read",
        ) from error
    return None if text is None else _parse(path.name, text), weights


def _empty(name: str, config: Config) -> nn.Module:
    """The network without weights: nothing is drawn that the file replaces, no memory taken."""
    try:
        with _weightless():
            return config.network()
    except InputError:
        raise
    # Numbers that are no sizes: which of them torch refuses, and how, is its own business.
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(
            f"config in {name}",
            expected="sizes that a network can have",
            got=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            remedy="save the network again",
        ) from error


@contextmanager
def _weightless() -> Iterator[None]:
    """Networks made inside have shapes and no numbers."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Initial weights are not drawn.

    On tensors without numbers PyTorch does that by loading its compiler, which takes a second.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def _parse(name: str, text: str) -> Config:
    if len(text) > _LONGEST:
        raise InputError(
            f"config in {name}",
            expected=f"at most {_LONGEST} characters",
            got=f"{len(text)}",
            remedy="save the network again: no config of attribound is that long",
        )
    try:
        data = parse_json(text)
    except ValueError as error:
        raise InputError(
            f"config in {name}",
            expected="JSON",
            got=f"{text[:80]!r} ({error})",
            remedy="save the network again",
        ) from error
    return config_from_json(data)


def _agree(name: str, stored: Config | None, given: Config | None) -> Config:
    config = stored or given
    if config is None:
        raise InputError(
            name,
            expected="a config in the file or as argument",
            got="neither",
            remedy="say what the weights belong to, e.g. load(path, ResNet18Config())",
        )
    if given not in (None, config):
        raise InputError(
            name,
            expected=str(given),
            got=f"a file of {config}",
            remedy="leave the config out, to get the network that was saved",
        )
    return config


def _check(name: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse weights whose names, shapes and dtypes are not those wanted."""
    differing = [
        key
        for key in [*wanted, *sorted(weights.keys() - wanted.keys())]
        if _describe(weights.get(key)) != _describe(wanted.get(key))
    ]
    if differing:
        first = differing[0]
        raise InputError(
            name,
            expected=f"{_describe(wanted.get(first))} as {first!r}",
            got=f"{_describe(weights.get(first))}, and {len(differing) - 1} more that differ",
            remedy="the weights belong to another network: check its config",
        )


def _dtype(name: str, weights: Mapping[str, Tensor]) -> torch.dtype:
    """That of all weights."""
    found = {w.dtype for w in weights.values() if w.is_floating_point()}
    if len(found) != 1:
        raise InputError(
            name,
            expected="weights of one floating-point dtype",
            got=", ".join(sorted(map(str, found))),
            remedy="say which the network shall have, e.g. dtype=torch.float32",
        )
    return found.pop()


def _describe(weight: Tensor | None) -> str:
    if weight is None:
        return "nothing"
    kind = "floats" if weight.is_floating_point() else str(weight.dtype)
    return f"{kind} of shape {tuple(weight.shape)}"


def _first_difference(text: str, other: str) -> str:
    """The first line of ``text`` that is not the same in ``other``."""
    lines, others = text.splitlines(), [*other.splitlines(), None]
    pairs = zip([*lines, "nothing more"], others, strict=False)
    return next((line.strip() for line, there in pairs if line != there), "nothing more")
