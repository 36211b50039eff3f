"""Jobs of Apache Flink, in a process of its own on the Python of an environment that has PyFlink.

It reads a job as a line of JSON: ``settings``, ``tables`` (statements) and ``insert``; and answers with a line that
`children.py` reads. All jobs share one JVM; each has a cluster of its own in it.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    """One job for each line."""
    for line in sys.stdin:
        job = json.loads(line)
        start = perf_counter()
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for name, value in job["settings"].items():
            env.get_config().set(name, value)
        for statement in job["tables"]:
            env.execute_sql(statement)
        client = env.execute_sql(job["insert"]).get_job_client()
        ran = client.get_job_execution_result().result().get_net_runtime() / 1000
        answer = {"seconds": perf_counter() - start, "ran": ran, "jvm": get_gateway().jvm.ProcessHandle.current().pid()}
        print(f"answer {json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
