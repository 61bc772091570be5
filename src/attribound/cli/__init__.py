"""The command line, ``attribound``."""

from __future__ import annotations

import importlib
import sys

from attribound.data.packages import package
from attribound.errors import AttriboundError


def main() -> None:
    """Run the command line; without what it needs, say what to install."""
    try:
        package("typer", extra="train", purpose="the command line")
    except AttriboundError as error:
        sys.exit(f"attribound: {error}")
    importlib.import_module("attribound.cli.app").app()
