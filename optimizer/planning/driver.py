"""The rule driver: applies the batches of rules to a plan.

Around every rule it skips disabled rules, measures time, validates that the output columns stay the same, and records
the step.  Around every batch it stops at a fixed point, and raises an error for a plan that repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.trace import Step, Trace
from dovetail.planner.catalog import Catalog
from dovetail.planner.deadline import check_deadline
from dovetail.planner.errors import Place, QueryError, Refused, RuleError
from dovetail.planner.explain.printer import show_steps, show_tree
from dovetail.planner.explain.records import Choice, CostNote, Declined
from dovetail.planner.logical import Cte, Logical, Scan, Sort, Statement
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.logical.base import expressions
from dovetail.planner.logical.joins import RecognizedJoin
from dovetail.planner.logical.relations import inner_queries
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.rendered import find_generated_names
from dovetail.planner.tree import Node, unwrap
from dovetail.rules.batches import BATCHES
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.rule import Batch, Feature, Rule, features

Stage = Literal["parse", "normalize", "recognize", "lower"]
STAGES: tuple[Stage, ...] = ("parse", "normalize", "recognize", "lower")


@dataclass(frozen=True)
class Outcome:
    """The plan as parsed, after the logical batches, and the physical plan (None if planning stopped before)."""

    logical: Logical
    optimized: Logical
    physical: Physical | None
    trace: Trace
    decisions: tuple[Choice | CostNote, ...] = ()
    reserved_names: frozenset[str] = frozenset()  # names that the rewriting must not add


def _is_kept(plan: Logical) -> bool:
    """Whether Spark keeps the query of a statement, and may run it over other rows later."""
    return isinstance(plan, Statement) and (plan.is_view or plan.is_cache)


def _open_places(plan: Node) -> set[Place]:
    """The places of the expressions of a block that no rule has recognized as part of a join of another kind."""
    nodes = (node for node in plan.walk() if not isinstance(node, RecognizedJoin))
    return {scalar.place for node in nodes for scalar in expressions(node) if scalar.place}


class Driver:
    """Applies batches of rules to a plan over a catalog; the text of the plan reads so many ``streams``."""

    def __init__(self, catalog: Catalog, options: Options, streams: int = 0, batches: tuple[Batch, ...] = BATCHES):
        self.options = options
        self.streams = streams
        self.batches = batches
        self.trace = Trace()
        self.context = Context(catalog, options, options.force)
        self._rules_by_class: dict[tuple[Batch, type[Node]], list[Rule]] = {}
        self._prepared: Logical | None = None  # the plan whose names the context has
        self._features: set[Feature] = set()  # of this plan, and of what rules have made of it
        # Places in blocks that were replaced, each with the rules whose reasons still count there.
        self.replaced: dict[Place | None, set[str]] = {}

    def drive(self, plan: Logical, stop_after: Stage = "lower", text: str = "") -> Outcome:
        """Run the batches on the plan of a ``text``, up to the stage ``stop_after``.

        Raises ``RuleError`` if a rule changes the output of a node, if a batch repeats a plan, or if a rule fails; the
        message contains the trace.
        """
        ctx = self.context
        ctx.generic_plan = self.options.generic_plan or self.streams > 0 or _is_kept(plan)
        ctx.words = find_generated_names(text)
        logical, physical = plan, None
        for batch in self.batches:
            if STAGES.index(batch.name) > STAGES.index(stop_after):
                break
            if batch.name == "lower":
                physical = self.lower(plan, batch)
            else:
                plan = self.transform(plan, batch)
        self.trace.declined = tuple(self._declined())
        self.trace.warnings = tuple(ctx.warnings)
        is_rewritten = physical is not None and any(n.rewritten for n in physical.walk())
        reserved_names = self.reserved_names(physical) if physical and is_rewritten else frozenset()
        return Outcome(logical, plan, physical, self.trace, tuple(ctx.decisions), reserved_names)

    def _declined(self) -> Iterator[Declined]:
        """The reasons that count: not those of recognizing rules in blocks that other rules have replaced."""
        recognizing = {rule.name for batch in self.batches if batch.name == "recognize" for rule in batch.rules}
        for one in self.context.declined:
            if one.rule not in recognizing or one.rule in self.replaced.get(one.place, recognizing):
                yield one

    def transform(self, plan: Logical, batch: Batch) -> Logical:
        """Apply a batch bottom-up, once or to a fixed point."""
        seen = {plan}
        while True:
            before, steps = plan, len(self.trace.steps)
            # Reasons and warnings about an earlier form of the plan do not count.
            self._prepare_context(plan, batch)
            plan = self._visit(plan, batch)  # type: ignore[assignment]
            if plan is before or not batch.fixed_point:
                return plan
            if plan in seen:
                shown = show_steps(self.trace.steps[steps:])
                raise RuleError(f"the {batch.name} batch goes round in circles\n{shown}")
            seen.add(plan)

    def lower(self, plan: Logical, batch: Batch) -> Physical:
        """Replace every logical node with a physical one, top-down: rules see logical inputs."""
        self._prepare_context(plan, batch)
        return self._lower(plan, batch)  # type: ignore[return-value]

    def reserved_names(self, physical: Physical) -> frozenset[str]:
        """Names that the rewriting must not add: in the statement, in its views, and of the columns it scans."""
        ctx = self.context
        views = [ctx.catalog.view(name) for name in sorted(ctx.scanned)]
        ctx.words |= frozenset(name for view in views if view for name in find_generated_names(view.text))
        ctx.scanned |= {scan.name for n in physical.walk() if isinstance(scan := unwrap(n), Scan) and not scan.cte}
        return ctx.taken

    def _prepare_context(self, plan: Logical, batch: Batch) -> None:
        ctx = self.context
        if plan is not self._prepared:
            self._describe(plan)
        names = {r.name for r in batch.rules}
        for declined in [d for d in ctx.declined if d.rule in names]:
            del ctx.declined[declined]
        for warning in [w for w in ctx.warnings if w.rule in names]:
            del ctx.warnings[warning]

    def _describe(self, plan: Logical) -> None:
        """Put the WITH definitions, the tables and the prefix of a plan into the context."""
        ctx, self._prepared = self.context, plan
        definitions = {n.key: n for n in plan.walk() if isinstance(n, Cte)}
        if definitions != ctx.definitions:
            ctx.define(definitions)
        ctx.scanned = frozenset(n.name for n in plan.walk() if isinstance(n, Scan) and not n.cte)
        self._features = features(plan)
        ctx.statement = plan.detail if isinstance(plan, Statement) else ""

    def _visit(self, node: Node, batch: Batch) -> Node:
        node = node.map_nodes(lambda below: self._inside(node, below, lambda: self._visit(below, batch)))
        waiting = self._rules(batch, node)
        while waiting:
            rule, *waiting = waiting
            new = self._apply(rule, node)
            if new is not None and new != node:
                self._check_output(rule, node, new)
                self.trace.steps.append(Step(batch.name, rule, node, new))
                self._features |= features(new)
                node, waiting = new, self._rules(batch, new, after=rule)
        return node

    def _lower(self, node: Node, batch: Batch) -> Node:
        for rule in self._rules(batch, node):
            new = self._apply(rule, node)
            if new is None:
                continue
            self._check_output(rule, node, new)
            if isinstance(node, Alternatives) and new is not node.written:
                by = {step.rule.name for step in self.trace.steps if type(step.after) is type(node)}
                self.replaced |= dict.fromkeys(_open_places(node.written) - _open_places(node.other), by)
            if isinstance(new, Logical):  # a rule chose one of two logical plans, or changed the plan
                if not isinstance(node, Alternatives):
                    self.trace.steps.append(Step(batch.name, rule, node, new))
                return self._lower(new, batch)
            if not isinstance(new, Spark):
                self.trace.steps.append(Step(batch.name, rule, node, new))
            break
        else:
            new = Spark(node)  # type: ignore[arg-type]
        return new.map_nodes(lambda below: self._inside(node, below, lambda: self._lower(below, batch)))

    def _inside(self, node: Node, below: Node, go: Callable[[], Node]) -> Node:
        """Visit ``below`` with its parent in the context; it counts as enclosing if it may be correlated."""
        ctx = self.context
        before = ctx.ancestors, ctx.enclosing
        ctx.ancestors = (*ctx.ancestors, node)
        if any(below is query for query in inner_queries(node)):
            ctx.enclosing = (*ctx.enclosing, below)
        try:
            return go()
        finally:
            ctx.ancestors, ctx.enclosing = before

    def _rules(self, batch: Batch, node: Node, after: Rule | None = None) -> list[Rule]:
        """The rules of a batch that read nodes of this class, in order; with ``after``, those behind that rule."""
        key = (batch, type(node))
        if key not in self._rules_by_class:
            self._rules_by_class[key] = [
                rule
                for rule in batch.rules
                if isinstance(node, rule.on)
                and rule.name not in self.options.disabled_rules
                and not rule.refused(self.streams)
            ]
        found = self._rules_by_class[key]
        if after is None:
            return found
        first = batch.rules.index(after) + 1
        return [rule for rule in found if rule in batch.rules[first:]]

    def _apply(self, rule: Rule, node: Node) -> Node | None:
        if rule.needs and rule.needs.isdisjoint(self._features):
            return None
        subject = self._block(rule, node) if rule.block else node
        if subject is None:
            return None
        check_deadline()
        self.context.rule = rule.name
        start = perf_counter()
        try:
            return rule.function(subject, self.context)
        except QueryError:
            raise
        except Refused as no:  # an expression that only Spark supports
            self.context.decline(str(no), no.place, no.code)
            return None
        except Exception as error:
            raise RuleError(f"{rule.name} failed on {show_tree(node)}\n{type(error).__name__}: {error}") from error
        finally:
            seconds = self.trace.seconds
            seconds[rule.name] = seconds.get(rule.name, 0.0) + perf_counter() - start

    def _block(self, rule: Rule, node: Node) -> QueryBlock | None:
        """The query block that a rule gets for a node."""
        return None if Sort in rule.on and isinstance(self.context.above, Sort) else read_block(node)

    @staticmethod
    def _check_output(rule: Rule, before: Node, after: Node) -> None:
        old, new = before.output, after.output  # type: ignore[attr-defined]
        if old != new:
            raise RuleError(f"{rule.name} changed the output from {old} to {new} on\n{show_tree(before)}")
