"""Sinks drawn at random: format, table or folder, options, partitions, settings, names of all kinds, and rows to write.

Each cell has a twin that plain Spark writes: under the same settings, with the same rows, by its own writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

TEXTS = (
    "a", "", "null", "NULL", "none", '"', "'", "a,b", "a;b", "\t", "a\nb", "\r\n", "\\", "\\N", "\\n", "# x", " a ",
    "ü€😀", "{\"a\": 1}", "2024-01-01", "1e5", "true", "a\"b", "a=b/c", "%41", "../x", "$x", "*?[a]{b}", "\x01", "-0",
    "__HIVE_DEFAULT_PARTITION__", ".", "..", "_", "a:b", "`",
)  # fmt: skip
NAMES = (
    "a", "a b", "a.b", "a,b", "a`b", "a=b", "a/b", "a%b", "a%41", "a:b", "A", "ü", "a;b", "a{}", "a(b)", "a\tb", "a\nb",
    "a\"b", "a'b", "a\\b", "_a", ".a", "*", "?", "[a]", "$a", "#a", "a#b", " a", "a ", "select", "-1", "null", "a|b",
)  # fmt: skip
FOLDERS = (
    "out", "out put", "out%20", "out%", "out#1", "out?", "out*", "out[1]", "out{a,b}", "a=1", "_out", ".out", "ü€",
    "out\\x", "out;", "out,x", "out'", 'out"', "out`", "out&", "out@", "out+", "out~", "a:b", "out^", "out$x", "out(1)",
    "out!", " out", "out\n1", "out\t1", "out|1", "out<>",
)  # fmt: skip
ATOMS = {
    "STRING": (),
    "INT": ("0", "-1", "2147483647", "-2147483648"),
    "BIGINT": ("9223372036854775807", "-9223372036854775808", "7"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "5"),
    "BOOLEAN": ("true", "false"),
    "FLOAT": ("float('NaN')", "float('-0.0')", "float('Infinity')", "1.5F", "1.1754944E-38F"),
    "DOUBLE": ("double('NaN')", "double('-0.0')", "double('-Infinity')", "1e308D", "0.1D", "4.9E-324D"),
    "DECIMAL(38, 18)": ("12345678901234567890.123456789012345678", "-0.000000000000000001", "0"),
    "DECIMAL(9, 2)": ("1.50", "-9999999.99"),
    "DATE": ("DATE'2024-02-29'", "DATE'1582-10-10'", "DATE'0001-01-01'", "make_date(12024, 1, 1)", "DATE'1900-01-01'"),
    "TIMESTAMP": (
        "TIMESTAMP'2024-11-03 05:30:00.123456Z'", "TIMESTAMP'2024-11-03 06:30:00Z'", "TIMESTAMP'1582-10-10 00:00:00Z'",
        "TIMESTAMP'0001-01-02 00:00:00Z'", "TIMESTAMP'1970-01-01 00:00:00Z'", "TIMESTAMP'9999-12-30 23:59:59.999999Z'",
        "TIMESTAMP'1883-11-18 17:00:00Z'", "timestamp_seconds(317257612800)",
    ),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-03-10 02:30:00'", "TIMESTAMP_NTZ'1500-01-01 00:00:00.000001'"),
    "BINARY": ("X''", "X'00FF0A0D22'", "X'61'"),
    "INTERVAL YEAR TO MONTH": ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-178956970-8' YEAR TO MONTH"),
    "INTERVAL DAY TO SECOND": ("INTERVAL '-1 02:03:04.000005' DAY TO SECOND",),
    "ARRAY<INT>": ("array(1, NULL)", "array()"),
    "ARRAY<STRING>": ("array('', NULL, 'a,b')",),
    "MAP<STRING, INT>": ("map('a', 1, '', NULL)", "map()"),
    "STRUCT<x: INT, y: STRING>": (
        "named_struct('x', 1, 'y', CAST(NULL AS STRING))", "named_struct('x', 2, 'y', 'ü\"')",
    ),
    "INTERVAL": ("make_interval(1, 2)",),
    "VARIANT": ("parse_json('{\"a\": [1, null]}')",),
    "STRING COLLATE UTF8_LCASE": ("'Ab' COLLATE UTF8_LCASE",),
}  # fmt: skip
OPTIONS: dict[str, tuple[dict[str, str], ...]] = {
    "parquet": ({}, {"compression": "gzip"}, {"compression": "none"}, {"compression": "no such"}),
    "orc": ({}, {"compression": "zstd"}, {"compression": "none"}),
    "csv": (
        {}, {"header": "true"}, {"sep": ";", "header": "true"}, {"sep": "\t", "quoteAll": "true"},
        {"nullValue": "none"}, {"nullValue": "\\N", "emptyValue": ""}, {"quote": "'", "escape": "'"},
        {"dateFormat": "dd/MM/yyyy"}, {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX"},
        {"compression": "gzip"}, {"encoding": "UTF-16"},
        {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}, {"escapeQuotes": "false"},
        {"header": "true", "multiLine": "true"}, {"lineSep": "\x02"}, {"dateFormat": "no such"}, {"sep": ""},
        {"comment": "#"}, {"charToEscapeQuoteEscaping": "\\"},
    ),
    "json": (
        {}, {"dateFormat": "dd/MM/yyyy"}, {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"},
        {"compression": "gzip"},
        {"ignoreNullFields": "false"}, {"lineSep": "\x02"}, {"encoding": "UTF-16", "multiLine": "true"},
        {"timeZone": "Asia/Tokyo"},
    ),
    "text": ({}, {"lineSep": "\x02"}, {"compression": "gzip"}, {"wholetext": "true"}),
}  # fmt: skip
SETTINGS: tuple[dict[str, str], ...] = (
    {}, {},
    {"spark.sql.parquet.outputTimestampType": "INT96"},
    {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY"},
    {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"},
    {"spark.sql.parquet.writeLegacyFormat": "true"},
    {"spark.sql.session.timeZone": "America/New_York"},
    {"spark.sql.session.timeZone": "+05:45", "spark.sql.parquet.outputTimestampType": "INT96"},
    {"spark.sql.files.maxRecordsPerFile": "1"},
    {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.storeAssignmentPolicy": "LEGACY"},
    {"spark.sql.storeAssignmentPolicy": "STRICT"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
    {"spark.sql.datetime.java8API.enabled": "true"},
    {"spark.sql.parquet.compression.codec": "gzip", "spark.sql.orc.compression.codec": "zlib"},
    {"spark.sql.parquet.filterPushdown": "false", "spark.sql.sources.useV1SourceList": ""},
    {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
    {"spark.sql.charAsVarchar": "true"},
    {"spark.sql.hive.manageFilesourcePartitions": "false"},
    {"spark.sql.parquet.fieldId.write.enabled": "false", "spark.sql.legacy.parquet.nanosAsLong": "true"},
    {"spark.sql.json.useUnsafeRow": "true", "spark.sql.jsonGenerator.ignoreNullFields": "false"},
)  # fmt: skip
KINDS = ("folder", "folder", "folder", "table", "table", "external", "replaced", "replaced", "memory")


@dataclass(frozen=True)
class Cell:
    """A sink, the settings it is written under, and the rows of each epoch, as SELECT statements."""

    format: str
    kind: str
    options: dict[str, str]
    settings: dict[str, str]
    folder: str
    columns: tuple[tuple[str, str], ...]
    partition_by: tuple[str, ...]
    buckets: bool
    declared: tuple[tuple[str, str], ...]
    epochs: tuple[str, ...]

    @property
    def definition(self) -> str:
        """What follows the name in CREATE TABLE."""
        names = {name.lower() for name in self.partition_by}
        last = [c for c in self.declared if c[0].lower() in names]
        columns = ", ".join(f"{quoted(n)} {t}" for n, t in (*(c for c in self.declared if c not in last), *last))
        options = ", ".join(f"{text(key)} {text(value)}" for key, value in self.options.items())
        by = f" PARTITIONED BY ({', '.join(map(quoted, self.partition_by))})" if self.partition_by else ""
        buckets = f" CLUSTERED BY ({quoted(self.declared[0][0])}) INTO 2 BUCKETS" if self.buckets else ""
        return f"({columns}) USING {self.format}{f' OPTIONS ({options})' if options else ''}{by}{buckets}"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def text(value: str) -> str:
    """A literal, every odd character of which is written by its number."""
    return "'" + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in value) + "'"


def cell(random: Random) -> Cell:
    """A sink that Spark may or may not write."""
    format_ = random.choice(("parquet", "parquet", "orc", "csv", "csv", "json", "json", "text"))
    kind = random.choice(KINDS)
    simple = format_ in ("csv", "text") or random.random() < 0.3
    types = [t for t in ATOMS if not simple or ("<" not in t and t not in ("BINARY", "VARIANT", "INTERVAL"))]
    if random.random() < 0.1:
        types = [*ATOMS]
    width = 1 if format_ == "text" and random.random() < 0.6 else random.randint(1, 5)
    names = random.sample(NAMES, width) if random.random() < 0.5 else [f"c{n}" for n in range(width)]
    chosen = [random.choice(types) for _ in names]
    if format_ == "text":
        chosen[0], names = "STRING", (["value", *names[1:]] if kind != "folder" else names)
    elif random.random() < 0.5:
        chosen[0] = "STRING"
    columns = tuple(zip(names, chosen, strict=True))
    few = 0.4 if kind == "folder" else 0.25 if kind == "replaced" else 0.1
    count = random.randint(1, max(1, width - 1)) if width > 1 and random.random() < few else 0
    by = tuple(names[-count:]) if count else ()
    declared = [*columns]
    if random.random() < 0.3:
        declared = [(random.choice((name.upper(), name.lower())), type_) for name, type_ in declared]
    if random.random() < 0.1:
        n = random.randrange(width)
        declared[n] = declared[n][0], random.choice(("STRING", "VARCHAR(3)", "CHAR(5)", "BIGINT", "INT NOT NULL"))
    sizes = random.choice(((2, 0, 3), (0, 2, 0), (3, 1, 2), (1, 4, 0)))
    return Cell(
        format_,
        kind,
        random.choice(OPTIONS[format_]),
        random.choice(SETTINGS),
        random.choice(FOLDERS) if random.random() < 0.5 else "out",
        columns,
        by,
        kind in ("table", "replaced") and not by and random.random() < 0.1,
        tuple(declared),
        tuple(_select(random, columns, size) for size in sizes),
    )


def _select(random: Random, columns: tuple[tuple[str, str], ...], size: int) -> str:
    rows = []
    for _ in range(max(size, 1)):
        items = (f"CAST({_value(random, type_)} AS {type_}) AS {quoted(name)}" for name, type_ in columns)
        rows.append(f"SELECT {', '.join(items)}")
    found = " UNION ALL ".join(rows)
    return found if size else f"SELECT * FROM ({found}) WHERE rand() > 2"


def _value(random: Random, type_: str) -> str:
    if random.random() < 0.15:
        return "NULL"
    return text(random.choice(TEXTS)) if type_ == "STRING" else random.choice(ATOMS[type_])
