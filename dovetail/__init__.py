"""Dovetail: finds the joins that Spark plans badly, rewrites them, explains itself, lets Spark run the result.

The public names, which are imported when the first of them is used: a Python worker of Spark that loads a part of
Dovetail does not load all of it.

>>> from dovetail import Optimizer, Options
>>> opt = Optimizer(spark)                                        # doctest: +SKIP
>>> opt.plan("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").explain()   # doctest: +SKIP

In the repository the packages lie beside this one, and the links in this folder give them the names that an
installation gives them: ``dovetail.optimizer`` is ``optimizer/``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.optimizer import *  # noqa: F403  # exactly what optimizer.__all__ lists
    from dovetail.optimizer import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Return a public name of ``dovetail.optimizer``."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    optimizer = import_module("dovetail.optimizer")
    if name == "__all__":
        return optimizer.__all__
    if name not in optimizer.__all__:
        raise AttributeError(f"module 'dovetail' has no attribute {name!r}")
    return getattr(optimizer, name)


def load_ipython_extension(ipython: Any) -> None:
    """Register the cell magic ``%%dovetail``; ``%load_ext dovetail`` calls this."""
    from dovetail.optimizer.notebook import register_magic

    register_magic(ipython)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted(import_module("dovetail.optimizer").__all__)
