"""The former name of ``planner/connectors``, for programs that import sources of lookups from here."""

import sys

from planner.connectors import credentials, http, memory, postgres, source, spark_table, sqlite

for _module in (credentials, http, memory, postgres, source, spark_table, sqlite):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
