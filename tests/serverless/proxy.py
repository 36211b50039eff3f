"""A proxy in front of a Spark Connect server that refuses what serverless offers refuse, and counts requests.

Refused: settings that cannot be changed, or requested by name, cached rows, checkpoints, global temporary views, files
for the server, and plans above a size.  A refusal is an error of Spark's analysis, as theirs are, or of gRPC.
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
READABLE = (
    "spark.python.sql.",
    "spark.connect.",
    "spark.sql.connect.",
    "spark.sql.execution.",
    "spark.sql.pyspark.",
    "spark.sql.session.",
    "spark.sql.timestampType",
)  # by name: PySpark does
COUNTED = ("ExecutePlan", "AnalyzePlan", "Config")
STREAMED = ("ExecutePlan", "ReattachExecute")
STATEMENTS = ("SET ", "RESET", "CACHE ", "UNCACHE ", "CLEAR CACHE", "CREATE GLOBAL", "CREATE OR REPLACE GLOBAL")
_LIMITS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_ping_strikes", 0),  # a client asks each minute whether the server lives
]


class Refused(Exception):
    """A request that is not forwarded."""


class Proxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Forwards requests as they are, unless it refuses them."""

    def __init__(self, port: int) -> None:
        self.requests: Counter[str] = Counter()  # that a client waits for, by kind
        self.refused: Counter[str] = Counter()
        self.largest, self._lenient, self._most_bytes = 0, False, MOST_BYTES
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

    @contextmanager
    def at_most(self, size: int) -> Iterator[None]:
        """Refuse requests of more bytes meanwhile."""
        self._most_bytes = size
        try:
            yield
        finally:
            self._most_bytes = MOST_BYTES

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
            self.largest = max(self.largest, len(request))
            if len(request) > self._most_bytes:
                message = f"gRPC message exceeds maximum size {self._most_bytes}: {len(request)}"
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
            try:
                self._check(name, request)
            except Refused as refused:
                self._refuse(context, str(refused))
        try:
            return send()
        except grpc.RpcError as error:
            _fail(context, error)

    def _check(self, name: str, request: bytes) -> None:
        type_ = getattr(base_pb2, f"{name}Request", None)
        message: Any = type_.FromString(request) if type_ else None
        if name in COUNTED:
            self.requests[kind_of(name, message)] += 1
        if name == "Config":
            operation = message.operation
            names = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
            if fixed := [key for key in names if key not in CHANGEABLE]:
                raise Refused(f"the setting {fixed[0]}")
            read = [*operation.get.keys, *operation.get_option.keys, *(p.key for p in operation.get_with_default.pairs)]
            if hidden := [key for key in read if key not in CHANGEABLE and not key.startswith(READABLE)]:
                raise Refused(f"a request for the setting {hidden[0]}")
        elif name == "AnalyzePlan" and message.WhichOneof("analyze") in ("persist", "unpersist"):
            raise Refused("cached rows")
        elif name == "ExecutePlan":
            _check_command(message.plan.command)

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


def kind_of(name: str, message: Any) -> str:
    """The kind of a request, such as ``explain`` or ``DESCRIBE``."""
    if name == "Config":
        return str(message.operation.WhichOneof("op_type"))
    if name == "AnalyzePlan":
        return str(message.WhichOneof("analyze"))
    kind = message.plan.root.WhichOneof("rel_type")
    if kind == "sql":
        return str(message.plan.root.sql.query.split()[0])
    return str(kind or message.plan.command.WhichOneof("command_type"))


def _metadata(context: Any) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in context.invocation_metadata() if key != "user-agent"]


def _fail(context: Any, error: Any) -> None:
    context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
    context.abort(error.code(), error.details())
