"""Tables that change at random: their changes as streams of files, and the rows that are there."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from pyspark.sql import SparkSession

    from dovetail import Optimizer

KIND = "Op"
SCHEMA = f"id INT, k INT, v DOUBLE, {KIND} STRING"
Row = tuple[int | None, int | None, float | None]
VALUES = (None, 0.0, 1.5, float("nan"), float("inf"), float("-inf"))


@dataclass
class Changing:
    """A table that changes at random: its changes as a stream of files, and the rows that are there."""

    session: SparkSession
    folder: Path
    name: str
    rows: Counter[Row] = field(default_factory=Counter)
    files: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        stream = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder))
        stream.createOrReplaceTempView(self.name)

    def change(self, random: Random, size: int, early: float = 0.0) -> None:
        """The next file: rows that come, go and change; some of them, at a share of ``early``, go before they come."""
        changes: list[tuple[str, Row]] = []
        for _ in range(size):
            there = sorted(self.rows.elements(), key=repr)
            new = random.choice((None, *range(6))), random.choice((None, 0, 1, 2)), random.choice(VALUES)
            match random.choice("iiiuuddt"):
                case "u" if there:
                    changes += [("update_preimage", old := random.choice(there)), ("update_postimage", new)]
                    self.rows.subtract([old])
                    self.rows.update([new])
                case "d" if there:
                    changes.append(("delete", old := random.choice(there)))
                    self.rows.subtract([old])
                case "t" if random.random() < early:
                    changes.append(("delete", new))
                    self.rows.subtract([new])
                case _:
                    changes.append(("insert", new))
                    self.rows.update([new])
        random.shuffle(changes)
        self.write(changes)

    def write(self, changes: list[tuple[str, Row]]) -> None:
        """The next file."""
        lines = [json.dumps({"id": i, "k": k, "v": v, KIND: op}) for op, (i, k, v) in changes]
        hidden = self.folder / f".{self.files}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (1_700_000_000 + self.files,) * 2)
        hidden.rename(self.folder / f"{self.files:04}.json")
        self.files += 1

    def table(self) -> None:
        """The rows that are there now, as a table of the stream's name with `_table` behind it."""
        frame = self.session.createDataFrame(list(self.rows.elements()), "id INT, k INT, v DOUBLE")
        frame.createOrReplaceTempView(f"{self.name}_table")


def changing(opt: Optimizer, folder: Path, names: str) -> list[Changing]:
    folder.mkdir(exist_ok=True)
    tables = [Changing(opt.session, folder / name, name) for name in names]
    for table in tables:
        opt.declare_changelog(table.name, KIND, ["id"])
    return tables


def batch(tables: list[Changing], query: str) -> Counter[str]:
    """What the query returns over the rows that are there."""
    for table in tables:
        table.table()
    for table in tables:
        query = query.replace(f" {table.name} ", f" {table.name}_table ")
    rows = tables[0].session.sql(query).collect()
    return Counter(str(tuple(map(repr, tuple(row)))) for row in rows)
