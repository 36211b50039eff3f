"""A proxy in front of a Spark Connect server that refuses what serverless offers refuse, and counts requests.

Refused: settings that cannot be changed, cached rows, checkpoints, global temporary views, files for the server, and
plans above a size.  A refusal is an error of Spark's analysis, as theirs are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.code_pb2 import INTERNAL
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from pyspark.sql.connect.proto import base_pb2

MOST_BYTES = 128 * 1024  # of a request
CHANGEABLE = {"spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"}
STREAMED = ("ExecutePlan", "ReattachExecute")
STATEMENTS = ("SET ", "RESET", "CACHE ", "UNCACHE ", "CLEAR CACHE", "CREATE GLOBAL", "CREATE OR REPLACE GLOBAL")
_LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Refused(Exception):
    """A request that is not forwarded."""


class Proxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Forwards requests as they are, unless it refuses them."""

    def __init__(self, port: int) -> None:
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.largest, self._lenient = 0, False
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", _LIMITS)
        self._server = grpc.server(ThreadPoolExecutor(16), (self,), options=_LIMITS)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self) -> None:
        """Listen no more."""
        self._server.stop(None)

    @contextmanager
    def lenient(self) -> Iterator[None]:
        """Refuse nothing meanwhile, and count nothing: an administrator prepares tables and settings."""
        self._lenient = True
        try:
            yield
        finally:
            self._lenient = False

    def service(self, call: Any) -> Any:
        name = call.method.rpartition("/")[2]
        if name == "AddArtifacts":
            return grpc.stream_unary_rpc_method_handler(
                lambda _, context: self._refuse(context, "files for the server")
            )
        if name in STREAMED:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._streamed(name, call.method, request, context)
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._forward(
                name,
                request,
                context,
                lambda: self._channel.unary_unary(call.method)(request, metadata=_metadata(context)),
            )
        )

    def _streamed(self, name: str, method: str, request: bytes, context: Any) -> Iterator[bytes]:
        call = self._channel.unary_stream(method)
        answer = self._forward(name, request, context, lambda: call(request, metadata=_metadata(context)))
        try:
            yield from answer
        except grpc.RpcError as error:
            _fail(context, error)

    def _forward(self, name: str, request: bytes, context: Any, send: Callable[[], Any]) -> Any:
        if not self._lenient:
            self.counts[name] += 1
            self.largest = max(self.largest, len(request))
            try:
                self._check(name, request)
            except Refused as refused:
                self._refuse(context, str(refused))
        try:
            return send()
        except grpc.RpcError as error:
            _fail(context, error)

    def _check(self, name: str, request: bytes) -> None:
        if len(request) > MOST_BYTES:
            raise Refused("a plan above the limit")
        type_ = getattr(base_pb2, f"{name}Request", None)
        message: Any = type_.FromString(request) if type_ else None
        if name == "Config":
            operation = message.operation
            names = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
            if fixed := [key for key in names if key not in CHANGEABLE]:
                raise Refused(f"the setting {fixed[0]}")
        elif name == "AnalyzePlan" and message.WhichOneof("analyze") in ("persist", "unpersist"):
            raise Refused("cached rows")
        elif name == "ExecutePlan":
            _check_command(message.plan.command)

    @property
    def requests(self) -> int:
        """The requests that a client waits for."""
        return sum(self.counts[name] for name in ("ExecutePlan", "AnalyzePlan", "Config"))

    def _refuse(self, context: Any, what: str) -> None:
        self.refused[what] += 1
        names = ["org.apache.spark.sql.AnalysisException", "java.lang.Exception"]
        info = ErrorInfo(reason=names[0], domain="org.apache.spark", metadata={
            "classes": json.dumps(names), "errorClass": "NOT_SUPPORTED_WITH_SERVERLESS", "sqlState": "0A000",
        })  # fmt: skip
        detail = AnyMessage()
        detail.Pack(info)
        message = f"[NOT_SUPPORTED_WITH_SERVERLESS] This server does not take {what}. SQLSTATE: 0A000"
        context.abort_with_status(rpc_status.to_status(Status(code=INTERNAL, message=message, details=[detail])))


def _check_command(command: Any) -> None:
    kind = command.WhichOneof("command_type")
    if kind in ("checkpoint_command", "register_data_source"):
        raise Refused(f"the command {kind}")
    if kind == "create_dataframe_view" and command.create_dataframe_view.is_global:
        raise Refused("global temporary views")
    if kind == "sql_command":
        text = (command.sql_command.input.sql.query or command.sql_command.sql).lstrip().upper()
        if text.startswith(STATEMENTS):
            raise Refused(f"the statement {text.split()[0]}")


def _metadata(context: Any) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in context.invocation_metadata() if key != "user-agent"]


def _fail(context: Any, error: Any) -> None:
    context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
    context.abort(error.code(), error.details())
