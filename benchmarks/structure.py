"""Measures the structure of a checkout: lines, imports, walks through the code, and what a plan enters.

    python -m benchmarks.structure [CHECKOUT]

Runs no Spark.  A walk is one table of ARCHITECTURE.md or of a design note: the files that it names, with their lines.
*Entered* are the files of the project of which some function runs while a golden case is planned.  Another checkout, of
an older commit, is only read: it has no column for what is entered.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import networkx as nx
from rich import print as show
from rich.table import Table

HERE = Path(__file__).parents[1]
LAYERS = ("planner", "rules", "executor", "optimizer", "dovetail", "golden_plans")
CASES = ("band/point_in_interval", "self/computed_by_both", "lookup/inner", "streams/click_after_view")
WORDS = re.compile(r"\b(said|says|say|tells?|told|asks?|asked)\b", re.IGNORECASE)
# What a rule raises for a query that it leaves alone, by today's names and by those of older commits.
_REFUSALS = (
    "Refused|Unsupported|UnknownName|NoSuchColumn|UnsafeSpeculation|"
    "Unresolved|NotABand|NoWindow|NoRunningSums|NotTaken|MightRaise"
)
COUNTS = {
    "raises of refusals": re.compile(rf"raise \w*({_REFUSALS})\b"),
    "handlers of refusals": re.compile(rf"except [^:\n]*({_REFUSALS})\b"),
    "calls of names.resolve": re.compile(r"\.resolve\("),
    "tests of a type's name": re.compile(r"\.name (in|not in|==|!=) "),
    "`fold`, which compares names": re.compile(r"\bfold\b(?!\")"),
    "`id()` as identity": re.compile(r"(?<![.\w])(?<!def )id\("),
    "`getattr` in planner and rules": re.compile(r"\bgetattr\("),
    "mentions of Sail": re.compile(r"\bsail\b", re.IGNORECASE),
}
_ONLY_IN = {"`getattr` in planner and rules": ("planner", "rules")}
_RESOLVES = re.compile(r"\bfold\b|\.resolve\(|\.column\(|\.sources\(|scope_of\(|\.scope\(|\.bind\(")
_ABOUT_NAMES = re.compile(r"\bnamed?\b|\bnames\b|\balias|ambiguous|columns .*\bnot known")
_SCOPES = re.compile(r"(Scope|Resolver|Mapping|^Pair|^_?Names)$")
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.match_case, ast.Assert)


def _complexity(function: ast.AST) -> int:
    """Cyclomatic complexity: one, and one more for each branch; functions inside count."""
    more = {ast.BoolOp: lambda n: len(n.values) - 1, ast.comprehension: lambda n: 1 + len(n.ifs)}
    return 1 + sum(more.get(type(n), lambda n: isinstance(n, _BRANCHES))(n) for n in ast.walk(function))


def _parameters(function: ast.AST) -> int:
    given = function.args if isinstance(function, _FUNCTIONS) else ast.arguments([], [], None, [], [], None, [])
    return sum(a.arg not in ("self", "cls") for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def _is_refusal_about_names(node: ast.AST) -> bool:
    """Whether the text of a refusal is about names; those of attributes in it are no text."""
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return False
    refuses = isinstance(node, ast.Raise) and re.search(_REFUSALS, ast.unparse(call.func))
    if not refuses and not (isinstance(call.func, ast.Attribute) and call.func.attr == "decline"):
        return False
    text = " ".join(n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return _ABOUT_NAMES.search(text) is not None or ast.unparse(call.func) in ("UnknownName", "NoSuchColumn")


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NODES = {
    "classes of scopes": lambda n: isinstance(n, ast.ClassDef) and _SCOPES.search(n.name) is not None,
    "functions of a cyclomatic complexity above 20": lambda n: isinstance(n, _FUNCTIONS) and _complexity(n) > 20,
    "functions with 6 parameters or more": lambda n: _parameters(n) >= 6,
    "refusals about names": _is_refusal_about_names,
}


def main() -> None:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
    modules = {path: ast.parse(path.read_text()) for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))}
    show(_size_table(root, modules))
    show(_count_table(root, modules))
    show(_walk_table(root))
    if root == HERE:
        show(_entered_table(root))


def _size_table(root: Path, modules: dict[Path, ast.Module]) -> Table:
    table = Table("layer", "files", "lines", "packages", "imports between packages", "longest chain", title="Layers")
    packages = _package_imports(root, modules)
    for layer in (*LAYERS, ""):
        own = [path for path in modules if not layer or path.relative_to(root).parts[0] == layer]
        graph = packages.subgraph(n for n in packages if not layer or n.split(".")[0] == layer)
        chain = nx.dag_longest_path_length(graph) + 1 if nx.is_directed_acyclic_graph(graph) else "circles"
        numbers = (len(own), _lines(own), len(graph), graph.number_of_edges(), chain)
        table.add_row(layer or "all", *map(str, numbers))
    return table


def _count_table(root: Path, modules: dict[Path, ast.Module]) -> Table:
    table = Table("what", "times", "files", title="Counts in the packages")
    texts = {path: path.read_text() for path in modules if "golden_plans" not in path.parts}
    found = [
        (what, [len(pattern.findall(text)) for path, text in texts.items() if _is_in(path, root, _ONLY_IN.get(what))])
        for what, pattern in COUNTS.items()
    ]
    words = [sum(map(_has_words, text.splitlines())) for text in texts.values()]
    found.append(("lines with said, told, tells, asks, asked", words))
    rules = [bool(_RESOLVES.search(text)) for path, text in texts.items() if _is_in(path, root, ("rules",))]
    found.append(("files of rules that resolve names", list(map(int, rules))))
    for what, is_counted in NODES.items():
        found.append((what, [sum(map(is_counted, ast.walk(modules[path]))) for path in texts]))
    for what, times in found:
        table.add_row(what, str(sum(times)), str(sum(map(bool, times))))
    return table


def _is_in(path: Path, root: Path, layers: tuple[str, ...] | None) -> bool:
    return layers is None or path.relative_to(root).parts[0] in layers


def _has_words(line: str) -> bool:
    return WORDS.search(line) is not None


def _walk_table(root: Path) -> Table:
    table = Table("walk", "files", "lines", title="Walks of ARCHITECTURE.md and of the design notes")
    pages = [root / "ARCHITECTURE.md", *sorted((root / "docs" / "design-notes").glob("*.md"))]
    for name, files in (walk for page in pages for walk in _walks(page.read_text())):
        paths = [root / file for file in files]
        table.add_row(name, str(len(paths)), str(_lines(p for p in paths if p.exists())))
    return table


def _walks(page: str) -> Iterator[tuple[str, list[str]]]:
    """The walks by name, with the files of each table: a page's section with one, or its section with several."""
    sections = re.findall(r"^## (A walk|Walks)\b.*?\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    for title, section in sections:
        several = re.split(r"^\*\*", section, flags=re.MULTILINE)[1:]
        for part in [f"A band join**{section}"] if title == "A walk" else several:
            yield part.partition("**")[0], re.findall(r"^\| `([\w/]+\.py)`", part, flags=re.MULTILINE)


def _entered_table(root: Path) -> Table:
    from dovetail import plan_sql
    from dovetail.golden_plans.case import read_case
    from dovetail.golden_plans.planned import catalog_of, options_of, stream_plan

    table = Table("golden case", "files entered", "their lines", title="Files that planning enters")
    for name in CASES:
        case = read_case(root / f"golden_plans/cases/{name}.plan")
        catalog, options = catalog_of(case), options_of(case)
        plan_sql(case.sql, catalog, options)  # what is imported or computed once is no part of a plan
        stream_plan(case, catalog)
        entered: set[str] = set()

        def trace(frame: FrameType, event: str, argument: Any, entered: set[str] = entered) -> None:
            entered.add(frame.f_code.co_filename)

        sys.setprofile(trace)
        try:
            plan_sql(case.sql, catalog, options)
            stream_plan(case, catalog)
        finally:
            sys.setprofile(None)
        own = [
            path
            for layer in LAYERS[:3]
            for path in (Path(p).resolve() for p in entered)
            if path.is_relative_to(root / layer)
        ]
        table.add_row(name, str(len(own)), str(_lines(own)))
    return table


def _package_imports(root: Path, modules: dict[Path, ast.Module]) -> nx.DiGraph:
    """Package -> the packages that it imports; a file beside the packages of a layer is one of its own."""
    graph: nx.DiGraph = nx.DiGraph()
    for path, tree in modules.items():
        own = _package(root, path)
        if own in LAYERS:
            continue  # what a layer exports
        graph.add_node(own)
        for target in _targets(tree):
            other = root.joinpath(*target.split("."))
            file = other / "__init__.py" if other.is_dir() else other.with_suffix(".py")
            if target.split(".")[0] in LAYERS and file.exists():
                package = _package(root, file)
                if package not in (own, *LAYERS):
                    graph.add_edge(own, package)
    return graph


def _targets(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.removeprefix("dovetail.")
            yield from (f"{module}.{name.name}" for name in node.names)
            yield module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _package(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" or len(parts) > 2 else parts
    return ".".join(parts)


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


if __name__ == "__main__":
    main()
