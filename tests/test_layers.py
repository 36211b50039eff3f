"""Imports go one way: optimizer → rules → planner and optimizer → executor → planner, and between packages within each.

Nobody imports golden_plans.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
DRIVERS = ("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "py4j", "pyspark", "sqlite3")
LAYERS = ("planner", "rules", "executor", "optimizer", "dovetail", "golden_plans")


@cache
def parsed() -> dict[Path, ast.Module]:
    """The files of the layers."""
    return {path: ast.parse(path.read_text()) for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}


@cache
def imports() -> nx.DiGraph:
    """Module -> the project's modules that it imports, wherever in the file the import stands."""
    graph = nx.DiGraph()
    for path, tree in parsed().items():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        graph.add_node(name)
        for node in ast.walk(tree):
            targets = []
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                targets = [a.name for a in node.names]
            for target in (target.removeprefix("dovetail.") for target in targets):
                path_of = ROOT.joinpath(*target.split("."))
                if target.split(".")[0] in LAYERS and (path_of.with_suffix(".py").exists() or path_of.is_dir()):
                    graph.add_edge(name, target)
    return nx.freeze(graph)


def test_every_import_has_the_name_of_an_installation() -> None:
    """``from planner…`` would load a module once more, or one of the user's."""
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for path, tree in parsed().items()
        for node in ast.walk(tree)
        if any(name.split(".")[0] in set(LAYERS) - {"dovetail"} for name in imported(node))
    ]
    assert found == []


def test_imports_lean_one_way() -> None:
    above = {layer: LAYERS[n + 1 :] for n, layer in enumerate(LAYERS)} | {"executor": ("rules", *LAYERS[3:])}
    assert [(a, b) for a, b in imports().edges if b.split(".")[0] in above[a.split(".")[0]]] == []


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = imports().copy()
    packages = [n for n in graph if (ROOT.joinpath(*n.split(".")) / "__init__.py").exists()]
    graph.remove_edges_from([(a, b) for a, b in graph.edges if b in packages and a.startswith(b)])
    assert list(nx.simple_cycles(graph)) == []


def package(module: str) -> str:
    """The folder in which a module lies; a file that lies beside the packages of a layer is one of its own."""
    if ROOT.joinpath(*module.split(".")).is_dir():
        return module
    above = module.rpartition(".")[0]
    return module if above in LAYERS else above


@pytest.mark.parametrize("layer", ["planner", "rules", "executor", "optimizer"])
def test_packages_import_one_way(layer: str) -> None:
    graph = nx.DiGraph()
    for a, b in imports().edges:
        inside = a.startswith(f"{layer}.") and b.startswith(f"{layer}.")
        # ``from dovetail.planner.sql import names`` is an edge to the package and one to the file
        if inside and package(a) != package(b) and not a.startswith(f"{b}."):
            graph.add_edge(package(a), package(b))
    assert list(nx.simple_cycles(graph)) == []


def test_every_package_says_what_it_is_for() -> None:
    packages = {path.parent for path in parsed()}
    docs = {r: parsed()[r / "__init__.py"] for r in packages if r / "__init__.py" in parsed()}
    assert [r for r, module in docs.items() if not ast.get_docstring(module)] == []


def test_only_the_executor_imports_pyspark() -> None:
    """Anywhere in a file, except for the type checker: the optimizer plans where there is no Spark."""
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for path, tree in parsed().items()
        if path.relative_to(ROOT).parts[0] != "executor"
        for node in executed(tree)
        if any(name.split(".")[0] in DRIVERS for name in imported(node))
    ]
    assert found == []


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a file that Python may run: all but what stands below ``if TYPE_CHECKING:``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from executed(other)
            continue
        yield node
        yield from executed(node)


def imported(node: ast.AST) -> list[str]:
    """The modules that a node imports, by a statement or by ``import_module`` and ``__import__`` with a text."""
    match node:
        case ast.Import():
            return [name.name for name in node.names]
        case ast.ImportFrom():
            return [node.module or ""]
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(name)), *_]):
            return [name] if called in ("import_module", "__import__") else []
    return []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n    from pyspark.sql import Row", ["pyspark.sql"]),
        ("class C:\n    import os, pyspark", ["os", "pyspark"]),
        ("if TYPE_CHECKING:\n    import pyspark\nelse:\n    import os", ["os"]),
        ("if typing.TYPE_CHECKING:\n    import pyspark", []),
        ("try:\n    importlib.import_module('pyspark.sql')\nexcept ImportError: ...", ["pyspark.sql"]),
    ],
)
def test_imports_are_found_wherever_they_stand(text: str, names: list[str]) -> None:
    assert [name for node in executed(ast.parse(text)) for name in imported(node)] == names
