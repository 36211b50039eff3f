"""Calls of Spark's built-in functions over columns: the literals of their examples become columns of a small table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from spark_examples import Example

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
U = TypeVar("U")
REFUSED = (PySparkException, Py4JJavaError)
# The tables of one shelf, from many strange values to none.  A call stands over the first that Spark computes it on.
TABLES = ("wild", "tame", "bare")
# More values of a type, for `wild`.
_STRANGE = {
    "int": ("0", "-1", "2147483647", "-2147483648"),
    "bigint": ("0", "-1", "9223372036854775807", "-9223372036854775808"),
    "double": ("double('NaN')", "double('inf')", "double('-inf')", "-0.0D"),
    "float": ("float('NaN')", "float('inf')", "float('-inf')", "float('-0.0')"),
    "string": ("''", "'x'", "'12'", "'ÄÖ'"),
    "boolean": ("true", "false", "false", "true"),
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'2024-02-29'", "DATE'2024-11-03'"),
    "timestamp": tuple(
        f"TIMESTAMP_LTZ'{m}'"
        for m in ("0001-01-02 00:00:00", "2024-11-03 01:30:00", "2024-03-10 03:30:00", "9999-12-30 00:00:00")
    ),
    "timestamp_ntz": tuple(
        f"TIMESTAMP_NTZ'{m}'"
        for m in ("0001-01-01 00:00:00", "2024-11-03 01:30:00", "2024-03-10 02:30:00", "9999-12-31 23:59:59")
    ),
}
_DECIMAL = ("0", "-1", "1", "0")
_FIXED = ("id INT", "lab INT", "g INT", "k INT", "lo INT", "hi INT")
_OWN = [c.split()[0] for c in _FIXED]
LABELS = 24  # of rows of their own for so many calls
_KEYS = ((1, 1), (1, 2), (2, 3), (2, 4), (1, 5), ("NULL", 6), (3, "NULL"), (3, 8), (3, 9))
_MARK = re.compile(r"§(\w+)")
# Functions whose result is as long as a number says: these get no large ones.
_LONG = {
    "array_insert",
    "array_repeat",
    "format_number",
    "format_string",
    "lpad",
    "printf",
    "randstr",
    "repeat",
    "rpad",
    "sequence",
    "space",
}


# Aggregates whose value hangs on the order in which rows come: a join gives none.
_OF_ORDER = frozenset(
    "any_value array_agg collect_list first first_value last last_value listagg max_by min_by mode string_agg".split()
)


@dataclass(frozen=True)
class Call:
    """An expression over the columns of a shelf, each of them said as ``§name``.

    ``inner`` is the part that another query computes, standing as ``¤`` in ``text``; ``table`` the table on which Spark
    computes it; ``guarded``: rows on which it raises are there, too, with keys and numbers that have no partner;
    ``values`` what came out there, as text, by row; ``name`` its name among the others.
    """

    functions: tuple[str, ...]
    kind: str
    text: str
    type: str = ""
    table: str = ""
    inner: str = ""
    name: str = ""
    deterministic: bool = True
    guarded: bool = False
    values: tuple[str | None, ...] = field(default=(), compare=False)

    @property
    def marked(self) -> str:
        """The call with its inner one, over columns that are said as ``§name``."""
        return self.text.replace("¤", f"({self.inner})")

    def over(self, alias: str, inner: str = "") -> str:
        """The call over the columns of a relation; ``inner`` for what another query has computed."""
        before = f"{alias}." if alias else ""
        said = self.text.replace("¤", inner or f"({self.inner})")
        return _MARK.sub(lambda m: before + m[1], said)


@dataclass(frozen=True)
class Shelf:
    """Columns for some examples, and the calls over them."""

    columns: dict[str, tuple[tuple[str, ...], str]]
    calls: list[Call]


def shelf(session: SparkSession, chosen: Iterable[Example], most: int) -> Shelf:
    """Columns for these examples and the calls that Spark takes over them, alone and nested; ``most`` per function."""
    wanted = [e for e in chosen if "SELECT" not in " ".join(map(str, e.pieces)).upper()]
    literals = list(dict.fromkeys(p for e in wanted for p in e.pieces if isinstance(p, tuple)))
    columns: dict[str, tuple[tuple[str, ...], str]] = {}
    names: dict[tuple[str, ...], str] = {}
    for values, type_ in zip(literals, _types(session, [v[0] for v in literals]), strict=True):
        if type_ and type_ != "void":
            names[values] = f"c{len(names)}"
            columns[names[values]] = (values, type_)
    put_up(session, Shelf(columns, []))
    calls: list[Call] = []
    counted: dict[str, int] = defaultdict(int)
    for example in wanted:
        call = _over_columns(session, example, names) if counted[example.function] < most else None
        if call and call.text not in {c.text for c in calls}:
            calls.append(call)
            counted[example.function] += 1
    single = computed(session, calls)
    again = {c.text: c.values for c in computed(session, single)}
    single = [replace(c, deterministic=c.deterministic and c.values == again.get(c.text)) for c in single]
    return Shelf(columns, [*single, *_nested(single, columns)])


def _types(session: SparkSession, literals: list[str]) -> list[str | None]:
    def ask(some: list[str]) -> list[str]:
        return [f.dataType.simpleString() for f in session.sql("SELECT " + ", ".join(some)).schema.fields]

    return apart(literals, ask)


def apart(items: list[T], ask: Callable[[list[T]], Sequence[U | None]]) -> list[U | None]:
    """The answers for all items; where Spark refuses some together, for each half of them; None for one."""
    if not items:
        return []
    try:
        return list(ask(items))
    except REFUSED:
        if len(items) == 1:
            return [None]
        middle = len(items) // 2
        return apart(items[:middle], ask) + apart(items[middle:], ask)


def put_up(session: SparkSession, kept: Shelf) -> None:
    """Make the tables of a shelf in a session, as temporary views; without columns that its settings do not allow."""
    types = _types(session, [f"element_at(array({', '.join(v)}), 1)" for v, _ in kept.columns.values()])
    columns = {n: (v, t) for (n, (v, _)), t in zip(kept.columns.items(), types, strict=True) if t and t != "void"}
    for table, rows in zip(TABLES, (9, 5, 2), strict=True):
        listed = []
        for n in range(rows):
            g, k = _KEYS[n]
            ends = ("NULL", "NULL") if k == "NULL" else (str(int(k) - 1), str(int(k) + 1))
            cells = [str(n), "0", str(g), str(k), *ends]
            cells += [_value(values, type_, n, table) for values, type_ in columns.values()]
            listed.append(f"({', '.join(cells)})")
        heads = _OWN + list(columns)
        casts = [f"CAST({c.split()[0]} AS {c.split()[1]}) AS {c.split()[0]}" for c in _FIXED] + list(columns)
        query = f"SELECT {', '.join(casts)} FROM VALUES {', '.join(listed)} AS d({', '.join(heads)})"
        _keep(session, query, table)
        _label(session, table, list(columns))


def _label(session: SparkSession, table: str, columns: list[str]) -> None:
    """A table with the rows of another once for each label, with keys and numbers that no other label has."""
    items = ["id + 100 * n AS id", "n AS lab", "g + 100 * n AS g"]
    items += [f"{name} + 1000 * n AS {name}" for name in ("k", "lo", "hi")]
    labels = ", ".join(f"({n})" for n in range(LABELS))  # no function: the session may have one of its own by any name
    query = f"SELECT {', '.join([*items, *columns])} FROM {table}, VALUES {labels} AS l(n)"
    rows: Any = session.sql(query)._jdf
    jsession: Any = session._jsparkSession
    jsession.createDataFrame(rows.collectAsList(), rows.schema()).createOrReplaceTempView(f"{table}_labelled")


def _keep(session: SparkSession, query: str, name: str) -> None:
    """Make a view of the rows of a query, which are computed once where Spark can do so while it plans."""
    jvm: Any = session._jvm
    plan = session.sql(query)._jdf.queryExecution().optimizedPlan()
    jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan).createOrReplaceTempView(name)


def _value(values: tuple[str, ...], type_: str, row: int, table: str) -> str:
    """What a column holds in a row: NULL in the second, later ones of `wild` strange, else what the example says."""
    if row == 1 and table != "bare":
        return f"CAST(NULL AS {type_})"
    if row >= 5:
        strange = _DECIMAL if type_.startswith("decimal") else _STRANGE.get(type_)
        if strange:
            return f"TRY_CAST({strange[row - 5]} AS {type_})"
    return values[row % len(values)] if len(values) > 1 else values[0]


def _over_columns(session: SparkSession, example: Example, names: dict[tuple[str, ...], str]) -> Call | None:
    """The example with as many literals as columns as Spark takes."""
    marks = [n for n, p in enumerate(example.pieces) if isinstance(p, tuple) and p in names]
    single = {n for n in marks if len(example.pieces[n]) == 1}  # the others are columns in the example, too

    def said(columns: set[int]) -> str:
        words = []
        for n, piece in enumerate(example.pieces):
            mark = isinstance(piece, tuple) and (n in columns or n not in single) and piece in names
            words.append(f"§{names[piece]}" if mark else piece[0] if isinstance(piece, tuple) else piece)  # type: ignore[index]
        return "".join(words)

    def taken(columns: set[int]) -> Call | None:
        text = said(columns)
        kinds = ("aggregate",) if example.group == "agg_funcs" else ("scalar", "aggregate")
        for kind in kinds:
            if call := _found(session, [Call((example.function,), kind, text)], TABLES[0], run=False)[0]:
                other = "window" if re.search(r"\bOVER\b", text, re.IGNORECASE) else kind
                return replace(call, kind="generator" if example.group == "generator_funcs" else other, table="")
        return None

    if found := taken(set(marks)):
        return found
    chosen: set[int] = set()
    best = taken(chosen)
    for mark in sorted(single):
        if best and (more := taken({*chosen, mark})):
            best = more
            chosen.add(mark)
    return best


def guarded(calls: list[Call]) -> list[Call]:
    """Those that raise on strange values, over these and others."""
    found = [
        c
        for c in calls
        if c.kind == "scalar" and c.deterministic and c.table == "tame" and _LONG.isdisjoint(c.functions)
    ]
    return [replace(c, name=f"{c.name}g", guarded=True) for c in found]


def _found(session: SparkSession, calls: list[Call], table: str, *, run: bool = True) -> list[Call | None]:
    return apart(calls, lambda some: _told(session, some, table, run=run))


def _told(session: SparkSession, calls: list[Call], table: str, *, run: bool) -> list[Call]:
    """Calls of one kind with their types, and their values; are they deterministic?"""
    scalar = calls[0].kind == "scalar"
    items = ", ".join(f"{call.over('')} AS e{n}" for n, call in enumerate(calls))
    frame = session.sql(f"SELECT {'id, ' if scalar else ''}{items} FROM {table}")
    types = [f.dataType.simpleString() for f in frame.schema.fields[-len(calls) :]]
    plan: Any = frame._jdf.queryExecution().analyzed()
    whole, each = bool(plan.deterministic()), plan.expressions()
    alike = [whole or (len(calls) > 1 and each.apply(n + scalar).deterministic()) for n in range(len(calls))]
    rows = []
    if run and scalar:
        rows = frame.selectExpr("id", *(f"CAST(e{n} AS STRING)" for n in range(len(calls)))).collect()
        rows.sort(key=lambda row: row[0])
    return [
        replace(
            call,
            type=types[n],
            deterministic=call.deterministic and alike[n] and _OF_ORDER.isdisjoint(call.functions),
            table=table,
            values=tuple(row[n + 1] for row in rows),
        )
        for n, call in enumerate(calls)
    ]


def _nested(calls: list[Call], columns: dict[str, tuple[tuple[str, ...], str]]) -> list[Call]:
    """Each call with another one in the place of a column of the same type: every such one is used, if it can be."""
    inner: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.kind == "scalar" and call.deterministic:
            inner[call.type].append(call)
    turn: dict[str, int] = defaultdict(int)
    found = []
    for call in calls:
        for name in dict.fromkeys(_MARK.findall(call.text)):
            some = [c for c in inner[columns[name][1]] if c.functions != call.functions and _short(call, c)]
            if some:
                one = some[turn[columns[name][1]] % len(some)]
                turn[columns[name][1]] += 1
                text = re.sub(rf"§{name}\b", "¤", call.text)
                both = (*call.functions, *one.functions)
                deterministic = call.deterministic and one.deterministic
                found.append(replace(call, functions=both, text=text, inner=one.text, deterministic=deterministic))
                break
    return found


def _short(outer: Call, inner: Call) -> bool:
    """Whether a value of the inner call is no length that takes all memory."""
    return outer.functions[0] not in _LONG or all(len(v or "") < 4 for v in inner.values)


def computed(session: SparkSession, calls: list[Call]) -> list[Call]:
    """The calls that Spark computes in a session, each with its type there, and the wildest table on which it does.

    A call of which this is known is looked for there; without ANSI everywhere, since little raises.
    """
    ansi = session.conf.get("spark.sql.ansi.enabled") == "true"
    first = [TABLES.index(c.table) if c.table and ansi else int(c.kind != "scalar" or _long(c)) for c in calls]
    found: dict[int, Call] = {}
    for at, table in enumerate(TABLES):
        left = [n for n, start in enumerate(first) if n not in found and start <= at]
        for kind in ("scalar", "aggregate", "window", "generator"):
            some = [n for n in left if calls[n].kind == kind]
            known = all(calls[n].table for n in some)
            most = 1 if kind in ("window", "generator") else 16 if known or table != "wild" else 4
            for start in range(0, len(some), most):
                part = some[start : start + most]
                told = _found(session, [calls[n] for n in part], table)
                found.update((n, one) for n, one in zip(part, told, strict=True) if one)
    return [replace(found[n], name=f"v{at}") for at, n in enumerate(sorted(found))]


def _long(call: Call) -> bool:
    return call.functions[0] in _LONG


def step(type_: str) -> str:
    """What can be added to a value of a type that lies on a line; nothing for the others."""
    if type_.startswith("decimal") or type_ in ("tinyint", "smallint", "int", "bigint", "float", "double", "date"):
        return "1"
    if type_ in ("timestamp", "timestamp_ntz"):
        return "INTERVAL 1 HOUR"
    return "INTERVAL 1 HOUR" if type_.startswith("interval day") else ""


def make_tables(session: SparkSession, name: str, calls: Sequence[Call], labels: int = 0) -> tuple[str, str]:
    """Two views: the columns that calls are of, and their values and those a step further; the names of both.

    The values are called ``v`` and ``w`` for one call, ``v0``, ``w0``, ``v1`` … for many, which are over one table;
    ``labels``: with its rows so many times, for calls that have rows of their own.
    """
    first, one = calls[0], len(calls) == 1
    source = f"(SELECT * FROM {first.table}_labelled WHERE lab < {labels})" if labels else first.table
    marks = [mark for call in calls for mark in _MARK.findall(f"{call.text} {call.inner}")]
    columns = ", ".join(dict.fromkeys([*_OWN, *marks]))
    query = f"SELECT {columns} FROM {source}"
    if first.guarded:
        alone = columns.replace(
            ", ".join(_OWN), "id, lab, 90 + id, CAST(NULL AS INT), CAST(NULL AS INT), CAST(NULL AS INT)", 1
        )
        query += f" UNION ALL SELECT {alone} FROM wild WHERE id >= 5"
    _keep(session, query, f"t_{name}")
    items = [item for n, call in enumerate(calls) for item in _values(call, "" if one else str(n))]
    _keep(session, f"SELECT {', '.join([*_OWN, *items])} FROM {source}", f"r_{name}")
    return f"t_{name}", f"r_{name}"


def _values(call: Call, number: str) -> Iterator[str]:
    if call.kind == "scalar" and call.deterministic:
        said, add = call.over(""), step(call.type)
        yield f"{said} AS v{number}"
        if add:
            further = f"{said} + 1" if call.type in ("float", "double") else f"try_add({said}, {add})"
            yield f"{further} AS w{number}"
