"""What an event loop does otherwise than threads: how it runs an objective and several jobs. `_threads.py` is the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from luthier._fingerprint import new_worker
from luthier.errors import StudyPaused, Unavailable

if TYPE_CHECKING:
    from luthier._aio_asking import Run

_log = logging.getLogger("luthier")
_JOBS_OF_A_WORKER = 32  # One worker holds 64 leases at most.

Lock = asyncio.Lock


async def result_of(returned: Any) -> Any:
    """Returns what a function returned, or what its coroutine does."""
    return await returned if inspect.isawaitable(returned) else returned


async def called(fn: Callable[[Any], Any], trial: Any) -> Any:
    """Returns what an objective says of a trial."""
    return await result_of(fn(trial))


async def to_the_end(work: Awaitable[Any]) -> None:
    """Waits for `work` even if this task is cancelled meanwhile, which it must know already or will hear again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except Exception as error:
            _log.warning("while trials were given back: %s", error)


def breaks() -> tuple[type[BaseException], ...]:
    """Returns the exceptions, beside gRPC's, that a call ends with whose channel is closed by another task."""
    import grpc.aio

    return grpc.aio.UsageError, asyncio.CancelledError


def to_unavailable(error: BaseException, current: bool) -> Unavailable:
    """Returns one of them as an error after which calls are sent again. `current`: whether the channel is not closed.
    Raises those that mean something else."""
    if not isinstance(error, asyncio.CancelledError):
        return Unavailable(str(error), code="UNAVAILABLE")
    task = asyncio.current_task()
    if current or (task is not None and getattr(task, "cancelling", int)()):
        raise error
    return Unavailable("the connection was dropped", code="CANCELLED")


async def in_tasks(run: Run, jobs: int) -> None:
    """Works in `jobs` tasks; the first error of one cancels the others and goes on. Cancelled, gives their trials
    back. Where the study is paused, trials that run end first."""
    jobs = jobs if run.left is None else min(jobs, run.left)
    workers = [new_worker(run.objective) for _ in range(0, jobs, _JOBS_OF_A_WORKER)]
    paused: list[StudyPaused] = []

    async def work(worker: str) -> None:
        try:
            await run.work(worker)
        except StudyPaused as error:
            run.stop = True
            paused.append(error)

    async with _sigterm_cancels():
        tasks = [asyncio.create_task(work(workers[i // _JOBS_OF_A_WORKER])) for i in range(jobs)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await to_the_end(asyncio.wait(tasks))
    if paused:
        raise paused[0]


@asynccontextmanager
async def _sigterm_cancels() -> AsyncIterator[None]:
    """Makes SIGTERM cancel this task and then end the program, so that trials are given back; not where the program has
    a handler of its own."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    loop, task, heard = asyncio.get_running_loop(), asyncio.current_task(), []

    def leave() -> None:
        heard.append(True)
        if task is not None:
            task.cancel()

    try:
        loop.add_signal_handler(signal.SIGTERM, leave)
    except NotImplementedError:  # A loop without signals.
        yield
        return
    try:
        yield
    except asyncio.CancelledError:
        if heard:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
