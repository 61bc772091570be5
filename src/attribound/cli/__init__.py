"""The command line, ``attribound``."""

from __future__ import annotations

import importlib


def main() -> None:
    """Run the command line, imported here so that parts of it can be used without all of it."""
    importlib.import_module("attribound.cli.app").app()
