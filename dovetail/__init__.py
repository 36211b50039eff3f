"""Dovetail: finds the joins that Spark plans badly, rewrites them, explains itself, lets Spark run the result.

The public names, all in one place; ``optimizer`` has the same.

>>> from dovetail import Optimizer, Options
>>> opt = Optimizer(spark)                                        # doctest: +SKIP
>>> opt.plan("SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi").explain()   # doctest: +SKIP
"""

import dovetail.own_packages  # noqa: F401  # raises ImportError if other modules have their names
from optimizer import *  # noqa: F403  # exactly what optimizer.__all__ lists
from optimizer import __all__ as __all__
