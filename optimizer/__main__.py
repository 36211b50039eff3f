"""The command line: ``python -m optimizer`` is ``dovetail``."""

from dovetail.optimizer.cli.main import main

if __name__ == "__main__":
    main()
