"""Opens PostgreSQL connections; they share the driver's type catalog of a server, and connect concurrently."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from dovetail.executor.connectors.conninfo import format_conninfo, secret_values

CONNECT_SECONDS = 30  # default, unless the connection string or PGCONNECT_TIMEOUT sets it
_SERVERS = 8


class _Database:
    """The driver's type catalog of a server, which takes longer to read than a connection to open."""

    def __init__(self, database: Any) -> None:
        self.database = database

    def clone(self) -> _Database:
        return self

    def close(self) -> None:
        """Do nothing: a connection closes its database, but this one is shared and holds no connection."""


# By the parameters without secrets, so a credential that changes every hour has one entry, with the last token.
_databases: OrderedDict[str, tuple[str, _Database]] = OrderedDict()
_looking = threading.Lock()  # guards the dictionary, and is never held during a connect


def connect(parameters: Mapping[str, str]) -> Any:
    """Open a connection.  Raises the driver's error if there is none within ``connect_timeout``."""
    import adbc_driver_manager
    import adbc_driver_manager.dbapi
    import adbc_driver_postgresql

    limited = dict(parameters)
    if "PGCONNECT_TIMEOUT" not in os.environ:
        limited.setdefault("connect_timeout", str(CONNECT_SECONDS))
    hidden = secret_values(limited)
    server = format_conninfo({name: value for name, value in limited.items() if value not in hidden})
    uri = format_conninfo(limited)
    with _looking:
        known = _databases.get(server)
    if known is None or known[0] != uri:
        known = (uri, _Database(adbc_driver_postgresql.connect(uri)))
    connection = adbc_driver_manager.AdbcConnection(known[1].database)
    with _looking:
        _databases[server] = known
        _databases.move_to_end(server)
        while len(_databases) > _SERVERS:
            _databases.popitem(last=False)
    return adbc_driver_manager.dbapi.Connection(known[1], connection, autocommit=True)  # type: ignore[arg-type]
