"""The loop of luthier.aio's `optimize`: asks, awaits the objective, tells what came of it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier import _results, _wire
from luthier._aio_trial import Trial
from luthier._fingerprint import new_worker
from luthier._optimize import _GROW, _POLL_SECONDS, _UNREACHED, Catch, _tail, tell_of
from luthier._progress import Progress
from luthier._retry import ASK
from luthier.errors import LeaseLost, LimitExceeded, MessageTooLarge, Retry, StudyFinished, StudyPaused, TrialFinal
from luthier.errors import TrialPruned
from luthier.trial import FrozenTrial

if TYPE_CHECKING:
    from luthier._aio_study import Study

_log = logging.getLogger("luthier")
_JOBS_OF_A_WORKER = 32  # One worker holds 64 leases at most.

Objective = Callable[[Trial], Union[Any, Awaitable[Any]]]


class Run:
    """One call of `optimize`, which several tasks work on."""

    def __init__(
        self,
        study: Study,
        fn: Objective,
        n_trials: Optional[int],
        timeout: Optional[float],
        catch: Catch,
        callbacks: Sequence[Callable[[Study, FrozenTrial], Any]],
        objective: str,
        lines: Progress,
    ) -> None:
        self.study, self.fn, self.catch, self.callbacks = study, fn, catch, callbacks
        self.objective, self.lines = objective, lines
        self.paused: Optional[StudyPaused] = None
        self.left = n_trials
        self.deadline = None if timeout is None else time.monotonic() + timeout

    async def work(self, worker: str) -> None:
        """Works until all is done."""
        while self.left is None or self.left > 0:
            if self.left is not None:
                self.left -= 1
            trial = await self._next(worker)
            if trial is None:
                if self.left is not None:
                    self.left += 1
                return
            counts = False
            self.lines.starts(trial.number)
            try:
                counts = await self._run(trial)
            finally:
                tell_of(self.lines, trial._trial, counts)
            if not counts:
                if self.left is not None:
                    self.left += 1
                continue
            if self.callbacks:
                frozen = await asyncio.to_thread(self.study.sync._trial, trial.number, ASK)
                for callback in self.callbacks:
                    await _value(callback(self.study, frozen))

    async def _next(self, worker: str) -> Optional[Trial]:
        """Returns a trial; None where the study is done or paused, or the time is over."""
        while self.paused is None:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            grow = (0 if self.deadline is None else _GROW) if self.left is None else self.left + 1
            timeout = _POLL_SECONDS if left is None else min(_POLL_SECONDS, left)
            try:
                trials = await self.study._ask(1, timeout, worker, grow)
            except StudyPaused as error:  # Trials of other tasks end first.
                self.paused = error
                return None
            if trials is None:
                return None
            if trials:
                return trials[0]
        return None

    async def _run(self, trial: Trial) -> bool:
        """Runs the objective on a trial and tells what came of it. False where the trial was lost or put back."""
        try:
            return await self._finish(trial)
        except (LeaseLost, TrialFinal, StudyFinished):
            return False
        finally:
            self.study.sync._forget(trial._trial)

    async def _finish(self, trial: Trial) -> bool:
        inner = trial._trial
        try:
            await self._tell(trial, await _value(self.fn(trial)))
        except TrialPruned:
            if inner._malformed is not None:
                return await self._fail_malformed(trial, inner._malformed)
            if inner._directive != "STOP":  # Else the service has pruned it.
                last = inner._last if inner._last is not None else _wire.message("Measurement")()
                for warning in await trial._complete(last, pruned=True):
                    inner._warn("%s", warning)
        except Retry as error:
            return await trial._fail("RETRY", str(error), retry=True)
        except (LeaseLost, TrialFinal, StudyFinished):
            raise
        except Exception as error:
            if error is inner._malformed:
                return await self._fail_malformed(trial, error)
            memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
            if getattr(error, "code", "") not in _UNREACHED:  # Else its lease ends by itself, and it is tried again.
                await trial._fail("MEMORY_LIMIT" if memory else "EXCEPTION", _tail(error))
            if not isinstance(error, self.catch):
                raise
        except BaseException:  # Cancelled: somebody else may try it.
            await to_the_end(trial._release())
            raise
        return True

    async def _fail_malformed(self, trial: Trial, error: Exception) -> bool:
        """Ends a trial whose newest report can't be read, as one whose result can't be."""
        _log.warning("trial %d of %s failed: it reported what is no result: %s", trial.number, self.study.name, error)
        await trial._fail("BAD_OUTPUT", str(error))
        return True

    async def _tell(self, trial: Trial, result: Any) -> None:
        """Ends the trial with what the objective returned. A result that is none fails the trial, and the study goes
        on."""
        inner, study = trial._trial, self.study.sync
        notes: _results.Notes = {}
        try:
            m = _results.final(study._space, study.metric, result, inner._step, notes)
            study._note(trial.number, notes)
            for warning in await trial._complete(m, checkpoint=inner._checkpoint if inner.target_step else ""):
                _log.warning("trial %d of %s: %s", trial.number, study.name, warning)
        except (TypeError, ValueError, LimitExceeded, MessageTooLarge) as error:
            _log.warning("trial %d of %s failed: %s", trial.number, study.name, error)
            await trial._fail("BAD_OUTPUT", str(error))


async def in_tasks(run: Run, jobs: int) -> None:
    """Works in `jobs` tasks; the first error of one cancels the others and goes on. Cancelled, gives their trials
    back."""
    jobs = jobs if run.left is None else min(jobs, run.left)
    workers = [new_worker(run.objective) for _ in range(0, jobs, _JOBS_OF_A_WORKER)]
    async with _sigterm_cancels():
        tasks = [asyncio.create_task(run.work(workers[i // _JOBS_OF_A_WORKER])) for i in range(jobs)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await to_the_end(asyncio.wait(tasks))
    if run.paused is not None:
        raise run.paused


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


async def _value(result: Any) -> Any:
    """Returns what a function returned, or its coroutine."""
    return await result if inspect.isawaitable(result) else result
