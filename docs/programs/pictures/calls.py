"""Which call to use: a tree of questions."""

from __future__ import annotations

from docs.programs.svg import Drawing

_GROUPS = (
    (
        "Data at rest",
        (
            ("SQL that you write", "opt.sql(…)"),
            ("SQL that you cannot change", "with Optimizer(spark): …"),
            ("a DataFrame that exists", "opt.dataframe(df)"),
            ("a join of two DataFrames", "opt.join(left, right, …)"),
            ("the nearest row of each", "opt.join_asof(left, right, …)"),
            ("a table in a database or service", "opt.register_lookup(…), opt.sql(…)"),
        ),
    ),
    (
        "Streams",
        (
            ("joined rows, as they are found", "opt.stream(…, checkpoint, sink)"),
            ("a result that stays current", "opt.materialize(…, name, state)"),
            ("several results on one state", "opt.materialize_all({…}, state)"),
        ),
    ),
    (
        "Nothing is to run",
        (
            ("the plan, and the reasons", "opt.plan(…).explain(…)"),
            ("both ways, compared", "opt.verify(…)"),
            ("a folder of SQL, without Spark", "dovetail advise queries/"),
            ("the joins of last night", "dovetail advise --event-log DIR"),
        ),
    ),
)


def calls() -> Drawing:
    """Draw what is there on the left, what is wanted in the middle, and the call on the right."""
    drawing = Drawing(
        760,
        506,
        "Which call to use",
        "; ".join(f"{group}: " + ", ".join(f"{want}: {call}" for want, call in rows) for group, rows in _GROUPS),
    )
    drawing.text(20, 30, "Which call to use", "title")
    drawing.text(20, 56, "about", "note")
    drawing.text(240, 56, "you have, or want", "note")
    drawing.text(486, 56, "the call", "note")
    y = 66.0
    for group, rows in _GROUPS:
        height = 30 * len(rows)
        middle = y + height / 2
        drawing.box(20, middle - 16, 180, 32, "bin")
        drawing.text(110, middle + 5, group, "strong", "middle")
        for n, (want, call) in enumerate(rows):
            at = y + 30 * n + 15
            drawing.line([(200, middle), (216, middle), (216, at), (232, at)], "axis")
            drawing.text(240, at + 5, want)
            drawing.box(478, at - 12, 264, 24, "box")
            drawing.text(486, at + 4, call, "code")
        y += height + 18
    return drawing
