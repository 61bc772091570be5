"""``python -m reproduction.zoo``: measure models again, add a trained one."""

from reproduction.zoo.command import main

if __name__ == "__main__":
    main()
