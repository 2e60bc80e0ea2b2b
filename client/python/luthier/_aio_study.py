"""A study of an event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union, overload

from luthier import _results, _wire
from luthier._arguments import flag, number, whole
from luthier._aio_calls import Calls, calls_of
from luthier._aio_optimize import Objective, Run, in_tasks, to_the_end
from luthier._aio_trial import Trial
from luthier._fingerprint import fingerprint
from luthier._records import Event, Prediction, to_event
from luthier._retry import ASK, Policy, Retry
from luthier.errors import LuthierError
from luthier.study import IfChanged, Study as Threads, to_callbacks, to_catch
from luthier.trial import FrozenTrial, TrialState

_LONGEST_ASK = 30.0


class Study:
    """A study of the service, as luthier.Study; what calls the coordinator is awaited, properties too.

        print(await study.best_value)

    `sync` is the same study for threads. Every call may raise LuthierError; classes of luthier.errors say why.
    """

    def __init__(self, study: Threads) -> None:
        self.sync = study

    def __repr__(self) -> str:
        return f"<luthier.aio.Study {self.name!r}>"

    @property
    def name(self) -> str:
        """The study's id."""
        return self.sync.name

    @property
    def project(self) -> str:
        """The project that the study belongs to."""
        return self.sync.project

    @property
    def metric(self) -> str:
        """The metric that is optimized."""
        return self.sync.metric

    @property
    def direction(self) -> str:
        """Either "minimize" or "maximize"."""
        return self.sync.direction

    @property
    def _calls(self) -> Calls:
        return calls_of(self.sync._client)

    # --- Ask and tell ---

    @overload
    async def ask(
        self, n: None = None, *, timeout: Optional[float] = None, worker: Optional[str] = None
    ) -> Optional[Trial]: ...

    @overload
    async def ask(self, n: int, *, timeout: Optional[float] = None, worker: Optional[str] = None) -> list[Trial]: ...

    async def ask(
        self, n: Optional[int] = None, *, timeout: Optional[float] = None, worker: Optional[str] = None
    ) -> Any:
        """Returns the next trial, or with `n` a list of 1 to `n` of them; None (an empty list) when the study is done,
        or after `timeout` seconds. What it waits for, and its errors, are those of luthier.Study."""
        trials = await self._ask(*self.sync._ask_arguments(n, timeout, worker), grow=100, alone=True) or []
        if n is not None:
            return trials
        return trials[0] if trials else None

    async def _ask(
        self, n: int, timeout: Optional[float], worker: str, grow: int, alone: bool = False
    ) -> Optional[list[Trial]]:
        study = self.sync
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            longest = 1.0 if alone and study._open_trials else _LONGEST_ASK
            left = longest if deadline is None else min(longest, deadline - time.monotonic())
            reply = await self._suggest(study._suggest_request(n, worker), max(1.0, left))
            if reply.leases:
                return [Trial(self._calls, trial) for trial in study._take_leases(reply, worker)]
            if reply.study_done or (alone and await asyncio.to_thread(study._holds_the_rest)):
                if not await asyncio.to_thread(study._more_room, grow):
                    return None
                continue
            await asyncio.to_thread(study._say_that_it_waits)
            if deadline is not None and time.monotonic() >= deadline:
                return []
            wait = reply.retry_after.seconds + 1e-9 * reply.retry_after.nanos
            await asyncio.sleep(min(max(wait, 0.01), 1.0))

    async def _suggest(self, request: Any, seconds: float) -> Any:
        try:
            return await self._calls.call("WorkerService", "Suggest", request, seconds=seconds, policy=ASK)
        except asyncio.CancelledError:  # A trial that was granted meanwhile is given back.
            await to_the_end(self._give_back(request))
            raise

    async def _give_back(self, request: Any) -> None:
        short = Policy(attempts=3, patience=2.0)
        try:
            reply = await self._calls.call("WorkerService", "Suggest", request, seconds=1.0, policy=short)
            for lease in reply.leases:
                back = _wire.message("ReleaseRequest")(trial=lease.trial.name, token=lease.token)
                await self._calls.call("WorkerService", "Release", back, policy=short)
        except LuthierError:
            pass  # The lease ends by itself.

    async def tell(
        self,
        trial: Union[Trial, int],
        value: Any = None,
        *,
        gradient: Optional[Mapping[str, Any]] = None,
        standard_errors: Optional[Mapping[str, float]] = None,
        state: Optional[str] = None,
        error_bound: Optional[float] = None,
    ) -> list[str]:
        """Ends a trial with the value of the metric or a dictionary of metrics; returns the service's warnings.
        Arguments and errors are those of luthier.Study."""
        inner = self.sync._trial_of(trial if isinstance(trial, int) else trial._trial)
        notes: _results.Notes = {}
        request, method = self.sync._tell_request(inner, value, gradient, standard_errors, state, error_bound, notes)
        reply = await Trial(self._calls, inner)._end(method, request)
        return list(getattr(reply, "warnings", ())) + self.sync._note(inner.number, notes)

    # --- Optimize ---

    async def optimize(
        self,
        fn: Objective,
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        *,
        catch: Union[type[BaseException], tuple[type[BaseException], ...]] = (),
        callbacks: Iterable[Callable[[Study, FrozenTrial], Any]] = (),
        progress: Optional[Callable[[FrozenTrial], Any]] = None,
        show_progress_bar: Optional[bool] = None,
        if_changed: Optional[IfChanged] = None,
    ) -> Study:
        """Runs `fn` on `n_trials` more trials, in `n_jobs` tasks at a time (-1: one a core).

        `fn` gets a luthier.aio.Trial and returns, or is a coroutine that returns, what an objective of luthier.Study
        returns; callbacks may be coroutines, too. The first exception that is not in `catch` cancels the other tasks
        and goes on to the caller. Trials of tasks that are cancelled are given back. What is shown, what `if_changed`
        means and the errors are those of luthier.Study. Returns the study.
        """
        if not callable(fn):
            raise TypeError(f"the objective is {fn!r}: it is a function of a trial, or a coroutine function")
        n_trials = None if n_trials is None else whole("n_trials", n_trials)
        if n_trials is not None and n_trials <= 0:
            return self
        timeout = None if timeout is None else number("timeout", timeout)
        catches, every, n_jobs = to_catch(catch), to_callbacks(callbacks, progress), whole("n_jobs", n_jobs)
        show = None if show_progress_bar is None else flag("show_progress_bar", show_progress_bar)
        objective = fingerprint(fn)
        lines = await asyncio.to_thread(self.sync._begin, objective, n_trials, timeout, if_changed, show)
        if lines is None:
            return self
        run = Run(self, fn, n_trials, timeout, catches, every, objective, lines)
        try:
            await in_tasks(run, n_jobs if n_jobs > 0 else (os.cpu_count() or 1))
        finally:
            lines.end()
        await asyncio.to_thread(self.sync._say_why_it_ended, n_trials, run.left)
        return self

    # --- Trials and the study ---

    @property
    async def state(self) -> str:
        """ACTIVE, PAUSED, STOPPED, CANCELLED or COMPLETED, as it is now."""
        return await asyncio.to_thread(lambda: self.sync.state)

    @property
    async def state_reason(self) -> str:
        """Why it is in that state, for people."""
        return await asyncio.to_thread(lambda: self.sync.state_reason)

    @property
    async def spec(self) -> dict[str, Any]:
        """The study file as it is stored, as plain dictionaries and lists."""
        return await asyncio.to_thread(lambda: self.sync.spec)

    @property
    async def trials(self) -> list[FrozenTrial]:
        """All trials, in order of number."""
        return await asyncio.to_thread(lambda: self.sync.trials)

    @property
    async def best_trial(self) -> FrozenTrial:
        """The best COMPLETE trial. Raises ValueError while there is none."""
        return await asyncio.to_thread(lambda: self.sync.best_trial)

    @property
    async def best_value(self) -> float:
        """The best value of the metric. Raises ValueError while there is none."""
        return await asyncio.to_thread(lambda: self.sync.best_value)

    @property
    async def best_params(self) -> dict[str, Any]:
        """The setting of the best trial. Raises ValueError while there is none."""
        return await asyncio.to_thread(lambda: self.sync.best_params)

    async def get_trials(
        self,
        states: Iterable[Union[str, TrialState]] = (),
        *,
        filter: str = "",
        order_by: str = "",
        limit: Optional[int] = None,
    ) -> list[FrozenTrial]:
        """Returns all trials, or those in some states, in order of number. Arguments are those of luthier.Study."""
        return await asyncio.to_thread(self.sync.get_trials, states, filter=filter, order_by=order_by, limit=limit)

    async def trial(self, number: int) -> FrozenTrial:
        """Returns one trial, with its learning curve. Raises NotFound."""
        return await asyncio.to_thread(self.sync.trial, number)

    async def explain(self, number: int) -> dict[str, Any]:
        """Returns why a trial's setting was tried. Raises NotFound."""
        return await asyncio.to_thread(self.sync.explain, number)

    async def trials_dataframe(self, **options: Any) -> Any:
        """Returns the trials as a pandas data frame."""
        return await asyncio.to_thread(self.sync.trials_dataframe, **options)

    async def enqueue(self, params: Mapping[str, Any], attributes: Optional[Mapping[str, Any]] = None) -> FrozenTrial:
        """Adds a setting of the user's, which is tried before any suggestion."""
        return await asyncio.to_thread(self.sync.enqueue, params, attributes)

    async def add_trials(self, trials: Iterable[Any], *, source: str = "") -> list[int]:
        """Adds results from elsewhere. Returns their numbers."""
        return await asyncio.to_thread(self.sync.add_trials, trials, source=source)

    async def import_trials(self, source: Any, *, study_name: Optional[str] = None) -> list[int]:
        """Adds the results of a file or of another tool, and returns their numbers."""
        return await asyncio.to_thread(self.sync.import_trials, source, study_name=study_name)

    async def export(self, path: str, *, curves: bool = False) -> None:
        """Writes all trials to a file, in the form that its name says."""
        await asyncio.to_thread(self.sync.export, path, curves=curves)

    async def set_attributes(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Adds notes to a trial."""
        await asyncio.to_thread(self.sync.set_attributes, number, attributes)

    async def cancel_trial(self, number: int) -> None:
        """Cancels an open trial: its value, should one come, is not taken."""
        await asyncio.to_thread(self.sync.cancel_trial, number)

    async def stop_trial(self, number: int) -> None:
        """Ends a trial early and keeps its value."""
        await asyncio.to_thread(self.sync.stop_trial, number)

    async def delete_trial(self, number: int) -> None:
        """Takes a trial that has ended out of the study."""
        await asyncio.to_thread(self.sync.delete_trial, number)

    async def retry(self, numbers: Sequence[int] = ()) -> list[int]:
        """Tries trials again that failed; all of them where none is named. Returns the numbers of the new trials."""
        return await asyncio.to_thread(self.sync.retry, numbers)

    async def importance(self, metric: Optional[str] = None) -> dict[str, float]:
        """Returns the share of the metric's variance that each parameter explains, largest first."""
        return await asyncio.to_thread(self.sync.importance, metric)

    @overload
    async def predict(self, settings: Mapping[str, Any], *, at_seq: int = 0) -> Prediction: ...

    @overload
    async def predict(self, settings: Sequence[Mapping[str, Any]], *, at_seq: int = 0) -> list[Prediction]: ...

    async def predict(self, settings: Any, *, at_seq: int = 0) -> Any:
        """Returns what the study's model expects of a setting, or of each of a list of settings."""
        return await asyncio.to_thread(self.sync.predict, settings, at_seq=at_seq)

    async def update(self, **changes: Any) -> None:
        """Changes what may change: the budget, wider ranges, more labels, and what people read."""
        await asyncio.to_thread(self.sync.update, **changes)

    async def pause(self) -> None:
        """Grants no more trials until `resume`."""
        await asyncio.to_thread(self.sync.pause)

    async def resume(self) -> None:
        """Goes on."""
        await asyncio.to_thread(self.sync.resume)

    async def stop(self) -> None:
        """Ends the study: running trials may finish."""
        await asyncio.to_thread(self.sync.stop)

    async def cancel(self) -> None:
        """Ends the study and its running trials."""
        await asyncio.to_thread(self.sync.cancel)

    async def delete(self) -> None:
        """Removes the study and its trials for ever."""
        await asyncio.to_thread(self.sync.delete)

    async def watch(self, *, after_seq: int = 0, until_finished: bool = True) -> AsyncIterator[Event]:
        """Yields the study's events in order, each once, across restarts of the coordinator."""
        request = _wire.message("WatchStudyRequest")(
            name=self.sync._path, after_seq=after_seq, until_finished=until_finished
        )
        quiet, retry = 0.0, Retry(ASK)
        while True:
            try:
                async for e in self._calls.stream("StudyService", "WatchStudy", request):
                    quiet, retry = 0.0, Retry(ASK)
                    if e.seq <= request.after_seq:
                        continue  # What came before the connection broke may come again.
                    request.after_seq = e.seq
                    yield to_event(e)
                if until_finished:
                    return
            except LuthierError as error:
                wait = retry.wait_after(error.code, error.reason, error.retry_delay, quiet)
                if wait is None:
                    raise
                quiet += wait
                await asyncio.sleep(wait)
