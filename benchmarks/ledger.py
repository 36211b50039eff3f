"""The ledger of the rules: the lines that exist for each rule alone, what it rewrites, and what it gains.

    python -m benchmarks.ledger [CASES.jsonl ...]

*Lines* are those of the files that only this rule imports, directly or through others, with the files of the rule
itself (a rule that recognizes and the one that lowers its node are one entry).  *TPC* are the queries of TPC-H and
TPC-DS, planned without Spark and as if costs did not count, *golden* the golden plans.  A file of cases has a statement
a line (`id`, `setup`, `sql`); `tables.py` beside it makes their tables (`make(spark, folder)`), and Spark plans them.
Of each kind there are two numbers: the rewritten statements in which the rule fires, and those that stay as written
without it.  *Gain* is how many times as fast TPC-H and TPC-DS were, the least and the most, or else the figure of the
table in results/ that measures the rule.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import networkx as nx

from dovetail import Optimizer, Options, plan_sql
from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, options_of
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.catalog import Settings
from dovetail.planner.offline_catalog.catalog import CatalogFile, Table
from dovetail.planner.types.schema import Column, sql_type
from dovetail.rules.batches import BATCHES, RULES
from tests.tpc import data

HERE = Path(__file__).parents[1]
LAYERS = ("planner", "executor", "rules", "optimizer")
RECORDED = {  # benchmarks/results, where a rule has a table of its own: file, least and most times as fast
    "band_join": ("band_join_plain", "35–601"),
    "lookup_join": ("lookup_trips", "196–437"),
    "nearest_row": ("nearest", "> 120"),
    "nearest_groups": ("nearest", "> 120"),
    "nearest_subquery": ("nearest", "> 187"),
    "nearest_syntax": ("nearest", "> 120"),
    "extreme_exists": ("nearest", "2.3–270"),
    "self_join_elimination": ("self_join_elimination", "1.9–9.7"),
    "band_window": ("self_join_band_window", "1.0–60"),
}
LOWERED = {  # by its name, the entry to which a rule belongs that lowers a node; others are entries of their own
    "lower_merged_scalar_aggregates": "merge_scalar_aggregates",
    "lower_nearest_ties": "nearest_row",
    "lower_nearest_join": "nearest_row",
    "drop_hints": "join_hints",
    "keep_nested_loop": "join_hints",
    "extreme_exists_value": "extreme_exists",
    "lower_extreme_values": "extreme_exists",
}
Planner = Callable[[tuple[str, ...]], Plan]  # plans a statement without these rules


def entry(rule: str) -> str:
    """The entry of a rule in the ledger."""
    return LOWERED.get(rule, rule.removeprefix("lower_"))


def main() -> None:
    entries: dict[str, list[str]] = defaultdict(list)
    for rule in RULES:
        entries[entry(rule.name)].append(rule.name)
    kinds = {"TPC": uses(tpc(), entries), "golden": uses(golden(), entries)}
    for file in sys.argv[1:]:
        kinds[Path(file).stem] = uses(cases(Path(file)), entries)
    gains = recorded_gains()
    print("| rule | lines |", " | ".join(kinds), "| gain |\n| :-- | --: |", "--: | " * len(kinds), "--: |")
    graph = imports()
    for name, rules in sorted(entries.items(), key=lambda e: -lines_alone(e[1], graph)):
        fired = [f"{kind[name, 'fires']} / {kind[name, 'needed']}" for kind in kinds.values()]
        print(f"| {name} | {lines_alone(rules, graph)} |", " | ".join(fired), f"| {gains.get(name, '')} |")


def uses(statements: Iterable[Planner], entries: dict[str, list[str]]) -> Counter[tuple[str, str]]:
    """How many of these statements each entry rewrites, and how many are not rewritten without it."""
    found: Counter[tuple[str, str]] = Counter()
    for plan in statements:
        with_all = plan(())
        for name in {entry(rule) for rule in with_all.rules} if with_all.rewritten else ():
            found[name, "fires"] += 1
            found[name, "needed"] += not plan(tuple(entries[name])).rewritten
    return found


def tpc() -> Iterable[Planner]:
    """The queries of TPC-H and TPC-DS, over tables without statistics and keys."""
    for suite in data.SUITES:
        tables = [
            Table((name,), tuple(Column(c, sql_type(t.replace("VARCHAR", "STRING"))) for c, t in columns.items()))
            for name, columns in data.columns(suite).items()
        ]
        catalog = CatalogFile(HERE, Settings(), tuple(tables))
        for text in data.queries(suite).values():
            yield lambda rules, c=catalog, t=text: plan_sql(t, c, Options(force=True, disabled_rules=rules))  # type: ignore[misc]


def golden() -> Iterable[Planner]:
    """The golden cases."""
    for path in sorted((HERE / "golden_plans/cases").rglob("*.plan")):
        case = read_case(path)
        options, catalog = options_of(case), catalog_of(case)
        yield lambda rules, t=case.sql, c=catalog, o=options: plan_sql(  # type: ignore[misc]
            t, c, replace(o, disabled_rules=(*o.disabled_rules, *rules))
        )


def cases(file: Path) -> Iterable[Planner]:
    """The statements of a file, planned on Spark."""
    from benchmarks.harness import session

    folder = tempfile.mkdtemp()
    settings = {"spark.sql.warehouse.dir": folder, "spark.driver.memory": "3g"}
    with session("ledger", settings) as spark:
        runpy.run_path(str(file.parent / "tables.py"))["make"](spark, folder)
        for case in map(json.loads, file.read_text().splitlines()):
            for statement in case["setup"]:
                spark.sql(statement)
            yield lambda rules, t=case["sql"]: Optimizer(spark, Options(force=True, disabled_rules=rules)).plan(t)  # type: ignore[misc]


def recorded_gains() -> dict[str, str]:
    """By rule, the least and the most that the tables of TPC-H and TPC-DS say a query is faster."""
    text = "".join((HERE / f"benchmarks/results/self_join_{suite}.md").read_text() for suite in data.SUITES)
    faster = {
        query: float(times)
        for query, times in re.findall(r"^\| (\w+\d) \| .*? \| ([\d.]+)× \|", text, flags=re.MULTILINE)
    }
    by_rule: dict[str, list[float]] = defaultdict(list)
    normal = {rule.name for batch in BATCHES if batch.name == "normalize" for rule in batch.rules}
    for query, rules in re.findall(r"^\| (\w+\d) \| ([a-z_]+(?:, [a-z_]+)*) \|$", text, flags=re.MULTILINE):
        for name in {entry(rule) for rule in rules.split(", ") if rule not in normal}:
            by_rule[name].append(faster[query])
    found = {name: f"{min(times)}–{max(times)} (TPC)" for name, times in by_rule.items()}
    return found | {name: f"{times} ({table})" for name, (table, times) in RECORDED.items()}


def imports() -> nx.DiGraph:
    """File -> the files from which it imports; a name that a package exports stands for the file that defines it."""
    paths = [path for layer in LAYERS for path in (HERE / layer).rglob("*.py")]
    nodes = {p: [n for n in ast.walk(ast.parse(p.read_text())) if isinstance(n, ast.ImportFrom)] for p in paths}
    found = {p: [(n.module or "", name.name) for n in nodes[p] for name in n.names] for p in paths}
    exported = {
        (path.parent, name): module for path in found for module, name in found[path] if path.stem == "__init__"
    }
    graph: nx.DiGraph = nx.DiGraph()
    for path in (p for p in found if p.stem != "__init__"):
        for module, name in found[path]:
            source = file_of(exported.get((file_of(module).with_suffix(""), name), module))
            files = (source.with_suffix("") / f"{name}.py", source)
            graph.add_edges_from((path, file) for file in files if file in found)
    return graph


def lines_alone(rules: list[str], graph: nx.DiGraph) -> int:
    """The lines of the files that nothing but these rules needs."""
    batches = HERE / "rules/batches.py"
    others = {file_of(r.function.__module__) for r in RULES if r.name not in rules}
    files = {file_of(r.function.__module__) for r in RULES if r.name in rules} - others
    rest = nx.restricted_view(graph, files, ())
    roots = [file for file in rest if graph.in_degree(file) == 0 or file == batches]
    needed = {file for root in roots for file in (root, *nx.descendants(rest, root))}
    return sum(len(file.read_text().splitlines()) for file in set(graph) - needed)


def file_of(module: str) -> Path:
    return HERE.joinpath(*module.removeprefix("dovetail.").split(".")).with_suffix(".py")


if __name__ == "__main__":
    main()
