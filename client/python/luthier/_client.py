"""Connections to coordinators, one for each, with the heartbeats of the trials that are held there."""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Optional

from luthier import _security, _wire
from luthier._arguments import flag, text
from luthier._calls import ATTEMPT_SECONDS, Calls
from luthier._retry import ONCE, ORDINARY, Policy
from luthier._server import LocalServer, Place, default_directory
from luthier.errors import LuthierError

_HEARTBEAT_SECONDS = 10.0
_IDLE_SECONDS = 30.0  # The thread of heartbeats ends after this time without leases.

if sys.version_info < (3, 10):
    # `subprocess` forks there, and gRPC's handlers of forks start threads in the child, whose descriptors are then
    # closed under them: one in ten programs that an objective ran was aborted. Later versions do not fork for programs.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def new_id() -> str:
    """Returns a fresh id for a request: one for each call, the same for its repetitions."""
    return str(uuid.uuid4())


class Client(Place):
    """A connection to one coordinator, shared by all studies that are reached there. Any thread may use it."""

    def __init__(self, server: Optional[str], local: Optional[LocalServer], accept_plaintext: bool = False) -> None:
        super().__init__(server, local, accept_plaintext)
        self._start()
        _all.add(self)

    def _start(self) -> None:
        """Begins without a channel: at first, and in a forked child, as channels do not survive a fork."""
        self.calls: Calls = Calls(self)
        self.beats: Heartbeats = Heartbeats(self)

    def call(
        self, service: str, name: str, request: Any, *, seconds: float = ATTEMPT_SECONDS, policy: Policy = ORDINARY
    ) -> Any:
        """Calls, again after errors that leave the outcome unknown, as `policy` has it. Raises LuthierError."""
        return self.calls.call(service, name, request, seconds=seconds, policy=policy)

    def close(self) -> None:
        """Ends the connection, and the coordinator if it is our own."""
        self.calls.closed = True
        self.calls.drop()
        if self.local is not None:
            self.local.close()


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
# Calls of the process that forked this one: closing their channels would wait for threads that are not here.
_of_parents: list[Calls] = []
_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def connect(server: Optional[str] = None, db: Optional[str] = None, accept_plaintext: bool = False) -> Client:
    """Returns the connection to a coordinator: `server`, else $LUTHIER_SERVER, else that of the directory `db`, which
    is started where nobody serves it. ValueError where both are given, for empty ones and invalid addresses, and
    where the token would go to another machine in plain text without `accept_plaintext`."""
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
        if db is not None and not place:
            raise ValueError("db is '', as a setting that is missing is; give it a directory, or leave it out")
        key = os.path.abspath(place or default_directory())
    with _clients_lock:
        found = _clients.get(key)
        if found is not None and found.local is not None and found.local.gone():
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
    global _clients_lock
    _clients_lock = threading.Lock()
    alone = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in ("0", "false", "no", "n", "f", "off")
    Place.orphaned = Place.orphaned or (alone and any(client.calls.used for client in _all))
    for client in list(_all):
        closed = client.calls.closed
        _of_parents.append(client.calls)
        client._start()
        client.calls.closed = closed
        if client.local is not None:
            client.local.after_fork()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_all)
