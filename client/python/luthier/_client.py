"""Calls to the coordinator: deadlines, retries with the same request, heartbeats. The C++ client's twin."""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Optional

from luthier import _security, _wire
from luthier._arguments import flag, text
from luthier._retry import LOCAL, ONCE, ORDINARY, Budget, Policy, Retry
from luthier._server import LocalServer, default_directory
from luthier._version import installed
from luthier.errors import LuthierError, Unavailable, Unimplemented, from_detail

ATTEMPT_SECONDS = 30.0
INFO = "GetServerInfo"  # The call that tells the version.
_HEARTBEAT_SECONDS = 10.0
_IDLE_SECONDS = 30.0  # So long the thread of heartbeats waits for leases before it ends.
_WATCH_SECONDS = 1800.0  # A watch is renewed now and then, so that one whose server forgot it can't hang for ever.
_MESSAGE_BYTES = 16 << 20
OPTIONS = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # A proxy meant for the web is never wanted.
    ("grpc.keepalive_time_ms", 10_000),  # After a partition calls would hang until their deadlines.
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]


if sys.version_info < (3, 10):
    # `subprocess` forks there, and gRPC's handlers of forks start threads in the child, whose descriptors are then
    # closed under them: one in ten programs that an objective ran was aborted. Later versions do not fork for programs.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def new_id() -> str:
    """Returns a fresh id for a request: one for each call, the same for its repetitions."""
    return str(uuid.uuid4())


class Client:
    """A connection to one coordinator, shared by all studies that are reached there. Any thread may use it."""

    def __init__(self, server: Optional[str], local: Optional[LocalServer], accept_plaintext: bool = False) -> None:
        self._server = server
        self._local = local
        self._closed = False
        self.accept_plaintext: bool = accept_plaintext  # For processes that are to have the same connection.
        self._metadata = _security.metadata() if local is None else ()
        if server is not None:
            _security.check_plaintext(server, self._metadata, accept_plaintext)
        self._budget = Budget()
        self._start()
        _all.add(self)

    @property
    def has_token(self) -> bool:
        """True if calls carry a token, which may be for another project than the default one."""
        return bool(self._metadata)

    def _start(self) -> None:
        """Begins without a channel: at first, and in a forked child, as channels do not survive a fork."""
        self._lock = threading.RLock()
        self._channel: Any = None
        self._generation = 0
        self._methods: dict[tuple[str, str, bool], Any] = {}
        self.beats: Heartbeats = Heartbeats(self)

    def target(self) -> str:
        """Returns the coordinator's address; one of our own is started where nobody serves its directory."""
        if self._local is not None:
            return self._local.target()
        assert self._server is not None
        return self._server

    def _stub(self, service: str, name: str, stream: bool = False) -> tuple[Any, int]:
        import grpc

        with self._lock:
            if self._closed:
                raise Unavailable("this connection was closed")
            check_process()
            if self._channel is None:
                self._channel = _security.channel(grpc, self.target(), OPTIONS)
                self._generation += 1
            key = (service, name, stream)
            if key not in self._methods:
                path, serialize, parse = _wire.method(service, name)
                make = self._channel.unary_stream if stream else self._channel.unary_unary
                self._methods[key] = make(path, request_serializer=serialize, response_deserializer=parse)
            return self._methods[key], self._generation

    def _reconnect(self, generation: int) -> None:
        """Drops a channel to a coordinator of a directory, which may be gone: the next call joins or starts one."""
        if self._local is None:
            return
        with self._lock:
            if generation != self._generation:
                return  # Another thread has.
            channel, self._channel, self._methods = self._channel, None, {}
        if channel is not None:
            channel.close()

    def call(
        self, service: str, name: str, request: Any, *, seconds: float = ATTEMPT_SECONDS, policy: Policy = ORDINARY
    ) -> Any:
        """Calls, again after errors that leave the outcome unknown, as `policy` has it. Raises LuthierError."""
        import grpc

        if policy is ORDINARY and self._local is not None:
            policy = LOCAL
        begin = time.monotonic()
        retry = Retry(policy, self._budget)
        while True:
            elapsed = time.monotonic() - begin
            left = seconds if policy is ONCE else max(0.1, min(seconds, policy.patience - elapsed))
            stub, generation = self._stub(service, name)
            try:
                reply = stub(request, timeout=left, metadata=self._metadata)
                self._budget.earn()
                return reply
            except grpc.RpcError as error:
                failure = translate(error)
            except ValueError as error:
                if "closed channel" not in str(error):
                    raise
                failure = Unavailable(str(error), code="UNAVAILABLE")
            wait = retry.wait_after(failure.code, failure.reason, failure.retry_delay, time.monotonic() - begin)
            if wait is None:
                raise self._lacking(service, name) if lacks(failure, name) else failure
            if failure.code in ("UNAVAILABLE", "CANCELLED"):
                self._reconnect(generation)
            time.sleep(wait)

    def _lacking(self, service: str, name: str) -> LuthierError:
        """Returns the error for a call that the coordinator does not know, with both versions."""
        try:
            info = self.call("WorkerService", INFO, _wire.message("GetServerInfoRequest")(), seconds=5.0, policy=ONCE)
        except LuthierError as error:
            return error
        return older(service, name, info.version)

    def stream(self, service: str, name: str, request: Any) -> Iterator[Any]:
        """Yields the messages of a call that streams them, until it ends. Raises LuthierError; does not try again."""
        import grpc

        stub, generation = self._stub(service, name, stream=True)
        call = stub(request, timeout=_WATCH_SECONDS, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            failure = translate(error)
            if failure.code == "UNAVAILABLE":
                self._reconnect(generation)
            raise failure from None
        finally:
            call.cancel()

    def close(self) -> None:
        """Ends the connection, and the coordinator if it is our own."""
        with self._lock:
            self._closed = True
            channel, self._channel, self._methods = self._channel, None, {}
        if channel is not None:
            channel.close()
        if self._local is not None:
            self._local.close()


def lacks(failure: LuthierError, name: str) -> bool:
    """Whether the coordinator does not know a call; of the one that tells its version nothing more can be said."""
    return isinstance(failure, Unimplemented) and name != INFO


def older(service: str, name: str, version: str) -> Unimplemented:
    """Returns the error for a call that a coordinator of this version does not know."""
    return Unimplemented(
        f"the coordinator has no call {service}.{name}: it is version {version}, and this package {installed()}; "
        "upgrade the coordinator",
        code="UNIMPLEMENTED",
    )


def check_process() -> None:
    """Raises Unavailable in a forked process whose calls would wait for ever."""
    if _orphaned:
        raise Unavailable(
            "this process was forked from one that had a connection, and gRPC does not serve it: start it by "
            '`optimize(processes=...)` or multiprocessing\'s "spawn", with Python 3.10 or newer, or with '
            "GRPC_ENABLE_FORK_SUPPORT=1"
        )


def translate(error: Any) -> LuthierError:
    """Returns the LuthierError for an RpcError."""
    code = error.code().name if error.code() is not None else "UNKNOWN"
    detail = None
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            detail = _parse_detail(value)
    return from_detail(code, error.details() or code, detail)


def _parse_detail(data: bytes) -> Optional[Any]:
    from google.protobuf.message import DecodeError

    try:
        return _wire.message("ErrorDetail").FromString(data)
    except DecodeError:
        return None  # Of a proxy on the way.


class _Held:
    """A lease that is kept alive."""

    def __init__(self, worker: str, ttl: float, tell: Callable[[str], None]) -> None:
        self.worker, self.ttl, self.tell = worker, ttl, tell
        self.put_off()

    def put_off(self) -> None:
        self.due = time.monotonic() + self.ttl / 3.0 * random.uniform(0.9, 1.1)


class Heartbeats:
    """One thread that keeps the leases of all trials of a connection alive, and hears what the service wants of
    them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._leases: dict[bytes, _Held] = {}
        self._thread: Optional[threading.Thread] = None
        self._looks_at = 0.0  # When the thread next looks at the leases by itself.

    def add(self, worker: str, token: bytes, ttl: float, tell: Callable[[str], None]) -> None:
        """Keeps a lease until `remove`; `tell` hears every directive."""
        with self._changed:
            held = self._leases[token] = _Held(worker, ttl, tell)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="luthier-heartbeats", daemon=True)
                self._thread.start()
            elif held.due < self._looks_at:  # Not for every trial: thousands a second would wake it for nothing.
                self._changed.notify()

    def remove(self, token: bytes) -> None:
        """Lets a lease go."""
        with self._changed:
            self._leases.pop(token, None)

    def _next(self) -> Optional[dict[str, list[tuple[bytes, _Held]]]]:
        """Waits until a beat is due; returns all leases by worker, or None where there are none any more."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = min((held.due for held in self._leases.values()), default=now + _IDLE_SECONDS)
                if due <= now:
                    break
                idle, self._looks_at = not self._leases, due
                if not self._changed.wait(due - now) and idle and not self._leases:
                    self._thread = None
                    return None
            by_worker: dict[str, list[tuple[bytes, _Held]]] = {}
            for token, held in self._leases.items():
                held.put_off()
                by_worker.setdefault(held.worker, []).append((token, held))
            return by_worker

    def _run(self) -> None:
        names = _wire.enum_names("HeartbeatResponse.Directive")
        while True:
            by_worker = self._next()
            if by_worker is None:
                return
            for worker, leases in by_worker.items():
                for begin in range(0, len(leases), 64):
                    some = leases[begin : begin + 64]
                    request = _wire.message("HeartbeatRequest")(worker=worker, tokens=[token for token, _ in some])
                    try:
                        reply = self._client.call(
                            "WorkerService", "Heartbeat", request, seconds=_HEARTBEAT_SECONDS, policy=ONCE
                        )
                    except LuthierError:
                        continue  # The next beat comes before the lease ends.
                    for (_, held), directive in zip(some, reply.directives):
                        held.tell(names.get(directive, "CONTINUE"))


_all: weakref.WeakSet[Client] = weakref.WeakSet()
_of_parents: list[Any] = (
    []
)  # Channels of processes that forked this one: to end them would wait for threads that are not here.
_orphaned = False  # Whether this process was forked from one with channels, by a gRPC without support for that.
_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def connect(server: Optional[str] = None, db: Optional[str] = None, accept_plaintext: bool = False) -> Client:
    """Returns the connection to a coordinator: `server`, else $LUTHIER_SERVER, else that of the directory `db`, which
    is started where nobody serves it. ValueError where both are given, for addresses that are none, and where the token
    would go to another machine in plain text without `accept_plaintext`."""
    accept_plaintext = flag("accept_plaintext", accept_plaintext)
    if server is not None and db is not None:
        raise ValueError("give server= or db=, not both")
    server = None if server is None else text("server", server)
    if server is None and db is None:
        server = os.environ.get("LUTHIER_SERVER") or None
    if server is not None:
        key = _security.check_address(server)
    else:
        place = text("db", os.fspath(db)) if db is not None else os.environ.get("LUTHIER_DB")
        key = os.path.abspath(place or default_directory())
    with _clients_lock:
        found = _clients.get(key)
        if found is not None and found._local is not None and found._local.gone():
            found.close()
            found = None
        if found is None:
            local = None if server is not None else LocalServer(key)
            found = _clients[key] = Client(server, local, accept_plaintext)
        return found


def close_all() -> None:
    """Ends all connections of this process, and the coordinators that it started. Studies in hand can't be used any
    more."""
    with _clients_lock:
        mine = list(_clients.values())
        _clients.clear()
    for client in mine:
        client.close()


def _after_fork() -> None:
    """A forked child makes channels of its own, and leaves its parent's coordinator alone."""
    global _clients_lock, _orphaned
    _clients_lock = threading.Lock()
    alone = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in ("0", "false", "no", "n", "f", "off")
    _orphaned = _orphaned or (alone and any(client._generation for client in _all))
    for client in list(_all):
        _of_parents.append((client._channel, client._methods))
        client._start()
        if client._local is not None:
            client._local.after_fork()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_all)
