"""Replaces names and texts by hashes, in a statement, in Spark's plans of it, and in messages about it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from dovetail.planner.expr.dialect import KEYWORDS
from dovetail.planner.expr.functions import AGGREGATES, ROW_FUNCTIONS, VOLATILE

_WORDS = """
    ABS AFTER ALL ANY ANY_VALUE APPROX ARRAY ASOF AT AVG BIGINT BINARY BOOLEAN BOTH BROADCAST BY BYTE CAST CHAR
    CLUSTER COALESCE COLLECT_LIST COLLECT_SET COUNT COUNT_IF CROSS CSV CUBE CUME_DIST CURRENT DATE DAY DAYS DECIMAL
    DELTA DENSE_RANK DISTANCE DOUBLE EXACT EXPLODE FALSE FIRST FIRST_VALUE FLOAT FOLLOWING FORMAT FULL GROUP HOUR
    HOURS ICEBERG IGNORE INLINE INT INTEGER INTERVAL JDBC JSON LAG LAST LAST_VALUE LATERAL LEAD LEADING LOCATION
    LONG LOOKUP MAP MATCHED MATCH_CONDITION MAX MAX_BY MERGE MICROSECOND MICROSECONDS MILLISECOND MILLISECONDS MIN
    MINUTE MINUTES MIN_BY MONTH MONTHS NEAREST NEXT NTILE NULL NULLS OF OPTIONS ORC ORDER OUTER PARQUET PERCENT
    PERCENT_RANK POSEXPLODE PRECEDING PROCTIME PROC_TIME QUARTER RANGE RANGE_JOIN RANK RESPECT ROLLUP ROWS
    ROW_NUMBER SECOND SECONDS SETS SHORT SHUFFLE_HASH SIMILARITY SMALLINT SORT STACK STDDEV STRING STRUCT SUM SYSTEM
    SYSTEM_TIME TABLE TABLESAMPLE TEMP TEMPORARY TIES TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT TRAILING
    TRUE TRY_CAST UNBOUNDED USING VARCHAR VARIANCE VARIANT VERSION VIEW VOID WEEK WEEKS WITHIN YEAR YEARS ZONE
"""
_KNOWN = frozenset(_WORDS.split()) | KEYWORDS | ROW_FUNCTIONS | VOLATILE | AGGREGATES
_TOKEN = re.compile(
    r"(?s)(?P<comment>--[^\n]*|/\*(?!\+).*?\*/)|`(?P<name>(?:[^`]|``)*)`|(?P<word>\w+)|"
    r"(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
)
_NUMBER = re.compile(r"(?i)\d+(e\d+)?(bd|[lsydf])?|0x[0-9a-f]+")
_UNIT = "(?i:microsecond|millisecond|second|minute|hour|day|week|month|quarter|year)s?"
_CLOCK = r"\d\d?:\d\d(:\d\d(\.\d+)?)?"
_FORMAT = "(y{2,4}|[MELQ]{1,4}|[dHhkKmsa]{1,2}|S{1,9}|[XxZzVO]{1,5})"
_PLAIN_TEXT = re.compile(
    rf"\d{{4}}-\d\d?(-\d\d?)?([ T]{_CLOCK})?(Z|[+-]\d\d:?\d\d)?|{_CLOCK}|"  # a date or a time
    rf"[+-]?\d{{1,4}}(\.\d{{1,6}})?( {_CLOCK})?( ?{_UNIT})?|"  # an interval
    rf"{_FORMAT}([-/:., ]|'T'|(?<=y)|(?<=M)){_FORMAT}(([-/:., ]|'T'){_FORMAT})*"  # a format of dates
)
"""Texts that stay: dates, times, intervals, and formats of them."""
_OF_PLANS = """
    ANSI ExistenceJoin FullOuter Inner LeftAnti LeftOuter LeftSemi LeftSingle None RangeFrame RightOuter RowFrame Some
    UTC broadcast currentrow default dynamicpruning exists fields gettimestamp lambda lambdafunction lateral leftHint
    list literal more namedlambdavariable none rightHint scalar spark_catalog specifiedwindowframe splits step strategy
    subquery timestampadd timestampdiff unboundedfollowing unboundedpreceding windowspecdefinition
"""
_PLAN_WORDS = frozenset(_OF_PLANS.split())
"""Words of Spark's plans that are not words of SQL."""
_NODE = re.compile(r"(\A[^\n]*\n|[+:]- )'?\w+")  # the first line has the columns of the result
_PLAN_NAME = re.compile(r"(\w+)(?=#\d)|(?:SubqueryAlias|Relation|View) \(?([\w.`]+)")
_NUMBER_OF_COLUMN = re.compile(r"(?<=[\w)`])#\d+L?")


class Anonymizer:
    """Hashes with a random key: the same name has the same hash in one report, and another in each other one."""

    def __init__(self, columns: Mapping[str, Iterable[tuple[str, str]]]):
        self._key = secrets.token_bytes(16)
        self._names: set[str] = set()  # replaced whatever the case of their letters
        self._exact: set[str] = set()  # names that are words of SQL, and texts
        self._numbers: set[str] = set()
        for table, found in columns.items():
            for name in (*table.split("."), *(n for n, _ in found), *_fields(kind for _, kind in found)):
                self._add(name, is_name=True)

    def add_sql(self, text: str) -> None:
        """Hash the names and texts of a statement from now on; its numbers stay, in plans as well."""
        for token in _TOKEN.finditer(text):
            if token["word"] and _NUMBER.fullmatch(token["word"]):
                self._numbers.add(token["word"])
            elif token["word"]:
                self._add(token["word"])
            elif token["name"]:
                self._add(token["name"].replace("``", "`"))
            elif token["text"]:
                self._add_text(token["text"][1:-1])

    def add_plan(self, text: str) -> None:
        """Hash all of Spark's analyzed plan from now on, except nodes, words of SQL, and short numbers.

        A view in it has names and texts that the statement lacks, and a plan writes texts without quotes.
        """
        for attribute, relation in _PLAN_NAME.findall(text):
            for name in filter(None, (attribute, *re.split(r"[.`]+", relation))):
                if name not in _PLAN_WORDS:
                    self._add(name, is_name=True)
        for word in re.findall(r"\w+", _NUMBER_OF_COLUMN.sub("", _NODE.sub(r"\1", text))):
            is_number = _NUMBER.fullmatch(word) and (len(word) < 5 or word in self._numbers)
            if not is_number and word not in _PLAN_WORDS:
                self._add(word)

    def add_prose(self, text: str) -> None:
        """Hash the names and texts of the SQL in a message, which stands in backquotes, from now on."""
        for quoted in re.findall(r"`([^`]+)`", text):
            self.add_sql(quoted)

    def replace(self, text: str, *, sql: bool = False) -> str:
        """A text with hashes in the place of names and texts; in ``sql`` without comments, which may hold anything."""
        if sql:
            text = _TOKEN.sub(lambda token: " " if token["comment"] else token[0], text)
        for names, flags in ((self._exact, 0), (self._names, re.IGNORECASE)):
            if names:
                ordered = sorted(names, key=lambda name: (-len(name), name))
                pattern = "|".join(r"[\s│+-]+".join(map(re.escape, name.split())) for name in ordered)
                text = re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda found: self._hash(found[0]), text, flags=flags)
        return text

    def _add(self, name: str, *, is_name: bool = False) -> None:
        if len(name) < 2 or name.startswith("__dt"):  # a letter means nothing, and would be replaced in every sentence
            return
        if name.upper() not in _KNOWN:
            self._names.add(name)
        elif is_name:
            self._exact.add(name)

    def _add_text(self, text: str) -> None:
        if _PLAIN_TEXT.fullmatch(text) or text.upper() in _KNOWN:
            return
        if len(text) > 2:
            self._exact.add(text)
        for word in re.findall(r"\w{3,}", text):  # a printer may break the text into lines
            if not (word.isdigit() and len(word) < 5):
                self._add(word)

    def _hash(self, name: str) -> str:
        plain = re.sub(r"[\s│+-]+", " ", name).lower()
        return f"n{blake2b(plain.encode(), key=self._key, digest_size=4).hexdigest()}"


def _fields(types: Iterable[str]) -> Iterator[str]:
    """The names of fields in types of structs."""
    for text in types:
        yield from (quoted or plain for quoted, plain in re.findall(r"`([^`]+)`|(\w+)(?=\s*:)", text))
