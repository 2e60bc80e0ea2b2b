"""The loop of `Study.optimize`: asks, runs the objective, tells what came of it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional

from luthier import _results, _wire
from luthier._fingerprint import new_worker
from luthier._progress import Progress
from luthier._retry import ASK
from luthier.errors import LeaseLost, LimitExceeded, MessageTooLarge, Retry, StudyFinished, TrialFinal, TrialPruned

if TYPE_CHECKING:
    from luthier.study import Study
    from luthier.trial import FrozenTrial, Trial

_log = logging.getLogger("luthier")
Catch = tuple[type[BaseException], ...]
_UNREACHED = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_POLL_SECONDS = 5.0  # So long an ask waits before it looks whether all is over.
_FAREWELL_SECONDS = 0.5  # So long an interrupt waits for threads that ask, which give back what they get.
_GROW = 100  # Trials by which a budget that nobody set is raised while a timeout decides.


class Infeasible(Exception):
    """The setting is not allowed: its result does not count, and the search learns to avoid its like."""


class Run:
    """One call of `optimize`, which several threads may work on."""

    def __init__(
        self,
        study: Study,
        fn: Callable[[Trial], Any],
        n_trials: Optional[int],
        timeout: Optional[float],
        catch: Catch,
        callbacks: Sequence[Callable[[Study, FrozenTrial], None]],
        objective: str = "",
        lines: Optional[Progress] = None,
    ) -> None:
        self.study, self.fn, self.catch, self.callbacks = study, fn, catch, callbacks
        self.objective, self.lines = objective, lines
        self.left = n_trials
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.lock = threading.Lock()
        self.stop = False
        self.errors: list[BaseException] = []
        self.running: dict[int, Trial] = {}

    def alone(self) -> None:
        """Works in this thread until all is done."""
        with _sigterm_raises():
            self._work()

    def beside(self) -> None:
        """Works in a thread of its own; the first error ends the others."""
        try:
            self._work()
        except BaseException as error:
            self.stop = True
            self.errors.append(error)

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

    def _ask(self, worker: str) -> Optional[Trial]:
        """Returns a trial; None where the study is done, the time is over, or another thread said stop."""
        while not self.stop:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            if self.left is None:
                grow = 0 if self.deadline is None else _GROW
            else:
                grow = self.left + 1
            timeout = _POLL_SECONDS if left is None else min(_POLL_SECONDS, left)
            trials = self.study._ask(1, timeout, worker, grow)
            if trials is None:
                return None
            if trials:
                return trials[0]
        return None

    def _work(self) -> None:
        worker = new_worker(self.objective)
        while self._take():
            trial = self._ask(worker)
            if trial is None:
                self._put_back()
                return
            with self.lock:
                stop = self.stop
                if not stop:
                    self.running[trial.number] = trial
            if stop:  # It was granted while another thread was interrupted.
                trial._release()
                return
            counts = False
            if self.lines is not None:
                self.lines.starts(trial.number)
            try:
                counts = run_trial(self.study, self.fn, trial, self.catch)
            finally:
                with self.lock:
                    self.running.pop(trial.number, None)
                if self.lines is not None:
                    tell_of(self.lines, trial, counts)
            if not counts:
                self._put_back()
                continue
            if self.callbacks:
                frozen = self.study._trial(trial.number, ASK)
                for callback in self.callbacks:
                    callback(self.study, frozen)


def tell_of(lines: Progress, trial: Trial, counts: bool) -> None:
    """Tells what became of a trial that ran here. One that the service ended has the last value that it reported."""
    outcome = trial._outcome
    if outcome is None and counts:
        metrics = trial._last.metrics if trial._last is not None else {}
        outcome = "PRUNED", (metrics[trial._study.metric] if trial._study.metric in metrics else None), ""
    if outcome is None or outcome[0] == "PENDING":
        lines.given_up(trial.number)
    else:
        lines.ended(trial.number, outcome[0], outcome[1], lambda: trial.params, outcome[2])


def in_threads(run: Run, n_jobs: int) -> None:
    """Works in `n_jobs` threads; raises the first error of one. Interrupted, gives their trials back."""
    count = n_jobs if n_jobs > 0 else (os.cpu_count() or 1)
    threads = [threading.Thread(target=run.beside, name=f"luthier-job-{i}", daemon=True) for i in range(count)]
    with _sigterm_raises():
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
        except BaseException:
            with run.lock:
                run.stop = True
                running = list(run.running.values())
            for trial in running:
                trial._release()
            deadline = time.monotonic() + _FAREWELL_SECONDS
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            raise
    if run.errors:
        raise run.errors[0]


def run_trial(study: Study, fn: Callable[[Trial], Any], trial: Trial, catch: Catch = ()) -> bool:
    """Runs an objective on a trial and tells what came of it. False where the trial was lost or put back."""
    try:
        return _run_trial(study, fn, trial, catch)
    except (LeaseLost, TrialFinal, StudyFinished):
        return False
    finally:
        study._forget(trial)


def _run_trial(study: Study, fn: Callable[[Trial], Any], trial: Trial, catch: Catch) -> bool:
    try:
        _tell(study, trial, _call(fn, trial))
    except TrialPruned:
        if trial._malformed is not None:
            return _fail_malformed(study, trial, trial._malformed)
        if trial._directive != "STOP":  # Else the service has pruned it.
            last = trial._last if trial._last is not None else _wire.message("Measurement")()
            for warning in trial._complete(last, pruned=True):
                trial._warn("%s", warning)
    except Retry as error:
        return trial._fail("RETRY", str(error), retry=True)
    except Infeasible as error:
        trial._fail("INFEASIBLE", str(error))
    except (LeaseLost, TrialFinal, StudyFinished):
        raise
    except Exception as error:
        if error is trial._malformed:
            return _fail_malformed(study, trial, error)
        memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
        reason = "MEMORY_LIMIT" if memory else "EXCEPTION"
        if getattr(error, "code", "") not in _UNREACHED:  # Else its lease ends by itself, and it is tried again.
            trial._fail(reason, _tail(error))
        if not isinstance(error, catch):
            raise
    except BaseException:  # Ctrl-C and the like: somebody else may try it.
        trial._release()
        raise
    return True


def _fail_malformed(study: Study, trial: Trial, error: Exception) -> bool:
    """Ends a trial whose newest report can't be read, as one whose result can't be."""
    _log.warning("trial %d of %s failed: it reported what is no result: %s", trial.number, study.name, error)
    trial._fail("BAD_OUTPUT", str(error))
    return True


def _tell(study: Study, trial: Trial, result: Any) -> None:
    """Ends the trial with what the objective returned. A result that is none fails the trial, and the study goes on."""
    notes: _results.Notes = {}
    try:
        m = _results.final(study._space, study.metric, result, trial._step, notes)
        study._note(trial.number, notes)
        for warning in trial._complete(m, checkpoint=trial._checkpoint if trial.target_step else ""):
            if warning not in study._noted:
                _log.warning("trial %d of %s: %s", trial.number, study.name, warning)
            if not warning.startswith("the user's setting"):  # Each of those is about a setting of its own.
                study._noted.add(warning)
    except (TypeError, ValueError, LimitExceeded, MessageTooLarge) as error:
        _log.warning("trial %d of %s failed: %s", trial.number, study.name, error)
        trial._fail("BAD_OUTPUT", str(error))


def _call(fn: Callable[[Trial], Any], trial: Trial) -> Any:
    """Calls the objective. A process that it forked never gets back here: the trial is the parent's."""
    try:
        return fn(trial)
    finally:
        if os.getpid() != trial._pid:
            sys.stdout.flush()
            error = sys.exc_info()[1]
            code = error.code if isinstance(error, SystemExit) else 0 if error is None else 1
            os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _leave(number: int, frame: Any) -> None:
    del frame
    raise SystemExit(128 + number)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Makes SIGTERM raise SystemExit, so that trials are given back; not where the program has a handler of its own."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


_forking = threading.local()


def _before_fork() -> None:
    """Keeps SIGTERM back until a process that the objective forks has no handler any more: a signal before that would
    be forgotten, and multiprocessing wait for ever for a child that it ended."""
    ours = signal.getsignal(signal.SIGTERM) is _leave
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if ours else None


def _after_fork() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    if _forking.mask is not None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def _tail(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-4096:]
