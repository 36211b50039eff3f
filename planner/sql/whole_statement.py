"""sqlglot's tree of a whole statement: finds its parts, and their positions in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dovetail.planner.expr import dialect
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import Pipeline, Statement
from dovetail.planner.sql.from_clause import find_asof, find_match_condition, find_nearest_by


class Unread(Exception):
    """sqlglot cannot parse the statement; the message has the reason."""


def parsed(text: str) -> exp.Expr:
    """The one query that a text is.  Raises ``Unread``."""
    try:
        found = [tree for tree in dialect.parse_statement(text) if tree is not None]
    except SqlglotError as error:
        raise Unread(str(error).splitlines()[0]) from error
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise Unread(f"it fails with {type(error).__name__}") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query | exp.Paren):
        raise Unread("it reads no query")
    return found[0]


def query_alone(plan: Statement, text: str) -> str:
    """A text of the same length with blanks in the place of what a statement has around its query."""
    text = _blank(text, plan.offset, plan.offset + len(plan.prefix))
    return _blank(text, text.rindex(plan.suffix), len(text)) if plan.suffix else text


def without_pipes(text: str, pipeline: Pipeline) -> str:
    """A text of the same length with another query in the place of one in pipe syntax."""
    start, query = pipeline.offset, "SELECT 1"
    text = _blank(text, start, start + len(pipeline.text))
    return f"{text[:start]}{query}{text[start + len(query) :]}"


def without_nearest_clauses(text: str) -> str:
    """A text of the same length without the clauses for nearest rows, which sqlglot does not read.

    Blanks take the place of ``ASOF`` and ``MATCH_CONDITION (…)``, and ``ON`` that of ``EXACT NEAREST 3 BY DISTANCE``.
    """
    if not re.search("asof|nearest", text, re.IGNORECASE):
        return text
    t = tokenize(text)
    for i in range(len(t)):
        if t[i].word != "JOIN":
            continue
        if (asof := find_asof(t, i)) is not None:
            text = _blank(text, t[asof].start, t[asof].end)
            match = find_match_condition(t, i, len(t))
            assert match is not None  # find_asof has seen it
            text = _blank(text, t[match].start, t[t.match[match + 1]].end)
        elif clause := find_nearest_by(t, i, len(t)):
            start = t[clause[0]].start
            text = _blank(text, start, t[clause[1] - 1].end)
            text = f"{text[:start]}ON{text[start + 2 :]}"
    return text


def _blank(text: str, start: int, stop: int) -> str:
    """A text with blanks in a part of it; its lines stay."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:stop]) + text[stop:]


def without_joins(tree: exp.Expr) -> exp.Expr:
    """A relation without the joins that hang on it."""
    copy = tree.copy()
    copy.set("joins", None)
    return copy


def queries(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries in an expression, without the parentheses that hold them."""
    if isinstance(tree, exp.Subquery) and not tree.args.get("with_"):
        yield from queries(tree.this)
    elif isinstance(tree, exp.Query):
        yield tree
    else:
        for child in tree.iter_expressions():
            yield from queries(child)


def first_name(tree: exp.Expr) -> int | None:
    """The position of the first name of a tree in the text."""
    nodes = tree.walk(prune=lambda node: isinstance(node, exp.Hint))
    found = (node.meta.get("start") for node in nodes if isinstance(node, exp.Identifier))
    return min((at for at in found if at is not None), default=None)


def table_of(tree: exp.Expr) -> exp.Expr:
    """``TABLE t`` as the table, which sqlglot reads as a table of the name TABLE that goes by t."""
    if isinstance(tree, exp.Table) and tree.name.upper() == "TABLE" and not tree.this.quoted and tree.alias:
        return exp.Table(this=tree.args["alias"].this.copy())
    return tree
