"""The command line: ``python -m optimizer`` is ``dovetail``."""

from optimizer.cli import main

main()
