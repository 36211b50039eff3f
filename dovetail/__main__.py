"""The command line: ``python -m dovetail`` is ``dovetail``."""

from dovetail.optimizer.cli.main import main

main()
