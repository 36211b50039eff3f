"""The logical algebra: the clauses of a query, with the user's SQL.

A SELECT block reads, from the top: ``Limit`` › ``Sort`` › ``Project`` › ``Filter`` (qualify) › ``Windows`` › ``Filter``
(having) › ``Aggregate`` › ``Filter`` (where) › a tree of relations (``Scan``, ``Derived``, ``Join``, …).  Nodes that a
rule has named (``BandJoin``) stand where the ``Join`` stood.

``output`` is symbolic (``p.*`` for everything a relation has): enough to see that a rule changed it, and free of any
look-up.  ``label`` and ``detail`` are what the one printer shows.
"""

from dovetail.planner.logical.base import Logical, conjunction, expressions, map_expressions
from dovetail.planner.logical.clauses import Aggregate, Filter, Limit, Project, Sort, Windows, clauses_of
from dovetail.planner.logical.joins import JOIN_KEYWORDS, BandJoin, Join, JoinKind, KeyedJoin, LateralView
from dovetail.planner.logical.queries import Cte, Pipeline, SetOp, Statement, Values, Verbatim, With, Wrapped
from dovetail.planner.logical.relations import Derived, Nested, OneRow, Opaque, Relation, Scan, hint_name, nodes_of_from

__all__ = [
    "JOIN_KEYWORDS",
    "Aggregate",
    "BandJoin",
    "Cte",
    "Derived",
    "Filter",
    "Join",
    "JoinKind",
    "KeyedJoin",
    "LateralView",
    "Limit",
    "Logical",
    "Nested",
    "OneRow",
    "Opaque",
    "Pipeline",
    "Project",
    "Relation",
    "Scan",
    "SetOp",
    "Sort",
    "Statement",
    "Values",
    "Verbatim",
    "Windows",
    "With",
    "Wrapped",
    "clauses_of",
    "conjunction",
    "expressions",
    "hint_name",
    "map_expressions",
    "nodes_of_from",
]
