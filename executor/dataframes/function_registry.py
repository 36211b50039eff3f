"""The SQL names of Catalyst's classes, as Spark's registry of built-in functions has them.

The registry knows the class of each function, or that of a builder which makes one of several.  A name that does not
mean the class after all does no harm: Spark reads what was written, and the plan must be the one it was written from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

_BUILDER = re.compile(r"(Expression|Generator)?Builder$")
_OF_BUILDERS = {
    "BinaryPad": "lpad",
    "MakeTimestamp": "make_timestamp",
    "RoundCeil": "ceil",
    "RoundFloor": "floor",
    "StringLPad": "lpad",
    "StringRPad": "rpad",
}
"""Names of classes that only a builder makes, and that are not called as the builder is."""


class FunctionRegistry:
    """The built-in functions of a JVM, by the name of their class; each is looked up once."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
        self._registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
        self._known: dict[str, str] = {}

    def find(self, of_class: str) -> str:
        """Return the function of a class: that of its own name if Spark has it, else the registered one."""
        if of_class not in self._known:
            own = snake_case(of_class)
            is_own = self._class_of(own) == of_class
            self._known[of_class] = own if is_own else self._registered.get(of_class, own)
        return self._known[of_class]

    def _class_of(self, name: str) -> str:
        """Return the class of a function, or an empty text; this takes less than a millisecond."""
        found = self._registry.lookupFunction(self._identifier(name))
        return _simple_name(found.get().getClassName()) if found.isDefined() else ""

    @cached_property
    def _registered(self) -> Mapping[str, str]:
        """The name of each class that Spark lists, read in one call, which takes some tenths of a second."""
        infos = self._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
        listed = self._jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(infos)
        names: dict[str, list[str]] = {}
        for info in json.loads(listed):
            if re.fullmatch(r"\w+", info["name"]):
                names.setdefault(_simple_name(info["className"]), []).append(info["name"])
        return {**_OF_BUILDERS, **{of_class: min(found) for of_class, found in names.items()}}


@lru_cache(maxsize=1)
def function_registry(jvm: Any) -> FunctionRegistry:
    """Return the built-in functions of a JVM, the same object each time."""
    return FunctionRegistry(jvm)


def snake_case(of_class: str) -> str:
    """Return the name of a class in lower case, with an underscore before each word."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", of_class).lower()


def _simple_name(of_class: str) -> str:
    return _BUILDER.sub("", of_class.rpartition(".")[2])
