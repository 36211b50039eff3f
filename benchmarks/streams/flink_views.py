"""A query of Apache Flink that stays up, in a process of its own on the Python of an environment that has PyFlink.

It reads one line of JSON: ``settings``, ``tables`` (statements) and ``query`` (a view of them).  It starts the query,
answers with a line that `live_flink.py` reads, and goes on until its input ends.  What the query prints goes to the
same output.
"""

from __future__ import annotations

import json
import os
import sys

from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, Schema, Table, TableDescriptor, TableEnvironment


def main() -> None:
    """One query."""
    job = json.loads(sys.stdin.readline())
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in job["settings"].items():
        env.get_config().set(name, value)
    for statement in job["tables"]:
        env.execute_sql(statement)
    sink = TableDescriptor.for_connector("print").schema(_columns(env.from_path(job["query"]))).build()
    env.create_temporary_table("printed", sink)
    client = env.execute_sql(f"INSERT INTO printed SELECT * FROM {job['query']}").get_job_client()
    print(f"answer {json.dumps({'jvm': get_gateway().jvm.ProcessHandle.current().pid()})}", flush=True)
    sys.stdin.read()
    client.cancel().result()
    os._exit(0)  # the gateway's threads would wait for more


def _columns(table: Table) -> Schema:
    schema = table.get_schema()
    return Schema.new_builder().from_fields(schema.get_field_names(), schema.get_field_data_types()).build()


if __name__ == "__main__":
    main()
