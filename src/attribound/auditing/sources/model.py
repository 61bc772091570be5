"""Load a model from what a user can write on a command line."""

from __future__ import annotations

import difflib
from pathlib import Path

from attribound import models, zoo
from attribound.auditing.sources.exported import load_exported
from attribound.auditing.sources.factory import is_factory, load_factory
from attribound.auditing.sources.loaded import LoadedModel, file_details, loaded
from attribound.auditing.sources.onnx import load_onnx
from attribound.auditing.sources.weights import CONVERT, existing
from attribound.basics.errors import InputError

#: What a model can be given as.
KINDS = (
    "zoo:NAME",
    "MODULE:FACTORY",
    "FILE.safetensors saved by attribound.models",
    "FILE.pt2 of torch.export",
    "FILE.onnx",
)
_FILES = {".pt2": load_exported, ".onnx": load_onnx}
#: What pickles are usually called.
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".tar")


def load_model(spec: str, weights: str | None = None) -> LoadedModel:
    """The model that ``spec`` names, in eval mode, on the CPU.

    No kind of file runs code from it. ``MODULE:FACTORY`` imports and calls Python code of
    yours, and ``weights`` (safetensors, or a checkpoint of tensors alone) go into what it
    makes. Settings of the factory follow as JSON: ``nets:build?{"width": 4}``.

    Raises:
        InputError: there is no such model, or its file is damaged, hostile or of another kind.
        ModelError: it is there, but no attribution of it could be bounded.
    """
    if not spec.startswith("zoo:") and is_factory(spec):
        return load_factory(spec, weights)
    if weights is not None:
        raise InputError(
            "weights",
            expected="nothing, for this model brings its own",
            got=weights,
            remedy="leave them out, or name what makes the network: MODULE:FACTORY",
        )
    if spec.startswith("zoo:"):
        name = spec.removeprefix("zoo:")
        return loaded(
            zoo.load(name), spec, {"kind": "zoo", "sha256": zoo.card(name).weights.sha256}
        )
    path = Path(spec).expanduser()
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return loaded(
            models.load(existing(path)), path.stem, {"kind": "safetensors", **file_details(path)}
        )
    if suffix in _FILES:
        return _FILES[suffix](existing(path))
    if suffix in _PICKLES:
        raise InputError(
            path.name,
            expected=f"a model as {' or '.join(KINDS)}",
            got="a file that may be a pickle, which can run any code and was not opened",
            remedy=CONVERT,
        )
    raise _unknown(spec, suffix)


def _unknown(spec: str, suffix: str) -> InputError:
    names = [f"zoo:{name}" for name in zoo.names()]
    known = [".safetensors", *_FILES]
    near = [
        *difflib.get_close_matches(spec, names, n=3),
        *(
            spec.removesuffix(suffix) + right
            for right in difflib.get_close_matches(suffix, known, n=1)
        ),
    ]
    return InputError(
        "model",
        expected=" or ".join(KINDS),
        got=repr(spec),
        remedy=f"did you mean {' or '.join(near)}?" if near else "write it as one of these",
    )
