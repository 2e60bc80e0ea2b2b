"""Calls to the coordinator from an event loop: deadlines, and retries with the same request. The C++ client's twin.

`_calls.py` is the same for threads, made from this file by client/python/make_sync.py.
"""

from __future__ import annotations

import asyncio
import atexit
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any, Optional

from luthier import _security, _wire
from luthier._retry import INFO, LOCAL, ONCE, ORDINARY, Policy, Retry, lacks, older, translate
from luthier._server import Place, Tried, elsewhere
from luthier._tasks import Lock, breaks, to_unavailable
from luthier.errors import LuthierError, Unavailable

ATTEMPT_SECONDS = 30.0
_WATCH_SECONDS = 1800.0  # A watch is renewed now and then, so that one whose server forgot it can't hang for ever.


class Calls:
    """The calls of one event loop to a coordinator. The channel is made at the first call."""

    def __init__(self, place: Place) -> None:
        self.place: Place = place
        self.closed: bool = False  # For good.
        self.used: bool = False  # True if there has been a channel.
        self._lock = Lock()
        self._channel: Any = None
        self._address = ""  # The channel leads there.
        self._generation = 0  # Number of channels that were dropped.
        self._methods: dict[tuple[str, str, bool], Any] = {}

    async def _stub(self, service: str, name: str, stream: bool = False) -> tuple[Any, int]:
        import grpc.aio

        async with self._lock:
            if self.closed:
                raise Unavailable("this connection was closed")
            self.place.check_process()
            if self._channel is None:
                self._address = await asyncio.to_thread(self.place.address)
                self._channel = _security.channel(grpc.aio, self._address, self.place.several)
                self.used = True
            key = (service, name, stream)
            if key not in self._methods:
                path, serialize, parse = _wire.method(service, name)
                make = self._channel.unary_stream if stream else self._channel.unary_unary
                self._methods[key] = make(path, request_serializer=serialize, response_deserializer=parse)
            return self._methods[key], self._generation

    async def _reconnect(self, generation: int) -> None:
        """Drops a channel to a coordinator of a directory, which may be gone: the next call joins or starts one. Of
        several addresses the next call takes the next one."""
        if self.place.several and generation == self._generation:
            self.place.pass_on(self._address)
        if self.place.local is not None or self.place.several:
            await self.drop(generation)

    async def drop(self, generation: Optional[int] = None) -> None:
        """Ends the connection, where nobody has since it was `generation`; the next call makes another one."""
        async with self._lock:
            if generation not in (None, self._generation):
                return
            self._generation += 1
            channel, self._channel, self._methods = self._channel, None, {}
        if channel is not None:
            await channel.close()

    async def call(
        self, service: str, name: str, request: Any, *, seconds: float = ATTEMPT_SECONDS, policy: Policy = ORDINARY
    ) -> Any:
        """Calls, again after errors that leave the outcome unknown, as `policy` has it. Raises LuthierError."""
        import grpc

        if policy is ORDINARY and self.place.local is not None:
            policy = LOCAL
        begin = time.monotonic()
        retry: Optional[Retry] = None
        tried = Tried(self.place)
        while True:
            elapsed = time.monotonic() - begin
            left = seconds if policy is ONCE else max(0.1, min(seconds, policy.patience - elapsed))
            stub, generation = await self._stub(service, name)
            address = self._address
            try:
                reply = await stub(request, timeout=left, metadata=self.place.metadata)
                self.place.budget.earn()
                return reply
            except grpc.RpcError as error:
                failure = translate(error)
            except breaks() as error:
                failure = to_unavailable(error, current=generation == self._generation)
            moves = self.place.several and elsewhere(failure)
            if moves:
                await self._reconnect(generation)
                if tried.another(address, failure):
                    continue
                failure = tried.failure(failure)
            retry = retry or Retry(policy, self.place.budget)
            wait = retry.wait_after(failure.code, failure.reason, failure.retry_delay, time.monotonic() - begin)
            if wait is None:
                raise await self._lacking(service, name) if lacks(failure, name) else failure
            if failure.code in ("UNAVAILABLE", "CANCELLED") and not moves:
                await self._reconnect(generation)
            await asyncio.sleep(wait)

    async def _lacking(self, service: str, name: str) -> LuthierError:
        """Returns the error for a call that the coordinator does not know, with both versions."""
        request = _wire.message("GetServerInfoRequest")()
        try:
            info = await self.call("WorkerService", INFO, request, seconds=5.0, policy=ONCE)
        except LuthierError as error:
            return error
        return older(service, name, info.version)

    async def stream(self, service: str, name: str, request: Any) -> AsyncIterator[Any]:
        """Yields the messages of a call that streams them, until it ends. Raises LuthierError; does not try again."""
        import grpc

        stub, generation = await self._stub(service, name, stream=True)
        call = stub(request, timeout=_WATCH_SECONDS, metadata=self.place.metadata)
        try:
            async for message in call:
                yield message
        except grpc.RpcError as error:
            failure = translate(error)
            if failure.code == "UNAVAILABLE":
                await self._reconnect(generation)
            raise failure from None
        finally:
            call.cancel()


# --- Which loop has which calls: not for threads ---

_made: weakref.WeakSet[Calls] = weakref.WeakSet()
_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Calls]] = weakref.WeakKeyDictionary()


def calls_of(place: Place) -> Calls:
    """Returns the calls of the running loop to a coordinator; made at first use."""
    mine = _all.setdefault(asyncio.get_running_loop(), {})
    found: Optional[Calls] = mine.get(id(place))
    if found is None or found.place is not place:
        found = mine[id(place)] = Calls(place)
        _made.add(found)
    return found


async def close_mine() -> None:
    """Ends all connections of the running loop."""
    for calls in _all.pop(asyncio.get_running_loop(), {}).values():
        await calls.drop()


def _let_go() -> None:
    """Drops channels whose loops have ended: grpc complains of those that outlive its own modules."""
    for calls in list(_made):
        calls._channel, calls._methods = None, {}


atexit.register(_let_go)
