"""Every sink that is drawn: plain Spark reads what plain Spark would have written, or the sink is refused at once."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail import OptionError, Sink, StateError
from dovetail.executor.state.sinks import FileOutput, check_schema, output, output_of_view
from dovetail.executor.state.table_sink import ReplacedTable, TableOutput
from dovetail.planner.state.sink import check
from effort import SEED, fuzzing
from sessions import for_few_rows
from sink_cells import Cell, cell, quoted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

# Why a sink may be refused that plain Spark writes.
OURS = (
    "partitions, and state|buckets, and state|CHAR or VARCHAR|has the columns|begin with a dot|partition_by names all"
)
BATCH = 16
# One sink of each batch is of a seed: in `make fuzz` there are 400, elsewhere always the same.
SEEDS = [SEED * 100 + n for n in range(25)] if fuzzing() else [4]


@pytest.mark.hypothesis
@pytest.mark.parametrize("seed", SEEDS)
def test_plain_spark_reads_what_it_would_have_written(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    found, wrong = Counter[str](), list[str]()
    for number in range(BATCH):
        drawn, session = cell(Random(f"{seed} {number}")), for_few_rows(spark)
        for name, value in drawn.settings.items():
            session.conf.set(name, value)
        try:
            found[Run(session, drawn, tmp_path / str(number)).compare()] += 1
        except AssertionError as error:
            wrong.append(f"seed {seed}, cell {number}: {drawn}\n{error}")
        finally:
            for name in ("sink_cell", "sink_twin"):
                session.sql(f"DROP TABLE IF EXISTS {name}")
    if fuzzing():
        print(f"seed {seed}: {dict(found)}")
    assert not wrong, f"{len(wrong)} of {found.total() + len(wrong)}:\n" + "\n\n".join(wrong)
    if not fuzzing():
        assert found["equal"] >= sum(found.values()) // 3, found
        assert found["refused"] + found["refused by Spark, too"], found


class Run:
    """A cell and its twin below a folder."""

    def __init__(self, session: SparkSession, drawn: Cell, folder: Path):
        self.session, self.cell, self.folder = session, drawn, folder
        self.out, self.twin = folder / "ours" / drawn.folder, folder / "twin" / drawn.folder
        self.is_table = drawn.kind in ("table", "external", "replaced")
        self.target: Any = "sink_cell"
        if drawn.kind == "folder":
            self.target = Sink(drawn.format, self.out, drawn.partition_by, drawn.options)
        elif drawn.kind == "memory":
            self.target = Sink("memory")

    def compare(self) -> str:
        """What became of the cell.  Raises ``AssertionError`` where the two differ."""
        if self.is_table and error_of(self._create) is not None:
            return "no table of Spark's"
        refused = error_of(self._check)
        if refused:
            assert isinstance(refused, OptionError), repr(refused)
            assert not self.out.exists() or self.cell.kind == "external", "a refused folder is there"
            if re.search(OURS, str(refused)):
                return "refused"
            assert error_of(self._write_twin), f"Spark writes it, and it was refused: {refused}"
            return "refused by Spark, too"
        ours, theirs = error_of(self._write), error_of(self._write_twin)
        if ours or theirs:
            assert condition(ours) == condition(theirs), f"ours: {ours!r}\ntheirs: {theirs!r}"
            return "fails as Spark's"
        mine, twin = rows_or_error(self._read), rows_or_error(self._read_twin)
        assert mine == twin, f"\nours:   {mine}\ntheirs: {twin}"
        return "equal" if isinstance(mine, list) else "as unreadable as Spark's"

    def _create(self) -> None:
        for name, path in (("sink_cell", self.out), ("sink_twin", self.twin)):
            self.session.sql(f"CREATE TABLE {name} {self.cell.definition}")
            if self.cell.kind == "external":
                self.session.sql(f"DROP TABLE {name}")
                path.mkdir(parents=True)
                place = str(path).replace("\\", "\\\\").replace("'", "\\'")
                self.session.sql(f"CREATE TABLE {name} {self.cell.definition} LOCATION '{place}'")
            self.session.table(name).collect()  # whose files are listed, and the list is remembered

    def _check(self) -> None:
        mode: Any = "complete" if self.cell.kind == "replaced" else "update"
        check(self.target, mode)
        if self.cell.kind != "memory":
            output_of_view(self.session, self.target, mode, "")
        check_schema(self.session, self.target, self._rows(0).schema, casts=mode == "complete")

    def _rows(self, epoch: int) -> DataFrame:
        return self.session.sql(self.cell.epochs[epoch])

    def _write(self) -> None:
        if self.cell.kind == "replaced":
            to: Any = output_of_view(self.session, self.target, "complete", "abcd")
            assert isinstance(to, ReplacedTable)
        else:
            to = output(self.session, self.target, "sink_memory", "abcd")
            assert not isinstance(to, str), to
        first = self._rows(0).limit(1) if isinstance(to, FileOutput | TableOutput) else self._rows(0)
        to.write(first, 0, again=True)  # a try that did not come to its end
        for epoch in range(len(self.cell.epochs)):
            to.write(self._rows(epoch), epoch, again=epoch == 0)

    def _write_twin(self) -> None:
        for epoch in range(len(self.cell.epochs)):
            rows = self._rows(epoch)
            if self.cell.kind == "folder":
                writer = rows.write.format(self.cell.format).options(**self.cell.options).mode("append")
                if self.cell.partition_by:
                    writer = writer.partitionBy(*self.cell.partition_by)
                writer.save(str(self.twin))
            elif self.is_table:
                if self.cell.kind == "replaced":
                    self.session.sql("DROP TABLE sink_twin")  # TRUNCATE passes over partitions that no catalog has
                    self.session.sql(f"CREATE TABLE sink_twin {self.cell.definition}")
                    self.session.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
                rows.write.insertInto("sink_twin")

    def _read(self) -> DataFrame:
        if self.is_table:
            return self.session.table("sink_cell")
        return self.session.table("sink_memory") if self.cell.kind == "memory" else self._files(self.out)

    def _read_twin(self) -> DataFrame:
        if self.is_table:
            return self.session.table("sink_twin")
        if self.cell.kind == "memory":
            return self.session.sql(" UNION ALL ".join(f"({epoch})" for epoch in self.cell.epochs))
        return self._files(self.twin)

    def _files(self, folder: Path) -> DataFrame:
        reader = self.session.read.format(self.cell.format).options(**self.cell.options)
        if self.cell.format in ("csv", "json"):
            own = [f"{quoted(n)} {t}" for n, t in self.cell.columns if n not in self.cell.partition_by]
            reader = reader.schema(", ".join(own))
        return reader.option("__globPaths__", "false").load(str(folder))


def error_of(act: Callable[[], object]) -> Exception | None:
    """The error of something; None where there is none."""
    try:
        act()
    except (PySparkException, Py4JJavaError, OptionError, StateError) as error:  # StateError quotes that of Spark
        return error
    return None


def condition(error: Exception | None) -> str:
    """The kind of an error of Spark's, by the innermost condition that is named."""
    found = re.findall(r"\[([A-Z][A-Z_0-9.]+)\]", str(error))
    return found[-1] if found else type(error).__name__


def rows_or_error(read: Callable[[], DataFrame]) -> list[str] | str:
    """Rows as texts that tell each value from others, with the columns' names and types; or the kind of an error."""
    try:
        rows = read()
        shown = rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))
        items = []
        for name, type_ in shown.dtypes:
            time = type_ == "timestamp"
            items.append(f"string(unix_micros({name}))" if time else f"hex(encode(string(struct({name})), 'utf-8'))")
        texts = shown.selectExpr(*items).collect() if items else []
        return [str(rows.dtypes), *sorted(map(str, texts))]
    except (PySparkException, Py4JJavaError) as error:
        return condition(error)
