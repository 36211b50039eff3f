"""The same query in other words: texts that mean the same, and so have to get the same operators, or a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from dovetail.planner.conditions.canonical_form import comparison
from dovetail.planner.conditions.connectives import bare
from dovetail.planner.expr import HOLE, Scalar, quote
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.logical import (
    Cte,
    Derived,
    Filter,
    Join,
    Logical,
    Nested,
    Project,
    Scan,
    Statement,
    With,
)
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import has_or, to_sql
from dovetail.planner.tree import Node, transform_up

Condition = tuple[Scalar, ...]
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "==": "=", "<>": "<>", "!=": "!=", "<=>": "<=>"}


def variants(sql: str) -> Iterator[tuple[str, str]]:
    """What was done to a query, and the query it became; nothing that comes out as it was."""
    plan, _ = from_sql(sql)
    as_it_was = to_sql(plan)
    for name, change in CHANGES.items():
        made = change(plan)
        if made is not None and (text := to_sql(made)) != as_it_was:
            yield name, text
    if renamed := _renamed(sql, plan):
        yield "aliases renamed", renamed


def _numbered(text: str, first: int) -> str:
    return re.sub(HOLE + r"(\d+)", lambda m: f"{HOLE}{int(m.group(1)) + first}", text)


def said(template: str, *parts: Scalar) -> Scalar:
    """A condition with others in its ``{}``."""
    plans: list[Node] = []
    texts = []
    for part in parts:
        before = len(plans)
        plans += part.plans
        texts.append(_numbered(part.text, before))
    return Scalar(template.format(*texts), tuple(plans))


def _conditions(change: Callable[[Condition], Condition]) -> Callable[[Logical], Logical]:
    def changed(node: Node) -> Node:
        if isinstance(node, Join | Filter) and node.condition and getattr(node, "clause", "WHERE") == "WHERE":
            return replace(node, condition=change(node.condition))
        return node

    return lambda plan: transform_up(plan, changed)  # type: ignore[return-value]


def _each(template: str) -> Callable[[Logical], Logical]:
    return _conditions(lambda condition: tuple(said(template, c) for c in condition))


def _all(template: str, between: str) -> Callable[[Logical], Logical]:
    def joined(condition: Condition) -> Condition:
        return (said(template.format(between.join(["{}"] * len(condition))), *(said("({})", c) for c in condition)),)

    return _conditions(joined)


def _turned(conjunct: Scalar) -> Scalar:
    found = None if conjunct.plans or has_or(conjunct.text) else comparison(conjunct.text)
    if found is None:
        return conjunct
    left, sign, right = found[3]
    return Scalar(f"{right} {_TURNED[sign]} {left}")


def _plus_nothing(conjunct: Scalar) -> Scalar:
    """An equality of ids, which are whole numbers in every catalog, with 0 added to one."""
    found = None if conjunct.plans else comparison(conjunct.text)
    if found is None or found[1] != "=" or not all(re.fullmatch(r"\w+\.id", end) for end in found[3][::2]):
        return conjunct
    return Scalar(f"{found[3][0]} + 0 = {found[3][2]}")


def _split(conjunct: Scalar) -> Condition:
    """``x BETWEEN a AND b`` as two comparisons."""
    t = tokenize(conjunct.text)
    words = [(i, t[i].word) for i in bare(t, 0, len(t)) if t[i].word in ("NOT", "AND", "OR", "BETWEEN")]
    if [w for _, w in words] != ["BETWEEN", "AND"] or conjunct.plans:
        return (conjunct,)
    between, end = words[0][0], words[1][0]
    x, low, high = t.slice(0, between), t.slice(between + 1, end), t.slice(end + 1, len(t))
    return Scalar(f"{x} >= {low}"), Scalar(f"{x} <= {high}")


def _scans(plan: Logical) -> list[Scan]:
    """The tables that stand in FROM by their name alone; ``TABLE t`` is a query."""
    found = (n for n in plan.walk() if isinstance(n, Scan) and not n.text.upper().startswith("TABLE "))
    return [n for n in found if n.plain and not n.cte and not n.as_of and not n.renames]


def _other_side(number: int, make: Callable[[Scan], Logical]) -> Callable[[Logical], Logical | None]:
    """One table, counted from the front or the back, as something else that reads it."""

    def changed(plan: Logical) -> Logical | None:
        found = _scans(plan)
        if not found or (number and len(found) < 2):
            return None
        target = found[number]
        return transform_up(plan, lambda node: make(target) if node is target else node)  # type: ignore[return-value]

    return changed


def _as_subquery(scan: Scan) -> Derived:
    name = quote(scan.alias or scan.name[-1])
    return Derived(Project(replace(scan, suffix="", alias=scan.name[-1]), (Scalar("*"),)), scan.alias, (), f"AS {name}")


def _as_parentheses(scan: Scan) -> Nested:
    name = quote(scan.alias or scan.name[-1])
    return Nested(replace(scan, suffix="", alias=scan.name[-1]), scan.alias, (), f"AS {name}")


def _as_table(scan: Scan) -> Nested:
    name = quote(scan.alias or scan.name[-1])
    table = replace(scan, text=f"TABLE {scan.text}", suffix="", alias=scan.name[-1])
    return Nested(table, scan.alias, (), f"AS {name}")


def _counted(plan: Logical) -> Logical:
    """EXISTS as a count."""

    def changed(conjunct: Scalar) -> Scalar:
        t = tokenize(conjunct.text)
        words = [t[i].word for i in range(len(t))]
        sign = {"EXISTS": "> 0", "NOT": "= 0"}.get(words[0])
        if words != ["NOT", "EXISTS", "(", "__PLAN_0", ")"][0 if sign == "= 0" else 1 :]:
            return conjunct
        query = conjunct.plans[0]
        if not isinstance(query, Project) or query.quantifier or not isinstance(query.child, Filter):
            return conjunct
        return Scalar(f"(__plan_0) {sign}", (replace(query, items=(Scalar("count(*)"),)),))

    return _conditions(lambda condition: tuple(changed(c) if c.plans else c for c in condition))(plan)


def _as_with(number: int) -> Callable[[Logical], Logical | None]:
    def changed(plan: Logical) -> Logical | None:
        found = _scans(plan)
        if not found or (number and len(found) < 2):
            return None
        target = found[number]
        name = quote(target.alias or target.name[-1])
        inner = Project(replace(target, suffix="", alias=target.name[-1]), (Scalar("*"),))
        scan = Scan(("w_side",), "w_side", target.alias, (), f"AS {name}", cte="w_side")
        new = transform_up(plan, lambda node: scan if node is target else node)
        return _with(new, Cte("w_side", "w_side", "w_side AS", (), inner))  # type: ignore[arg-type]

    return changed


def _with(plan: Logical, definition: Cte) -> Logical:
    if isinstance(plan, Statement):
        return replace(plan, child=_with(plan.child, definition))
    if isinstance(plan, With):
        return replace(plan, definitions=(definition, *plan.definitions))
    return With((definition,), plan)


def _whole(make: Callable[[Logical], Logical]) -> Callable[[Logical], Logical]:
    return lambda plan: replace(plan, child=make(plan.child)) if isinstance(plan, Statement) else make(plan)


def _in_subquery(plan: Logical) -> Logical:
    return Project(Derived(plan, "w", (), "AS w"), (Scalar("*"),))


def _in_with(plan: Logical) -> Logical:
    if isinstance(plan, With):
        return replace(plan, definitions=(*plan.definitions, Cte("w", "w", "w AS", (), plan.child)), child=_from_w())
    return With((Cte("w", "w", "w AS", (), plan),), _from_w())


def _from_w() -> Project:
    return Project(Scan(("w",), "w", "w", cte="w"), (Scalar("*"),))


def _commas(plan: Logical) -> Logical:
    """Blocks whose joins are all inner, with their conditions in WHERE."""

    def changed(node: Node) -> Node:
        if not isinstance(node, Project):
            return node
        above: list[Node] = []
        tree = node.child
        while not isinstance(tree, Filter | Join) or (isinstance(tree, Filter) and tree.clause != "WHERE"):
            if not tree.children or isinstance(tree, Derived | Scan | Nested):
                return node
            above.append(tree)
            tree = tree.children[0]  # type: ignore[assignment]
        where: Condition = ()
        if isinstance(tree, Filter):
            where, tree = tree.condition, tree.child
        found: list[Scalar] = []
        relations: list[Logical] = []
        if not _inner(tree, found, relations):
            return node
        new: Logical = relations[0]
        for relation in relations[1:]:
            new = Join(new, relation, "cross", ",")
        new = Filter(new, (*found, *where)) if found or where else new
        for upper in reversed(above):
            new = replace(upper, child=new)  # type: ignore[type-var, assignment]
        return replace(node, child=new)

    return transform_up(plan, changed)  # type: ignore[return-value]


def _inner(tree: Logical, found: list[Scalar], relations: list[Logical]) -> bool:
    if not isinstance(tree, Join):
        relations.append(tree)
        return not (isinstance(tree, Derived) and tree.lateral) and not getattr(tree, "lateral", False)
    if tree.kind not in ("inner", "cross") or tree.using or tree.natural or isinstance(tree.right, Join):
        return False
    if not _inner(tree.left, found, relations):
        return False
    relations.append(tree.right)
    found += tree.condition
    return not getattr(tree.right, "lateral", False)


def _renamed(sql: str, plan: Logical) -> str | None:
    """Aliases with other names, where each token of an alias is one for certain."""
    t = tokenize(sql)
    names = {(n.alias or "").upper() for n in plan.walk() if isinstance(n, Scan | Derived) and n.suffix and n.alias}
    tables = {n.name[-1].upper() for n in plan.walk() if isinstance(n, Scan)}
    edits = []
    for name in sorted(names - tables):
        at = [i for i in range(len(t)) if t[i].word == name]
        certain = all(
            t.word(i + 1) == "." or t[i - 1].word in ("AS", ")", *tables) for i in at if i and t[i - 1].word != "."
        )
        if certain and all(t[i - 1].word != "." for i in at) and "/*+" not in sql:
            edits += at
    if not edits:
        return None
    text = sql
    for i in sorted(edits, reverse=True):
        text = f"{text[: t[i].start]}{t[i].text}_other{text[t[i].end :]}"
    return text


CHANGES: dict[str, Callable[[Logical], Logical | None]] = {
    "each conjunct in parentheses": _each("({})"),
    "the condition in parentheses": _all("(({}))", " AND "),
    "operands of AND commuted": _conditions(lambda condition: condition[::-1]),
    "comparisons turned round": _conditions(lambda condition: tuple(map(_turned, condition))),
    "De Morgan": _conditions(
        lambda condition: (said("NOT (" + " OR ".join(["NOT ({})"] * len(condition)) + ")", *condition),)
    ),
    "AND TRUE": _all("{} AND TRUE", " AND "),
    "OR FALSE": _each("(({}) OR FALSE)"),
    "NOT NOT": _each("NOT NOT ({})"),
    "= TRUE": _conditions(lambda cs: tuple(c if c.plans or _lone(c) else said("({}) = TRUE", c) for c in cs)),
    "BETWEEN as two comparisons": _conditions(lambda condition: tuple(s for c in condition for s in _split(c))),
    "ON as WHERE": _commas,
    "the first table in a subquery": _other_side(0, _as_subquery),
    "the last table in a subquery": _other_side(-1, _as_subquery),
    "the first table in parentheses": _other_side(0, _as_parentheses),
    "the last table in parentheses": _other_side(-1, _as_parentheses),
    "x + 0 = y": _conditions(lambda condition: tuple(map(_plus_nothing, condition))),
    "TABLE and the first table in parentheses": _other_side(0, _as_table),
    "EXISTS as a count": _counted,
    "the first table in WITH": _as_with(0),
    "the last table in WITH": _as_with(-1),
    "the query in a subquery": _whole(_in_subquery),
    "the query in WITH": _whole(_in_with),
}


def _lone(conjunct: Scalar) -> bool:
    """Whether a conjunct could be a text that is taken for a truth."""
    return not any(sign in conjunct.text for sign in "=<>") and " BETWEEN " not in conjunct.text.upper()
