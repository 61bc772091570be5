"""Modules that are imported when something in them is first used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """Stands for a module until it is used; type checkers and import-linter see the real one::

        if TYPE_CHECKING:
            from rich import progress
        else:
            progress = Later("rich.progress")

    Only for what many uses of a module do without and what takes a while to import: torch where
    the command line only answers, scipy, pyarrow and rich elsewhere. Never to hide a cycle.
    """

    def __getattr__(self, name: str) -> Any:
        # Not kept here: what is replaced in the module, as tests do, is replaced for all.
        return getattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__))
