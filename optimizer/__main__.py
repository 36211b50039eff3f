"""The command line: ``python -m optimizer`` is ``dovetail``."""

from optimizer.cli import main

if __name__ == "__main__":
    main()
