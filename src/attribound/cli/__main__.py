"""``python -m attribound.cli`` is ``attribound``."""

from attribound.cli import main

main()
