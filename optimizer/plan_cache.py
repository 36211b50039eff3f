"""Plans of statements that come again: what was decided holds while the analysed query and its files are the same.

To find one costs the analysis of one text, which Spark has to do anyway, and a look at the files: of the user's text
where it was left as it is, of the rewriting where there is one.  A rewriting that does not name all that the user's
text names could mean what it meant while the text means something else; then both are analysed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from optimizer.checks import schema_difference
from planner.expr.tokens import called
from planner.logical import Scan
from planner.sql.reader import not_a_query
from planner.tree import unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from optimizer.plan import Plan
    from planner.runtime.catalog import SparkCatalog
    from planner.runtime.measurement_cache import Question
    from planner.tree import Node

_MOST = 200  # plans
_WORTH = 0.01  # seconds of planning; a query left as it is that takes less is planned anew


@dataclass(frozen=True)
class _Known:
    """A plan, what its text asked, and what its rewriting asked; None for what need not be asked again."""

    plan: Plan
    own: Question | None
    rewriting: Question | None
    schema: Any


class PlanCache:
    """The plans that an optimizer has made of queries that it rewrote or thought about, but for those with lookups."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, _Known] = OrderedDict()

    def find(self, text: str, arguments: Any, words: Hashable, catalog: SparkCatalog) -> Plan | None:
        """The plan of a text that asks what it asked, ready to run; None where there is none.

        ``words``: what else decides about a plan.  What has been analysed on the way is in the catalog then.
        """
        from planner.runtime.batch import analysed
        from planner.runtime.measurement_cache import asked
        from planner.runtime.together import together

        known = self._plans.get((text, words))
        if known is None:
            return None

        def frame(of: str, question: Question | None) -> DataFrame | None:
            found = catalog.analysed(of) if of == text else analysed(catalog.session, of, arguments)
            if question is None or isinstance(found, str):
                return None
            again = asked(found[0])
            if again is None or not question.same(again) or schema_difference(known.schema, found[1]):
                return None
            return found[0]

        asking = []
        if known.plan.rewriting is not None:
            asking.append(partial(frame, known.plan.rewriting, known.rewriting))
        if known.own is not None:
            asking.append(partial(frame, text, known.own))
        found = together(catalog.session, *asking)
        if None in found:
            return None
        self._plans.move_to_end((text, words))
        return replace(known.plan, frame=found[0])

    def keep(self, text: str, words: Hashable, plan: Plan, seconds: float, catalog: SparkCatalog) -> DataFrame | None:
        """Remember a plan that took so long; the DataFrame of the text if it was left as it is, and made on the way."""
        from planner.runtime.batch import classic
        from planner.runtime.measurement_cache import asked

        if not classic(catalog.session) or plan.prefix or plan.logical is None or not_a_query(text):
            return None
        if (plan.frame is None) if plan.rewritten else seconds < _WORTH:
            return None
        rewriting = asked(plan.frame) if plan.frame is not None else None
        if plan.rewritten and (rewriting is None or _names_all(plan)):
            own, frame = None, plan.frame
        else:
            found = catalog.analysed(text)
            if isinstance(found, str):
                return None
            frame = found[0]
            own = asked(frame)
        if (rewriting if plan.rewritten else own) is not None:
            kept = replace(plan, frame=None, session=catalog.session)
            self._plans[text, words] = _Known(kept, own, rewriting, frame.schema if frame is not None else None)
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)
        return None if plan.rewritten else frame


def _names_all(plan: Plan) -> bool:
    """Whether a rewriting names every table and function that the text names, in the same words."""
    assert plan.logical is not None
    assert plan.physical is not None
    calls = called(plan.text) <= called(plan.rewriting or "")
    return calls and _names(plan.logical) <= _names(plan.physical)


def _names(plan: Node) -> set[tuple[str, ...]]:
    return {scan.name for node in plan.walk() if isinstance(scan := unwrap(node), Scan) and not scan.cte}
