"""``python -m optimizer.advise.event_log DIR [--json]``."""

from __future__ import annotations

import sys
from pathlib import Path

from optimizer.advise.event_log import run

if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--json"]
    if len(arguments) != 1:
        sys.exit("usage: python -m optimizer.advise.event_log DIR [--json]")
    sys.exit(run(Path(arguments[0]), json="--json" in sys.argv[1:]))
