"""Differences that are the format's or Spark's own, with the reason."""

from __future__ import annotations

from format_sessions import DELTA, ICEBERG
from golden_sessions import ARGUMENTS

KNOWN: dict[str, str] = {
    "TIMESTAMP AS OF a subquery": r"^Spark alone: .*INTERNAL_ERROR",
    "DELETE with EXISTS": r"^Spark alone: .*DELTA_UNSUPPORTED_SUBQUERY",
    "UPDATE with IN": r"^Spark alone: .*DELTA_UNSUPPORTED_SUBQUERY",
}
"""By words of what is tried: a pattern of what is seen."""
_PARAMETERS = "Spark 4.1 binds no parameters where the format has an SQL extension: UNBOUND_SQL_PARAMETER"
NOT_EQUAL: dict[tuple[str, str], str] = {
    (ICEBERG, "kinds/left_raising"): "Spark alone casts the text of a row that has met no partner",
    (ICEBERG, "keys/refused_prefix_with_collation"): "the format keeps no collations",
    (ICEBERG, "keys/refused_suffix_with_collation"): "the format keeps no collations",
    (ICEBERG, "names/mixed_case"): "names of tables have one case",
    **{(form, "expressions/refused_mixed_choice"): "Spark alone casts the text" for form in (DELTA, ICEBERG)},
    **{(form, case): _PARAMETERS for form in (DELTA, ICEBERG) for case in ARGUMENTS},
}
"""By format and golden case: why its plan is not that over Parquet."""
