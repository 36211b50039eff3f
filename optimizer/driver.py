"""The driver applies rules: it walks, orders, times, and checks every step.

Around every rule stands the same seat belt: skip it if it is switched off, time it, compare the output before and
after, write down what changed.  Around every batch: stop when it is settled, and report a plan that comes round again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from optimizer.options import Options
from optimizer.trace import Step, Trace
from planner.catalog import Catalog
from planner.errors import QueryError, RuleError, Unsupported
from planner.explain.printer import show_steps, show_tree
from planner.logical import Cte, Derived, Logical, Scan, Statement
from planner.physical.base import Physical, Spark
from planner.sql.names import Unresolved
from planner.tree import Node
from rules.batches import BATCHES
from rules.context import Context
from rules.rule import Batch, Rule

Stage = Literal["parse", "normalize", "recognize", "lower"]
STAGES: tuple[Stage, ...] = ("parse", "normalize", "recognize", "lower")


@dataclass(frozen=True)
class Outcome:
    """A planning: the plan as read, after the logical batches, and as Spark shall run it (None when stopped before)."""

    logical: Logical
    optimized: Logical
    physical: Physical | None
    trace: Trace
    choices: tuple[str, ...] = ()


def drive(
    plan: Logical,
    catalog: Catalog,
    options: Options,
    stop_after: Stage = "lower",
    streams: int = 0,
    batches: tuple[Batch, ...] = BATCHES,
) -> Outcome:
    """Run the batches over a plan, up to and with the stage ``stop_after``; it reads so many ``streams``.

    Raises ``RuleError`` when a rule changes the output of a node, when a batch goes round in circles, or when a rule
    fails; the message holds the trace.
    """
    driver = _Driver(catalog, options, streams)
    view = isinstance(plan, Statement) and "VIEW" in plan.prefix.upper().split()
    driver.context.lasting = options.lasting or streams > 0 or view
    logical, physical = plan, None
    for batch in batches:
        if STAGES.index(batch.name) > STAGES.index(stop_after):
            break
        if batch.name == "lower":
            physical = driver.lower(plan, batch)
        else:
            plan = driver.settle(plan, batch)
    driver.trace.refusals = tuple(driver.refusals)
    driver.trace.warnings = tuple(driver.context.warnings)
    return Outcome(logical, plan, physical, driver.trace, tuple(driver.context.choices))


class _Driver:
    def __init__(self, catalog: Catalog, options: Options, streams: int):
        self.options = options
        self.streams = streams
        self.trace = Trace()
        self.context = Context(catalog, options, options.force)
        self.refusals = self.context.refusals

    def settle(self, plan: Logical, batch: Batch) -> Logical:
        """Apply a batch bottom-up, once or until nothing changes."""
        seen = {plan}
        while True:
            before, steps = plan, len(self.trace.steps)
            # Only what a rule says of the plan as it now stands counts.
            self._look_at(plan, batch)
            plan = self._visit(plan, batch)  # type: ignore[assignment]
            if plan is before or not batch.settle:
                return plan
            if plan in seen:
                story = show_steps(self.trace.steps[steps:])
                raise RuleError(f"the {batch.name} batch goes round in circles\n{story}")
            seen.add(plan)

    def lower(self, plan: Logical, batch: Batch) -> Physical:
        """Replace every logical node by a physical one, parents first: rules see their inputs unlowered."""
        self._look_at(plan, batch)
        return self._lower(plan, batch)  # type: ignore[return-value]

    def _look_at(self, plan: Logical, batch: Batch) -> None:
        ctx = self.context
        definitions = {n.key: n for n in plan.walk() if isinstance(n, Cte)}
        if definitions != ctx.definitions:
            ctx.define(definitions)
        ctx.scanned = frozenset(n.name for n in plan.walk() if isinstance(n, Scan) and not n.cte)
        ctx.statement = plan.detail if isinstance(plan, Statement) else ""
        names = {r.name for r in batch.rules}
        for refusal in [r for r in ctx.refusals if r.rule in names]:
            del ctx.refusals[refusal]
        for notice in [n for n in ctx.warnings if n.rule in names]:
            del ctx.warnings[notice]

    def _visit(self, node: Node, batch: Batch) -> Node:
        node = node.map_nodes(lambda below: self._inside(node, below, lambda: self._visit(below, batch)))
        for rule in batch.rules:
            new = self._apply(rule, node)
            if new is not None and new != node:
                self._check_output(rule, node, new)
                self.trace.steps.append(Step(batch.name, rule, node, new))
                node = new
        return node

    def _lower(self, node: Node, batch: Batch) -> Node:
        for rule in batch.rules:
            new = self._apply(rule, node)
            if new is None:
                continue
            self._check_output(rule, node, new)
            if isinstance(new, Logical):  # one of two: lowered in its turn
                return self._lower(new, batch)
            if not isinstance(new, Spark):
                self.trace.steps.append(Step(batch.name, rule, node, new))
            return new.map_nodes(lambda below: self._inside(node, below, lambda: self._lower(below, batch)))
        raise RuleError(f"no rule lowers {type(node).__name__}")

    def _inside(self, node: Node, below: Node, go: Callable[[], Node]) -> Node:
        """Visit ``below`` knowing what holds it, and whether it is a subquery that may lean on the query around it."""
        ctx = self.context
        before = ctx.above, ctx.enclosing
        ctx.above = node
        if (isinstance(node, Derived) and node.lateral) or any(below is p for p in node.subplans):
            ctx.enclosing = (*ctx.enclosing, below)
        try:
            return go()
        finally:
            ctx.above, ctx.enclosing = before

    def _apply(self, rule: Rule, node: Node) -> Node | None:
        if rule.name in self.options.disabled_rules or not isinstance(node, rule.on):
            return None
        if rule.refused(self.streams):
            return None
        self.context.rule = rule.name
        start = perf_counter()
        try:
            return rule.function(node, self.context)
        except QueryError:
            raise
        except (Unsupported, Unresolved) as no:  # an expression that only Spark reads
            self.context.decline(str(no), getattr(no, "place", None))
            return None
        except Exception as error:
            raise RuleError(f"{rule.name} failed on {show_tree(node)}\n{type(error).__name__}: {error}") from error
        finally:
            seconds = self.trace.seconds
            seconds[rule.name] = seconds.get(rule.name, 0.0) + perf_counter() - start

    @staticmethod
    def _check_output(rule: Rule, before: Node, after: Node) -> None:
        old, new = before.output, after.output  # type: ignore[attr-defined]
        if old != new:
            raise RuleError(f"{rule.name} changed the output from {old} to {new} on\n{show_tree(before)}")
