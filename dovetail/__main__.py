"""The command line: ``python -m dovetail`` is ``dovetail``."""

from optimizer.cli import main

main()
