"""Plans the SQL texts of executions with a catalog, where the log has them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dovetail.optimizer.advise.event_log.findings import Finding
from dovetail.optimizer.advise.event_log.verdicts import Verdict
from dovetail.optimizer.plan import Plan
from dovetail.optimizer.planning import plan_sql
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import DovetailError


@dataclass
class Statements:
    """Statements planned with a catalog, each once."""

    catalog: Catalog
    _plans: dict[str, Plan | None] = field(default_factory=dict)

    def judge(self, finding: Finding) -> Finding:
        """Judge a finding by the plan of its statement, too; the same finding where the plan adds nothing."""
        plan = self._plan(finding.sql) if finding.sql else None
        verdict = _combine(finding.verdict, plan) if plan else None
        return replace(finding, verdict=verdict) if verdict else finding

    def _plan(self, sql: str) -> Plan | None:
        if sql not in self._plans:
            try:
                self._plans[sql] = plan_sql(sql, self.catalog)
            except DovetailError:
                self._plans[sql] = None
        return self._plans[sql]


def _combine(verdict: Verdict, plan: Plan) -> Verdict | None:
    """The verdict on a join of a statement, which may have other joins as well."""
    rules = ", ".join(plan.rules)
    if plan.rewritten and verdict.answer != "no":
        return Verdict(
            "yes", verdict.rewriting or "a rewriting", f"{verdict.reason} The statement is rewritten: {rules}."
        )
    if plan.rewritten:
        return replace(verdict, reason=f"{verdict.reason} Other parts of the statement are rewritten: {rules}.")
    if plan.declined and verdict.answer != "no":
        return Verdict("no", "", f"The statement is not rewritten: {plan.declined[0].reason.rstrip('.')}.")
    return None
