"""Plans of statements that come again: what was decided holds while the analysed query and its files are the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from optimizer.plan import Plan
    from planner.runtime.remembered import Question, Remembered

_MOST = 1_000  # texts


@dataclass(frozen=True)
class Again:
    """A text that comes again: what it asks, what it was rewritten to, and that as a DataFrame, if Spark takes it."""

    question: Question
    rewriting: str
    frame: DataFrame | None


class KnownPlans:
    """The plans that an optimizer has made, of queries that it rewrote; none of those that ask lookups.

    A text is remembered when it comes for the first time, its plan from the second time on: a query that runs once
    pays nothing.
    """

    def __init__(self, session: SparkSession):
        from planner.runtime.remembered import Remembered

        self.session = session
        self._texts: dict[str, str] = {}  # and what each was rewritten to, if its plan is known
        self._plans: Remembered[tuple[Plan, Any]] = Remembered()

    def question(self, text: str, arguments: Any, words: Hashable) -> Again | None:
        """What a text asks, where it has been rewritten before and reads files alone; ``words``: what else decides."""
        from planner.runtime.batch import analysed, classic
        from planner.runtime.remembered import asked
        from planner.runtime.together import together

        if text not in self._texts or not classic(self.session):
            return None
        rewriting = self._texts[text]

        def asks() -> Question | None:
            found = analysed(self.session, _bare(text), arguments)
            return None if isinstance(found, str) else asked(found[0], (text, words))

        def frame() -> DataFrame | None:
            found = analysed(self.session, rewriting, arguments)
            return None if isinstance(found, str) else found[0]

        found: tuple[Any, ...] = together(self.session, asks, *([frame] if rewriting else []))
        question, again = (*found, None)[:2]
        return Again(question, rewriting, again) if question else None

    def find(self, again: Again) -> Plan | None:
        """The plan of the same question, ready to run; None where there is none.

        The rewriting may name what stood behind a view, so it has to mean what it meant, too.
        """
        from planner.runtime.remembered import meaning

        known = self._plans.find(again.question)
        if known is None or again.frame is None:
            return None
        plan, meant = known
        if plan.rewriting != again.rewriting or not meant.sameResult(meaning(again.frame)):
            return None
        return replace(plan, frame=again.frame)

    def keep(self, text: str, again: Again | None, plan: Plan) -> None:
        """Remember a plan, or that its text has been rewritten."""
        from planner.runtime.remembered import meaning

        if not plan.rewritten or plan.prefix:
            return
        self._texts[text] = ""
        if again is not None and plan.frame is not None:
            self._plans.keep(again.question, (replace(plan, frame=None), meaning(plan.frame)))
            self._texts[text] = plan.rewriting or ""
        if len(self._texts) > _MOST:
            del self._texts[next(iter(self._texts))]


def _bare(text: str) -> str:
    return text.rstrip().rstrip(";")
