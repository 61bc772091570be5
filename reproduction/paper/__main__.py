"""``python -m reproduction.paper``."""

from reproduction.paper.command import main

if __name__ == "__main__":  # workers of audits import this module, too
    main()
