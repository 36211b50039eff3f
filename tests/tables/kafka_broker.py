"""A Kafka broker of one process, which is its own controller (KRaft), on free ports of this machine."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/logs
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
"""
_CLUSTER = "ZG92ZXRhaWwtdGVzdHMtMQ"


class Broker:
    """A broker with its files in a folder; it can be killed, and started again with the same files and ports."""

    def __init__(self, folder: Path, jars: list[str]) -> None:
        self.port, controller = _free_port(), _free_port()
        self.servers = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True)
        self._settings, self._log = folder / "server.properties", folder / "broker.log"
        self._settings.write_text(_SETTINGS.format(port=self.port, controller=controller, folder=folder))
        self._java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", ":".join(jars)]
        format_ = [*self._java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._settings)]
        subprocess.run(format_, check=True, capture_output=True, timeout=120)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker, and wait until it takes connections."""
        with self._log.open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise TimeoutError("The broker did not start: " + self._log.read_text()[-2000:])

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
