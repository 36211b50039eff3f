"""Checks on import that ``optimizer``, ``rules`` and ``planner`` are Dovetail's own packages.

The names are common.  Python would import a file ``planner.py`` next to a user's script in their place, and the failure
would come from deep inside.  Raises ``ImportError`` with the path of the other module.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("optimizer", "rules", "planner")


def check_packages() -> None:
    """Raise ``ImportError`` if a package is missing, or another module has its name."""
    for name in PACKAGES:
        spec = _spec(name)
        if spec is None:
            raise ImportError(
                f"Dovetail's package {name} cannot be imported: it is in no folder of sys.path; install Dovetail again"
            )
        place = spec.origin or next(iter(spec.submodule_search_locations or ()), "an unknown place")
        if Path(place).parent.parent != Path(__file__).parent.parent:
            raise ImportError(
                f"Dovetail's package {name} cannot be imported: Python finds {place}; "
                f"rename your own module {name}, or start Python in another folder"
            )


def _spec(name: str) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    return loaded.__spec__ if loaded and loaded.__spec__ else find_spec(name)


check_packages()
