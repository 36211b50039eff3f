"""Wrong rewritings, each one place of the source changed: tests have to notice every one of them.

``old`` stands in its file exactly once.  Where it does not any more, the fault is to be planted anew: `make
planted-faults` says so.  ``cases``: the golden plans that are likely to notice it.  ``tests``: where no golden plan
shows it, the tests on Spark that do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """What is wrong, in the place of what."""

    name: str
    file: str
    old: str
    new: str
    cases: str = ""
    tests: str = ""


BINS = "planner/band/distance_sql.py"
INTERVALS = "planner/band/interval_sql.py"
RANGES = "planner/physical/time_ranges.py"
NEAREST = "planner/physical/nearest_candidates.py"
FIRST_ROW = "rules/nearest/first_row.py"
EXTREMES = "rules/nearest/extremes.py"
JOIN = "planner/physical/key_join.py"
KEY_SETS = "planner/physical/key_sets.py"
KEYS = "planner/keys/key_set.py"
PRESERVED = "rules/band_join/preserved_rows.py"
PREFIXES = "planner/keys/prefixes.py"
MASKS = "planner/keys/masks.py"
BANDS = "planner/keys/bands.py"
GRID = "planner/physical/grid_band_join.py"
DISTANCES = "planner/band/distances.py"
SPHERE = "planner/band/great_circle.py"
OVERLAP = "planner/physical/overlap_band_join.py"
SUMS = "planner/physical/band_aggregate.py"
WIDTHS = "planner/band/bins.py"
ENDS = "planner/band/ends.py"
FILTERS = "rules/normalize/push_filters.py"
CARRIED = "rules/normalize/carry_filters.py"
CONDITIONS = "planner/conditions/normal_form.py"
QUOTIENTS = "planner/band/inverses.py"
VERSIONS = "rules/recognize/nearest_version.py"
EXISTS = "rules/query/exists_as_join.py"
EXTREME_ROWS = "rules/recognize/extreme_exists.py"
GROUPED = "rules/nearest/extreme_groups.py"
SEMI_JOINS = "rules/window/anti_join.py"
SAME = "rules/recognize/self_join_elimination.py"
FRAMES = "rules/window/frame_aggregates.py"
WINDOWS = "rules/window/correlated_aggregate.py"
MERGED = "rules/shared_scan/scalar_aggregates.py"
GUARDS = "rules/analysis/speculation.py"
FIELDS = "optimizer/planning/validation.py"
BLOCK = "rules/query/query_block.py"
LATER_JOINS = "rules/nearest/joins_above.py"
TOTALS = "rules/recognize/correlated_groups.py"
OUTER_SUMS = "rules/lower/aggregate_band_join.py"
VIEWS = "executor/session/temporary_views.py"
VALIDATION = "optimizer/session/schema_validation.py"
NAMED = "executor/session/named_frames.py"
CLUSTERS = "planner/estimate/clusters.py"
ESTIMATE_TESTS = "tests/planner/test_estimates.py"
CACHE_TESTS = "tests/optimizer/test_cached_inputs.py"

FAULTS = (
    Fault("a pair counts under each branch that holds", KEY_SETS, "END = {tag}", "END >= 0", "keys"),
    Fault(
        "WHERE of both sides comes before the matches",
        PRESERVED,
        " and _side(conjunct, scope) == preserved[0]",
        "",
        "keys",
    ),
    Fault("two arrays meet under each common element", KEY_SETS, "{key} = array_min(", "{key} >= array_min(", "keys"),
    Fault(
        "what an array has twice is two keys",
        KEYS,
        "array_distinct({keys})",
        "(transform({present}",
        "keys",
    ),
    Fault(
        "rows that pass the guards have no key",
        KEYS,
        "{' AND '.join(known)} THEN",
        "NOT ({' AND '.join(known)}) THEN",
        "keys",
    ),
    Fault(
        "a text has no key of its length",
        PREFIXES,
        "<= octet_length({self.text})",
        "< octet_length({self.text})",
        "keys",
    ),
    Fault(
        "the later interval holds the start",
        BANDS,
        'return f"{left} < {right}"',
        'return f"{left} > {right}"',
        "overlap",
    ),
    Fault("a point has no key where there are no ends", BANDS, "levels.widths))})", "levels.widths[:-1]))})", "keys"),
    Fault(
        "wildcards count as what they are",
        PREFIXES,
        "start = _without_wildcards(start, plain, last=last)",
        "pass",
        "keys",
    ),
    Fault(
        "the last substring of a text has no key",
        "planner/keys/substrings.py",
        "octet_length({_TEXT}) - {_LENGTH} + 1",
        "octet_length({_TEXT}) - {_LENGTH}",
        "keys",
    ),
    Fault(
        "a later WHEN holds where an earlier one does",
        "planner/keys/alternatives.py",
        "for when, value in cases:",
        "for when, value in list(cases)[:1]:",
        "keys",
    ),
    Fault("NULL means any value of one side alone", MASKS, "if side in column.nulls", "if side == 'left'", "keys"),
    Fault(
        "a value that the other side does not have is hashed",
        MASKS,
        "if 1 << n in bits else known",
        "if False else known",
        "keys",
    ),
    Fault(
        "a grid joins on the first band alone, with its copies for all",
        GRID,
        "(*keys, *found.keys)",
        "keys or found.keys",
        "measured",
    ),
    Fault("a radius is a diameter", DISTANCES, "bound.raised(_HALF))", "bound.raised(Fraction(2)))", "distances"),
    Fault("one difference decides for its distance", ENDS, "if band.implied:", "if False:", "aggregate"),
    Fault("a rounded coordinate is as good", SPHERE, "if cast.to.this == exp.DType.DOUBLE", "if cast.to", "distances"),
    Fault("a chord is half as long", SPHERE, "2 * math.sin(angle / 2)", "math.sin(angle / 4)", "distances"),
    Fault("the bins of a band end where they begin", BINS, "else (-high, -low)", "else (-high, -high)", "band"),
    Fault("the bins of a band begin at its other end", BINS, "else (-high, -low)", "else (high, -low)", "band"),
    Fault("a band is not halved with its positions", BINS, "added / 2, width / 2", "added, width / 2", "band"),
    Fault(
        "bins far from zero are not clipped",
        BINS,
        "floor(least(greatest({quotient}, -{most}), {most}))",
        "floor({quotient})",
        "band",
    ),
    Fault("a point visits one bin", INTERVALS, "array({here}, {here} - 1)", "array({here})", "band"),
    Fault(
        "an interval with its ends the wrong way round has bins downwards",
        INTERVALS,
        "sequence({first}, greatest({first}, {last}))",
        "sequence({first}, {last})",
        "band",
    ),
    Fault("an interval fills more than its bin", INTERVALS, "_FILL = 0.875", "_FILL = 1.75", "band"),
    Fault(
        "bins of an interval without a low end",
        INTERVALS,
        "CASE WHEN {low} IS NOT NULL THEN {bins} END",
        "{bins}",
        "band",
    ),
    Fault(
        "rounding moves the ends inward",
        INTERVALS,
        "'+' if outward > 0 else '-'} ({size})",
        "'-' if outward > 0 else '+'} ({size})",
        "band",
    ),
    Fault(
        "a pair meets in each common bin",
        OVERLAP,
        'lambda keys: (f"{keys[0]} = {later}",)',
        "lambda keys: ()",
        "overlap",
    ),
    Fault(
        "a pair meets in the bin of the earlier start", OVERLAP, 'later = f"greatest(', 'later = f"least(', "overlap"
    ),
    Fault(
        "halved bins have no room at the low end",
        WIDTHS,
        "Fraction(2 * floor(low / 2) - 2)",
        "Fraction(2 * floor(low / 2))",
        "band",
    ),
    Fault(
        "bins of real numbers have no room",
        WIDTHS,
        "FixedWidthBins(width, low - MARGIN * width, high + MARGIN * width)",
        "FixedWidthBins(width, low, high)",
        "band",
    ),
    Fault(
        "the ends of a band are rounded inward",
        WIDTHS,
        "low, high = Fraction(floor(low)), Fraction(ceil(high))",
        "low, high = Fraction(ceil(low)), Fraction(floor(high))",
        "band",
    ),
    Fault(
        "a preserved side is copied",
        JOIN,
        "tuple(side for side in preserved_sides(self.kind) if side in self.scheme.copied)",
        "()",
        "band",
    ),
    Fault(
        "the right side of a full join is not preserved", JOIN, 'return ("left", "right")', 'return ("left",)', "band"
    ),
    Fault("a null-safe equality is plain", JOIN, "{v} <=> {c}", "{v} = {c}", "band"),
    Fault("matches are not distinct", JOIN, "{repeated(self.hints)}DISTINCT ", "{repeated(self.hints)}", "band"),
    Fault(
        "the condition of the user is dropped",
        JOIN,
        "[*on, *keyed.also(_left(keyed)), condition])\n        before =",
        "[*on, *keyed.also(_left(keyed))])\n        before =",
        "band",
    ),
    Fault(
        "an end that is NULL is no end at all",
        INTERVALS,
        "_ENDLESS[outward] if end.endless else",
        "_ENDLESS[outward] if False else",
        "band",
    ),
    Fault(
        "the second of the last rows comes first",
        NEAREST,
        "lag({near}, {n}) IGNORE",
        "lag({near}, {n} + 1) IGNORE",
        "nearest",
    ),
    Fault(
        "the last of equally near rows behind a value comes first",
        NEAREST,
        "first = self.sorted_ties(first=True)",
        "first = self.sorted_ties()",
        "nearest",
    ),
    Fault(
        "an item over both rows is there without a match",
        "planner/physical/nearest_union.py",
        'f"CASE WHEN {near} IS NOT NULL THEN {value} END"',
        "value",
        "nearest",
    ),
    Fault(
        "the nearer side is dropped",
        NEAREST,
        "CASE WHEN {other} < {own} THEN",
        "CASE WHEN {other} > {own} THEN",
        "nearest",
    ),
    Fault(
        "the second rank is of the nearest time",
        FIRST_ROW,
        "keeps_ties(ranking) and count > 1",
        "False",
        "nearest",
    ),
    Fault(
        "a NULL is no field of a struct",
        EXTREMES,
        'is_struct and direction == "forward"',
        "False",
        "nearest",
    ),
    Fault(
        "the farther of two rows is taken",
        NEAREST,
        "{before} < {behind}{tie} THEN",
        "{before} > {behind}{tie} THEN",
        "nearest",
    ),
    Fault(
        "a range begins with the first right row of those before it",
        RANGES,
        '"min_by" if self.nearest.direction == "forward" else',
        '"min_by" if self.nearest.direction != "forward" else',
        "nearest_ranges",
    ),
    Fault(
        "a range without right rows begins with none",
        RANGES,
        "explode(sequence({self.range} + 1, {name}_until))",
        "explode(sequence({self.range} + 1, {self.range} + 1))",
        "nearest_ranges",
    ),
    Fault(
        "a row without a time is in the last range",
        RANGES,
        "WHEN {position} IS NOT NULL THEN {self.last} END",
        "ELSE {self.last} END",
        "nearest_ranges",
    ),
    Fault(
        "a left join does not test the end of a version",
        VERSIONS,
        "tolerances, rest = tuple(_tolerance(c, ends[c], pairs) for c in rest), ()",
        "rest = ()",
        "nearest",
    ),
    Fault(
        "versions that begin when others end are one version",
        VERSIONS,
        'signs = ("<", "<=") if strict or has_gap else ("<",)',
        'signs = ("<", "<=")',
        "refused",
    ),
    Fault(
        "a CASE is turned around whose condition may be NULL",
        CONDITIONS,
        "(negated and not is_two_valued)",
        "False",
        "normalize",
    ),
    Fault(
        "a negative divisor is taken for a positive one",
        QUOTIENTS,
        "expression=exp.Literal.number(0))",
        "expression=_double(-_ANYTHING))",
        "band",
    ),
    Fault("a strict end is closed", ENDS, "isinstance(tree, exp.GT)", "False", "aggregate"),
    Fault(
        "open and closed ends change places", ENDS, "low[2], high[2], common", "high[2], low[2], common", "aggregate"
    ),
    Fault(
        "an open end of integers is off by one",
        ENDS,
        "floor(band.low) + 1 if open_",
        "floor(band.low) if open_",
        "aggregate",
    ),
    Fault(
        "a running sum ends one row early",
        SUMS,
        "ROWS UNBOUNDED PRECEDING))",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))",
        "aggregate",
    ),
    Fault("grouped rows without a pair come out", SUMS, "_sign <> 0 AND {sql.pairs} > 0", "_sign <> 0", "aggregate"),
    Fault("intervals without a point make a group", SUMS, "{sql.pairs}) > 0", "{sql.pairs}) >= 0", "aggregate"),
    Fault(
        "an end counts before the points beside it",
        SUMS,
        "(0 if ends.open_high else 2)",
        "(2 if ends.open_high else 0)",
        "aggregate",
    ),
    Fault("what an interval leaves is not taken away", SUMS, "ELSE -{value} END", "ELSE {value} END", "aggregate"),
    Fault(
        "WHERE moves below the side that a right join does not preserve",
        FILTERS,
        '"right" if join.kind == "right" else "left"',
        '"left"',
        "refused",
    ),
    Fault("WHERE takes the place of ON", FILTERS, "(*join.condition, conjunct)", "(conjunct,)", "band"),
    Fault(
        "the rest of WHERE is dropped",
        BLOCK,
        "return None if tree is node.child else where(tree, tuple(kept))",
        "return None if tree is node.child else tree",
        "normalize",
    ),
    Fault(
        "a filter is dropped where another is carried in",
        CARRIED,
        "(*block.condition, moved)",
        "(moved,)",
        "normalize",
    ),
    Fault(
        "NOT EXISTS is a semi join", EXISTS, 'kind = "anti" if test.negated else "semi"', 'kind = "semi"', "subqueries"
    ),
    Fault(
        "an anti join is EXISTS", SEMI_JOINS, '"EXISTS" if join.kind == "semi" else "NOT EXISTS"', '"EXISTS"', "self"
    ),
    Fault("NOT IN forgets NULL", EXISTS, "({equal}) IS NOT FALSE", "({equal})", "subqueries"),
    Fault(
        "the other end of a value decides",
        EXTREME_ROWS,
        'function = {"<": "min", ">": "max"}',
        'function = {"<": "max", ">": "min"}',
        "extreme",
    ),
    Fault(
        "of two values one decides", EXTREME_ROWS, "if canonical(other) != canonical(value):", "if False:", "extreme"
    ),
    Fault(
        "rows that a condition excludes decide", GROUPED, "where(join.right, extreme.right)", "join.right", "extreme"
    ),
    Fault(
        "conditions on the left side are lost",
        GROUPED,
        "(*map(Scalar, condition), *extreme.left)",
        "tuple(map(Scalar, condition))",
        "extreme",
    ),
    Fault("a row joined with itself by NULL", SAME, 'e.left[1]))} IS NOT NULL"', 'e.left[1]))} IS NULL"', "self"),
    Fault(
        "rows with equal keys share what they count",
        FRAMES,
        "ORDER BY {self.band.offsets.order(self.band.column, self.nulls)} {offsets.frame}",
        "ORDER BY {self.band.offsets.order(self.band.column, self.nulls)}",
        "self",
    ),
    Fault(
        "what lies before the frame is added",
        FRAMES,
        '[("-", band.offsets.before)]',
        '[("+", band.offsets.before)]',
        "self",
    ),
    Fault("all others of a group: the greatest is the least", WINDOWS, '"<": ("min",)', '"<": ("max",)', "self"),
    Fault(
        "an aggregate counts the rows of all", MERGED, 'if own else ""\n', 'if not own else ""\n', "scalar_aggregates"
    ),
    Fault(
        "common filters lose their guards",
        GUARDS,
        "        if not any(guard <= before for guard in guards):\n",
        "        if not filters:\n",
        "scalar_aggregates",
    ),
    Fault(
        "a condition of the preserved side does not guard what bins compute",
        "planner/band/linear.py",
        "    if not guards:\n",
        "    if guards:\n",
        "expressions/guard_in_a_left_join.plan",
    ),
    Fault(
        "a struct may name a field after a column of a rewriting",
        FIELDS,
        "            if name.startswith(PREFIX) and all(",
        "            if not name and all(",
        "self/refused_field_of_a_rewriting.plan",
    ),
    Fault(
        "a view that is dropped takes the cached rows of its plan along",
        VIEWS,
        "        session._jsparkSession.sessionState().catalog().dropTempView(name)\n",
        "        session.catalog.dropTempView(name)\n",
        tests=CACHE_TESTS,
    ),
    Fault(
        "PySpark makes and drops the views of frames",
        NAMED,
        "    if not values:\n        return run(session, text, args)\n",
        "    if True:\n        return run(session, text, args, **values)\n",
        tests=CACHE_TESTS,
    ),
    Fault(
        "rows that are cached are computed again",
        VALIDATION,
        "if reason is None and ignores_cached_rows(before[0], after[0]):",
        "if reason is None and not before:",
        tests=CACHE_TESTS,
    ),
    Fault(
        "the least difference is that of the most distant row",
        FIRST_ROW,
        "gap.falls != keys[0].descending",
        "gap.falls == keys[0].descending",
        "nearest",
    ),
    Fault(
        "WHERE is tested below a full join", LATER_JOINS, "is_below = not fills and all(", "is_below = all(", "nearest"
    ),
    Fault(
        "a later join may read the nearest row", LATER_JOINS, "relations.isdisjoint(right):", "relations:", "nearest"
    ),
    Fault("a count of no rows is NULL", TOTALS, "if not call.of_none", "if call.of_none or True", "groups"),
    Fault(
        "a row without a time is behind all others",
        NEAREST,
        "WHEN {at} IS NOT NULL AND {c} IS NOT NULL AND {c}.at IS NULL THEN {c}",
        "WHEN {at} IS NOT NULL AND {c} IS NULL AND {c}.at IS NULL THEN {c}",
        "nearest",
    ),
    Fault(
        "rows that WHERE drops are preserved",
        OUTER_SUMS,
        "self.block.condition if preserved else None",
        "() if preserved else None",
        "aggregate",
    ),
    Fault(
        "pairs of a join are taken for independent",
        CLUSTERS,
        "        variance = (second - n * mean * mean) / (n - 1)\n",
        "        variance = min((second - n * mean * mean) / (n - 1), abs(mean))\n",
        tests=ESTIMATE_TESTS,
    ),
    Fault(
        "rare values of other groups do not count",
        CLUSTERS,
        "return _SKEWED * rows * (third / second)",
        "return 0.0 * rows * (third / second)",
        tests=ESTIMATE_TESTS,
    ),
    Fault(
        "each look may miss as often as all",
        "planner/estimate/looks.py",
        "(1 - confidence) / LOOKS",
        "1 - confidence",
        tests=ESTIMATE_TESTS,
    ),
    Fault(
        "a divisor is taken for exact",
        "planner/estimate/expression.py",
        "-quotient / right.number",
        "0.0",
        tests=ESTIMATE_TESTS,
    ),
)
