"""Writes docs/licenses.md: the license of each package that Dovetail or its extras install, from their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licenses.md"
EXTRAS = ("spark", "lookup", "html", "notebook", "event-log")  # those that users install beside PySpark
_HEAD = """# Licenses

Dovetail is licensed under Apache-2.0. These are the packages that `pip install dovetail` and its extras install, as
their own metadata describe them; pip may choose other versions. `python tests/licenses_main.py` writes this page.
Not in it are the extras for environments without PySpark: `client` and `sail` install pyspark-client and pysail, both
Apache-2.0, and what these require.

| package | license | installed for |
| --- | --- | --- |
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Make the page from the packages of this environment."""
    rows = (f"| {name} | {license_of(name)} | {', '.join(uses)} |\n" for name, uses in sorted(packages().items()))
    return _HEAD + "".join(rows)


def packages() -> dict[str, list[str]]:
    """All packages by name, each with the extras that install it; ``dovetail`` stands for no extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"dovetail": project["dependencies"]}
    groups |= {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    found: dict[str, list[str]] = {}
    for group, requirements in groups.items():
        for name in closure(requirements):
            if "dovetail" not in found.setdefault(name, []):
                found[name].append(group)
    return found


def closure(requirements: list[str]) -> set[str]:
    """The packages of requirements, and those that these require."""
    names: set[str] = set()
    waiting = [one for one in map(Requirement, requirements) if one.marker is None or one.marker.evaluate()]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if str(requirement) in seen or name == "dovetail":
            continue
        seen.add(str(requirement))
        names.add(name)
        waiting += _required(name, requirement.extras)
    return names


def _required(name: str, extras: set[str]) -> Iterator[Requirement]:
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(requirement.marker.evaluate(one) for one in environments):
            yield requirement


def license_of(name: str) -> str:
    """The license of an installed package: its SPDX expression, a short text, or its classifiers."""
    described = metadata.metadata(name)
    values = (described[key] for key in ("License-Expression", "License") if key in described)
    short = next(values, "")
    if short not in ("", "UNKNOWN") and len(short) < 60 and "\n" not in short:
        return short
    classified = (one.split(" :: ") for one in described.get_all("Classifier") or ())
    return " or ".join(parts[-1] for parts in classified if parts[0] == "License") or "see the package"


if __name__ == "__main__":
    main()
