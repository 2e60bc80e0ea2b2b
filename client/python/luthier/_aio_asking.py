"""Trials that are asked for, run and told in an event loop.

`_asking.py` is the same for threads, made from this file by client/python/make_sync.py.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union, overload

from luthier import _dynamic, _results, _wire
from luthier._aio_calls import Calls, calls_of
from luthier._arguments import number, representation, text, whole
from luthier._client import new_id
from luthier._frozen import FrozenTrial
from luthier._granted import UNCHANGED, Asked, Granted, Infeasible, State, Value
from luthier._notes import note, to_note
from luthier._progress import Progress
from luthier._retry import ASK, FINISH, Policy, Retry
from luthier._stored import Event, Stored, to_event
from luthier._tasks import called, result_of, to_the_end
from luthier.errors import (
    Forbidden,
    LeaseLost,
    LimitExceeded,
    LuthierError,
    MessageTooLarge,
    NotOpen,
    ParameterDiffers,
    Retry as PutBack,
    StudyFinished,
    TrialFinal,
    TrialPruned,
)
from luthier.space import Categorical, Domain, Float, Int, Parameter

Choice = TypeVar("Choice")
Catch = tuple[type[BaseException], ...]
_log = logging.getLogger("luthier")
_POLL_SECONDS = 30.0
_MOST_ASKED = 64  # One worker holds no more leases.
_HUNGRY_SECONDS = 10.0  # A program that waits longer for a trial says so.
_LOOK_SECONDS = 5.0  # Longest wait of an ask of `optimize` before it looks whether all is over.
_GROW = 100  # Trials by which a budget that nobody set is raised while a timeout decides.
_UNREACHED = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_GIVING_BACK = Policy(attempts=3, patience=2.0)


def _writable(value: Any) -> str:
    """Returns a text that UTF-8 can write, of a key that is none, too."""
    text = value if isinstance(value, str) else representation(value)
    return text.encode("utf-8", "backslashreplace").decode()


class Trial(Granted):
    """A trial that this program runs. Take its parameters with `suggest_float` and the like, or as `trial["lr"]`.

    async def objective(trial):
        lr = await trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        for epoch in range(1, 51):
            loss = train_one_epoch(lr)
            await trial.report(loss, step=epoch)
            if trial.should_stop():
                raise luthier.TrialPruned()
        return loss
    """

    _type_name = "luthier.aio.Trial"

    @property
    def _calls(self) -> Calls:
        return calls_of(self._study._client)

    # --- Parameters ---

    async def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None, log: bool = False
    ) -> float:
        """Returns the value of a number from `low` to `high`.

        The first trial of an open space that meets a name adds the parameter; a declared space has it already. Raises
        ParameterDiffers where the study has it with another range (`Study.update(space=...)` makes ranges wider),
        NotOpen where a declared space lacks it, KeyError where a condition rules it out in this trial.
        """
        return float(await self._suggest(name, Float(low, high, log=log, step=step)))

    async def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Returns the value of a whole number from `low` to `high`, both included. Errors as `suggest_float`."""
        return int(await self._suggest(name, Int(low, high, log=log, step=step)))

    async def suggest_categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        """Returns one of `choices`: texts, numbers, True, False or None. Errors as `suggest_float`."""
        chosen: Choice = await self._suggest(name, Categorical(choices))
        return chosen

    async def _suggest(self, name: str, domain: Domain) -> Any:
        study = self._study
        if isinstance(domain, (Float, Int)) and not domain.low < domain.high:  # In a space there is no such range.
            if not domain.low <= domain.high:
                raise ValueError(f"{name!r} has the range from {domain.low} to {domain.high}, which is empty")
            known = study._space.by_name.get(name)
            if study._open and (known is None or not known.accepts(study._space.spec_of(name, domain))):
                return await self._suggest_share(name, domain, known)
        spec = study._space.spec_of(name, domain)
        known = study._space.by_legal.get(spec.name)
        if known is not None and not known.accepts(spec):
            await asyncio.to_thread(study._refresh, ASK)  # Perhaps its range was made wider.
            known = study._space.by_legal[spec.name]
            if not study._open and not known.accepts(spec):
                raise ParameterDiffers(
                    f"parameter {name!r} has another kind or range in the space of study {study.name!r}"
                )
        if not study._open:
            if known is None:
                raise NotOpen(
                    f"the space of study {study.name!r} has no parameter {name!r}; "
                    f"it has {sorted(study._space.by_name)}"
                )
            return self[name]
        if known is not None and not known.accepts(spec) and await self._is_dynamic(known, spec, name, domain):
            assert isinstance(domain, (Float, Int))
            return await self._suggest_share(name, domain, known)
        self._asked.names.add((self._worker, spec.name))
        self._used.add(spec.name)
        if known is None or spec.name not in self._fields or not known.accepts(spec):
            request = _wire.message("DeclareParametersRequest")(
                trial=self.name, token=self._lease.token, parameters=[spec]
            )
            reply = await self._calls.call("WorkerService", "DeclareParameters", request, policy=ASK)
            self._fields[spec.name] = reply.parameters.fields[spec.name]
            if known is None:
                study._learn(spec)
        return Parameter(spec).decode(self._fields[spec.name])

    async def _is_dynamic(self, known: Parameter, spec: Any, name: str, domain: Domain) -> bool:
        """Whether a range that differs from the one that the study has is one that differs from trial to trial: that
        other trials of the same objective had the known one, or the share is a parameter already."""
        if not _dynamic.may_be_share(known, spec, domain):
            return False
        if _dynamic.share_of(name) in self._study._space.by_name:
            return True
        others = _dynamic.others_of(self._worker, self.number)
        if not others:
            return (self._worker, spec.name) in self._asked.names
        return await asyncio.to_thread(self._study._has_trials, _dynamic.STATES, others)

    async def _suggest_share(self, name: str, domain: Union[Float, Int], known: Optional[Parameter]) -> Any:
        """Returns the value of a parameter whose range is another one in each trial, or is one value."""
        given = None if known is None else self._fields.get(known.legal)
        if known is not None and given is not None and self._lease.trial.provenance.origin == "enqueued":
            value = known.decode(given)
            if domain.low <= value <= domain.high:  # The user's own setting.
                self._used.add(known.legal)
                return value
        share_name = _dynamic.share_of(name)
        if known is not None and name not in self._asked.dynamic:
            self._asked.dynamic.add(name)
            _log.info(
                "parameter %r of study %s has another range from trial to trial: the search chooses its share of the "
                "range, %r", name, self._study.name, share_name,
            )  # fmt: skip
        share = await self._suggest(share_name, Float(0.0, 1.0)) if domain.low < domain.high else 0.0
        value = _dynamic.value_of(share, domain)
        self._shared[name] = value
        await asyncio.to_thread(self._study.set_attributes, self.number, _dynamic.as_attributes(name, value))
        return value

    # --- Reports ---

    async def report(
        self,
        value: Optional[Value] = None,
        step: Optional[int] = None,
        *,
        metrics: Optional[Mapping[str, float]] = None,
        gradient: Optional[Mapping[str, Any]] = None,
        gradients: Optional[Mapping[str, Any]] = None,
        checkpoint: Optional[str] = None,
    ) -> str:
        """Reports a point of the learning curve and returns what the service says: CONTINUE, STOP, FINISH or PAUSE.

        With STOP the trial has ended, with FINISH somebody asks for its end: raise TrialPruned, and the last value
        stands. `should_stop()` is true for both.

        Steps default to one more than the last. `checkpoint` says where a later attempt can go on, in at most 1,024
        bytes. Of a step that had other values the first ones are kept, and of a curve 10,000 points; the log says so.
        Raises LeaseLost where the trial is somebody else's now.
        """
        m = self._measured(value, step, metrics, _results.gradients_of(gradient, gradients))
        request = _wire.message("ReportRequest")(trial=self.name, token=self._lease.token, measurements=[m])
        if checkpoint is not None:
            self._save(str(checkpoint), request)
        self._last = m
        try:
            reply = await self._calls.call("WorkerService", "Report", request, policy=FINISH)
        except LuthierError as error:
            return self._not_taken(error)
        return self._taken(reply)

    async def set_attribute(self, key: str, value: Any) -> None:
        """Stores a note with the trial: a text of at most 64 KiB; other values as JSON. One that can't be kept never
        costs the trial: it is left out, with a warning in the log."""
        await self._set(key, value, note)

    async def set_user_attr(self, key: str, value: Any) -> None:
        """Stores any JSON value with the trial, numbers and arrays of numpy, too; `user_attrs` gives it back. Of
        another value its text is kept, with a warning in the log."""
        await self._set(key, value, to_note)

    async def _set(self, key: str, value: Any, to_text: Callable[[Any], str]) -> None:
        try:
            written = to_text(value)
        except Exception:  # A value of a user's class may raise anything.
            written = value if isinstance(value, str) else representation(value)
            self._warn("attribute %r is %s, which JSON can't say: its text is kept", key, type(value).__name__)
        try:
            await asyncio.to_thread(self._study.set_attributes, self.number, {_writable(key): _writable(written)})
        except (*UNCHANGED, Forbidden) as error:
            self._warn("attribute %r is left out: %s", key, error)

    # --- Its end ---

    async def _complete(self, m: Any, *, pruned: bool = False, checkpoint: str = "") -> list[str]:
        """Ends the trial with a result; returns the service's warnings."""
        request = self._complete_request(m, pruned=pruned, checkpoint=checkpoint)
        reply = await _end(self, "Complete", request)
        return list(reply.warnings)

    async def _fail(self, reason: str, message: str, *, retry: bool = False) -> bool:
        """Ends the trial without a result; returns whether that is final."""
        reply = await _end(self, "Fail", self._fail_request(reason, message, retry=retry))
        for warning in reply.warnings:
            self._warn("%s", warning)
        return bool(reply.state != _wire.enum("Trial.State")["PENDING"])

    async def _release(self) -> None:
        """Gives the trial back, if that takes no more than some seconds."""
        request = _wire.message("ReleaseRequest")(trial=self.name, token=self._lease.token)
        self._pass_on(request)
        try:
            await _end(self, "Release", request, Policy(attempts=10, patience=5.0))
        except LuthierError:
            pass  # Its lease ends, and it is tried again.


async def _end(trial: Granted, method: str, request: Any, policy: Policy = FINISH) -> Any:
    """Ends a trial by one of the service's calls; returns its reply."""
    try:
        reply = await calls_of(trial._study._client).call("WorkerService", method, request, policy=policy)
    except UNCHANGED:
        raise
    except BaseException:
        trial._asked.forget(trial)
        raise
    trial._has_ended(request, reply)
    return reply


class Asking:
    """A study whose trials are asked for, told and followed."""

    _trial_type: type[Trial] = Trial
    _asked: Asked

    @property
    def _stored(self) -> Stored:
        return self._asked.study

    @property
    def _calls(self) -> Calls:
        return calls_of(self._stored._client)

    @overload
    async def ask(
        self, n: None = None, *, timeout: Optional[float] = None, worker: Optional[str] = None
    ) -> Optional[Trial]: ...

    @overload
    async def ask(self, n: int, *, timeout: Optional[float] = None, worker: Optional[str] = None) -> list[Trial]: ...

    async def ask(
        self, n: Optional[int] = None, *, timeout: Optional[float] = None, worker: Optional[str] = None
    ) -> Any:
        """Returns the next trial, or with `n` a list of 1 to `n` of them.

        Waits while all its trials run elsewhere. After `timeout` seconds (at least one), or when the study is done, or
        all that is left of it was asked for here and not told, returns None (an empty list). The trial's lease is kept
        alive until `tell`. Raises StudyPaused where somebody paused the study, or the service did as its trials fail.

            trial = await study.ask()
            await study.tell(trial, loss(trial["x"]))
        """
        wanted = 1 if n is None else whole("n", n)
        if not 0 < wanted <= _MOST_ASKED:
            raise ValueError(f"n is {n}: from 1 to {_MOST_ASKED} trials are asked for at a time")
        seconds = None if timeout is None else number("timeout", timeout)
        asker = self._asked.worker if worker is None else text("worker", worker)
        trials = await self._ask(wanted, seconds, asker, grow=100, alone=True) or []
        if n is not None:
            return trials
        return trials[0] if trials else None

    async def _ask(
        self, n: int, timeout: Optional[float], worker: str, grow: int, alone: bool = False
    ) -> Optional[list[Trial]]:
        """Returns trials, none where there is none in time; None where the study is done. Where the budget is spent and
        nobody set it, it is raised by `grow` trials. `alone`: the study is also done where this object holds all that
        is left."""
        stored = self._stored
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            longest = 1.0 if alone and self._asked.open else _POLL_SECONDS
            left = longest if deadline is None else min(longest, deadline - time.monotonic())
            request = _wire.message("SuggestRequest")(
                study=stored._path, worker=worker, count=n, request_id=new_id(), fail_if_paused=True
            )
            reply = await self._suggest(request, max(1.0, left))
            if reply.leases:
                return self._take_leases(reply, worker)
            if reply.study_done or (alone and await asyncio.to_thread(stored._is_held_by, self._asked.open)):
                if not await asyncio.to_thread(stored._more_room, grow):
                    return None
                continue
            await self._say_that_it_waits()
            if deadline is not None and time.monotonic() >= deadline:
                return []
            wait = reply.retry_after.seconds + 1e-9 * reply.retry_after.nanos
            await asyncio.sleep(min(max(wait, 0.01), 1.0))

    async def _say_that_it_waits(self) -> None:
        """Says once in the log what is waited for, where there has been no trial for ten seconds."""
        now = time.monotonic()
        if self._asked.hungry_since is None:
            self._asked.hungry_since = now
        if now - self._asked.hungry_since < _HUNGRY_SECONDS:
            return
        self._asked.hungry_since = math.inf
        message = await asyncio.to_thread(self._stored._refresh, ASK)
        most = message.spec.budget.max_parallel
        limit = f", at most {most} at a time (study.update(max_parallel=...))" if most else ""
        _log.warning(
            "study %s has had no trial to run for %d s: %d run elsewhere, %d wait%s",
            self._stored.name, _HUNGRY_SECONDS, message.trials.running, message.trials.pending, limit,
        )  # fmt: skip

    async def _suggest(self, request: Any, seconds: float) -> Any:
        """Returns the reply. Raises StudyPaused."""
        try:
            return await self._calls.call("WorkerService", "Suggest", request, seconds=seconds, policy=ASK)
        except LuthierError:
            raise
        except asyncio.CancelledError:  # A trial that was granted meanwhile is given back.
            await to_the_end(self._give_back(request))
            raise

    async def _give_back(self, request: Any) -> None:
        try:
            reply = await self._calls.call("WorkerService", "Suggest", request, seconds=1.0, policy=_GIVING_BACK)
            for lease in reply.leases:
                back = _wire.message("ReleaseRequest")(trial=lease.trial.name, token=lease.token)
                await self._calls.call("WorkerService", "Release", back, policy=_GIVING_BACK)
        except LuthierError:
            pass  # The lease ends by itself.

    def _take_leases(self, reply: Any, worker: str) -> list[Trial]:
        for lease in reply.leases:  # Leases bring the spec: the space may have grown.
            self._stored._learn_all(lease.spec.space)
        trials = [self._trial_type(self._asked, lease, worker) for lease in reply.leases]
        self._asked.take(trials)
        return trials

    async def tell(
        self,
        trial: Union[Trial, int],
        value: Optional[Union[Value, tuple[Any, Any]]] = None,
        *,
        gradient: Optional[Mapping[str, Any]] = None,
        gradients: Optional[Mapping[str, Any]] = None,
        standard_errors: Optional[Mapping[str, float]] = None,
        state: Optional[State] = None,
        error_bound: Optional[float] = None,
    ) -> list[str]:
        """Ends a trial with the value of the metric, or a dictionary of metrics, which has all that the study names.

        `gradient` has derivatives of the metric by parameters' names; one that is missing is unknown, not 0. In its place
        `gradients` has such a dictionary for each of several metrics, by name. `state` is "COMPLETE" (the default), "PRUNED" or "FAILED". A value that is not finite fails the trial. Metrics beside the
        study's that can't be kept are left out. Returns warnings: the service's, and what was left out. Raises
        LeaseLost where the trial is somebody else's now, ValueError and TypeError for other values.

            await study.tell(trial, 0.31, gradient={"l2": -2.0})
        """
        held = self._trial_of(trial)
        notes: _results.Notes = {}
        gradient = _results.gradients_of(gradient, gradients)
        request, method = held._tell_request(value, gradient, standard_errors, state, error_bound, notes)
        reply = await _end(held, method, request)
        return list(getattr(reply, "warnings", ())) + self._asked.note(held.number, notes)

    def _trial_of(self, trial: Union[Trial, int]) -> Any:
        return trial if isinstance(trial, Trial) else self._asked.by_number(trial)

    async def watch(self, *, after_seq: int = 0, until_finished: bool = True) -> AsyncIterator[Event]:
        """Yields the study's events in order, each once: first those stored, then those to come, across restarts of the
        coordinator. Ends after the event that finishes the study and its last trial, or never.

            async for event in study.watch():
                print(event.type, event.trial, event.value)
        """
        request = _wire.message("WatchStudyRequest")(
            name=self._stored._path, after_seq=after_seq, until_finished=until_finished
        )
        quiet, retry = 0.0, Retry(ASK)
        while True:
            try:
                async for e in self._calls.stream("StudyService", "WatchStudy", request):
                    quiet, retry = 0.0, Retry(ASK)
                    if e.seq <= request.after_seq:
                        continue  # Events from before the connection broke may come again.
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


class Run:
    """One call of `optimize`, on which several jobs may work: threads, or tasks of an event loop."""

    def __init__(
        self,
        study: Any,
        fn: Callable[[Trial], Any],
        n_trials: Optional[int],
        timeout: Optional[float],
        catch: Catch,
        callbacks: Sequence[Callable[[Any, FrozenTrial], Any]],
        objective: str = "",
        lines: Optional[Progress] = None,
    ) -> None:
        self.study, self.fn, self.catch, self.callbacks = study, fn, catch, callbacks
        self.objective, self.lines = objective, lines
        self.left = n_trials
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.lock = threading.Lock()
        self.stop = False
        self.running: dict[int, Trial] = {}

    def _take(self) -> bool:
        with self.lock:
            over = self.deadline is not None and time.monotonic() >= self.deadline
            if self.stop or over or (self.left is not None and self.left <= 0):
                return False
            if self.left is not None:
                self.left -= 1
            return True

    def _put_back(self) -> None:
        with self.lock:
            if self.left is not None:
                self.left += 1

    async def _ask(self, worker: str) -> Optional[Trial]:
        """Returns a trial; None where the study is done, the time is over, or another job said stop."""
        while not self.stop:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            if self.left is None:
                grow = 0 if self.deadline is None else _GROW
            else:
                grow = self.left + 1
            timeout = _LOOK_SECONDS if left is None else min(_LOOK_SECONDS, left)
            trials: Optional[list[Trial]] = await self.study._ask(1, timeout, worker, grow)
            if trials is None:
                return None
            if trials:
                return trials[0]
        return None

    async def work(self, worker: str) -> None:
        """Works in this job until all is done."""
        while self._take():
            trial = await self._ask(worker)
            if trial is None:
                self._put_back()
                return
            with self.lock:
                stop = self.stop
                if not stop:
                    self.running[trial.number] = trial
            if stop:  # It was granted while another job was interrupted.
                await trial._release()
                return
            counts = False
            if self.lines is not None:
                self.lines.starts(trial.number)
            try:
                counts = await self._run(trial)
            finally:
                with self.lock:
                    self.running.pop(trial.number, None)
                if self.lines is not None:
                    self.lines.ran(trial, counts)
            if not counts:
                self._put_back()
                continue
            if self.callbacks:
                frozen = await asyncio.to_thread(trial._study._trial, trial.number, ASK)
                for callback in self.callbacks:
                    await result_of(callback(self.study, frozen))

    async def _run(self, trial: Trial) -> bool:
        """Runs the objective on a trial and tells what came of it. False where the trial was lost or put back."""
        try:
            return await self._finish(trial)
        except (LeaseLost, TrialFinal, StudyFinished):
            return False
        finally:
            trial._asked.forget(trial)

    async def _finish(self, trial: Trial) -> bool:
        try:
            await _tell(trial, await called(self.fn, trial))
        except TrialPruned:
            if trial._malformed is not None:
                return await _fail_malformed(trial, trial._malformed)
            if trial._directive != "STOP":  # With STOP the service has pruned it.
                last = trial._last if trial._last is not None else _wire.message("Measurement")()
                for warning in await trial._complete(last, pruned=True):
                    trial._warn("%s", warning)
        except PutBack as error:
            return await trial._fail("RETRY", str(error), retry=True)
        except Infeasible as error:
            await trial._fail("INFEASIBLE", str(error))
        except (LeaseLost, TrialFinal, StudyFinished):
            raise
        except Exception as error:
            if error is trial._malformed:
                return await _fail_malformed(trial, error)
            memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
            if getattr(error, "code", "") not in _UNREACHED:  # Otherwise the lease expires: it is tried again.
                await trial._fail("MEMORY_LIMIT" if memory else "EXCEPTION", _tail(error))
            if not isinstance(error, self.catch):
                raise
        except BaseException:  # Ctrl-C, a task that is cancelled and the like: somebody else may try it.
            await to_the_end(trial._release())
            raise
        return True


async def _fail_malformed(trial: Trial, error: Exception) -> bool:
    """Ends a trial whose newest report can't be read, as one whose result can't be."""
    trial._warn_that_it_failed(f"it reported what is no result: {error}")
    await trial._fail("BAD_OUTPUT", str(error))
    return True


async def _tell(trial: Trial, result: Any) -> None:
    """Ends the trial with what the objective returned. A result that is none fails the trial, and the study goes on."""
    study = trial._study
    notes: _results.Notes = {}
    try:
        m = _results.final(study._space, study._metrics, result, trial._step, notes)
        trial._asked.note(trial.number, notes)
        for warning in await trial._complete(m, checkpoint=trial._checkpoint if trial.target_step else ""):
            trial._asked.warn(trial.number, warning)
    except (TypeError, ValueError, LimitExceeded, MessageTooLarge) as error:
        trial._warn_that_it_failed(error)
        await trial._fail("BAD_OUTPUT", str(error))


def _tail(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-4096:]
