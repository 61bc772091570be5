"""Import what only some formats need, or say which extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from attribound.basics.errors import InputError


def package(module: str, *, extra: str, purpose: str) -> Any:
    """The imported ``module``; if it is missing, an error that names the extra to install.

    Raises:
        InputError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            purpose,
            expected=f"the package {module.partition('.')[0]}",
            got=f"{type(error).__name__}: {error}",
            remedy=f"run: pip install 'attribound[{extra}]'",
        ) from error
