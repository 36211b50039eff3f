"""What is a format's own, on its tables: a JSON line for each thing that is tried.

``python features_main.py FORMAT JARS [CATALOG]``
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from changing import between, columns, keys, statements
from feeds import feeds
from fill import fill
from format_sessions import start
from outcomes import first_line, optimizer
from reading import deleted, metadata, pruned, travel
from streaming import streams

GROUPS = (travel, metadata, pruned, deleted, columns, keys, between, statements, streams, feeds)


def main(form: str, jars: list[str], catalog: str, names: list[str]) -> None:
    """Try every group on tables of its own."""
    with tempfile.TemporaryDirectory() as folder:
        session = start(form, Path(folder), jars)
        for group in GROUPS:
            if names and group.__name__ not in names:
                continue
            session.sql(f"USE {catalog}")
            fill(session, form, group.__name__)
            try:
                for what, seen in group(optimizer(session), form):
                    print(json.dumps({"group": group.__name__, "what": what, "seen": seen}), flush=True)
            except Exception as error:  # noqa: BLE001 - the groups after it run
                seen = f"ended: {first_line(error)}"
                print(json.dumps({"group": group.__name__, "what": group.__name__, "seen": seen}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3], sys.argv[4:])
    os._exit(0)
