"""Calls to the coordinator from an event loop: the same retries as of threads, by `grpc.aio`."""

from __future__ import annotations

import asyncio
import atexit
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any, Optional

from luthier import _security, _wire
from luthier._client import ATTEMPT_SECONDS, OPTIONS, Client, check_process, lacks, translate
from luthier._retry import LOCAL, ONCE, ORDINARY, Policy, Retry
from luthier.errors import Unavailable

_WATCH_SECONDS = 1800.0


class Calls:
    """The calls of one event loop to the coordinator of a Client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._channel: Any = None
        self._generation = 0
        self._methods: dict[tuple[str, str], Any] = {}
        self._opening = asyncio.Lock()
        _made.add(self)

    async def _stub(self, service: str, name: str, stream: bool = False) -> tuple[Any, int]:
        key = (service, name)
        found = self._methods.get(key)
        if found is not None:
            return found, self._generation
        check_process()
        async with self._opening:
            if self._channel is None:
                import grpc.aio

                target = await asyncio.to_thread(self.client.target)
                self._channel = _security.channel(grpc.aio, target, OPTIONS)
            path, serialize, parse = _wire.method(service, name)
            make = self._channel.unary_stream if stream else self._channel.unary_unary
            self._methods[key] = make(path, request_serializer=serialize, response_deserializer=parse)
            return self._methods[key], self._generation

    async def _reconnect(self, generation: int) -> None:
        """Drops a channel to a coordinator of a directory, which may be gone: the next call joins or starts one."""
        if self.client._local is None or generation != self._generation or self._channel is None:
            return
        self._generation += 1
        await self.close()

    async def call(
        self, service: str, name: str, request: Any, *, seconds: float = ATTEMPT_SECONDS, policy: Policy = ORDINARY
    ) -> Any:
        """Calls, again after errors that leave the outcome unknown, as `policy` has it. Raises LuthierError."""
        import grpc

        if policy is ORDINARY and self.client._local is not None:
            policy = LOCAL
        begin = time.monotonic()
        retry: Optional[Retry] = None
        while True:
            left = seconds if policy is ONCE else max(0.1, min(seconds, policy.patience - (time.monotonic() - begin)))
            stub, generation = await self._stub(service, name)
            try:
                reply = await stub(request, timeout=left, metadata=self.client._metadata)
                self.client._budget.earn()
                return reply
            except grpc.RpcError as error:
                failure = translate(error)
            except grpc.aio.UsageError as error:  # Another task has closed the channel.
                failure = Unavailable(str(error), code="UNAVAILABLE")
            except asyncio.CancelledError:
                task = asyncio.current_task()  # Closing a channel cancels its calls, too.
                if generation == self._generation or (task is not None and getattr(task, "cancelling", int)()):
                    raise
                failure = Unavailable("the connection was dropped", code="CANCELLED")
            retry = retry or Retry(policy, self.client._budget)
            wait = retry.wait_after(failure.code, failure.reason, failure.retry_delay, time.monotonic() - begin)
            if wait is None:
                if lacks(failure, name):
                    raise await asyncio.to_thread(self.client._lacking, service, name)
                raise failure
            if failure.code in ("UNAVAILABLE", "CANCELLED"):
                await self._reconnect(generation)
            await asyncio.sleep(wait)

    async def stream(self, service: str, name: str, request: Any) -> AsyncIterator[Any]:
        """Yields the messages of a call that streams them, until it ends. Raises LuthierError; does not try again."""
        import grpc

        stub, generation = await self._stub(service, name, stream=True)
        call = stub(request, timeout=_WATCH_SECONDS, metadata=self.client._metadata)
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

    async def close(self) -> None:
        """Ends the connection of this loop."""
        channel, self._channel, self._methods = self._channel, None, {}
        if channel is not None:
            await channel.close()


_made: weakref.WeakSet[Calls] = weakref.WeakSet()
_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Calls]] = weakref.WeakKeyDictionary()


def calls_of(client: Client) -> Calls:
    """Returns the calls of the running loop to a coordinator; made at first use."""
    mine = _all.setdefault(asyncio.get_running_loop(), {})
    found: Optional[Calls] = mine.get(id(client))
    if found is None or found.client is not client:
        found = mine[id(client)] = Calls(client)
    return found


async def close_mine() -> None:
    """Ends all connections of the running loop."""
    for calls in _all.pop(asyncio.get_running_loop(), {}).values():
        await calls.close()


def _let_go() -> None:
    """Drops channels whose loops have ended: grpc complains of those that outlive its own modules."""
    for calls in list(_made):
        calls._channel, calls._methods = None, {}


atexit.register(_let_go)
