"""What threads do otherwise than an event loop: how they run an objective and several jobs. `_tasks.py` is the other."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from luthier._fingerprint import new_worker
from luthier.errors import Unavailable

if TYPE_CHECKING:
    from luthier._asking import Run

_FAREWELL_SECONDS = 0.5  # An interrupt waits this long for asking threads, which give back what they get.

Lock = threading.RLock


def result_of(returned: Any) -> Any:
    """Returns what a function returned."""
    return returned


def called(fn: Callable[[Any], Any], trial: Any) -> Any:
    """Returns what an objective says of a trial. A process that it forked never gets back here: the trial is the
    parent's."""
    try:
        return fn(trial)
    finally:
        if os.getpid() != trial._pid:
            sys.stdout.flush()
            error = sys.exc_info()[1]
            code = error.code if isinstance(error, SystemExit) else 0 if error is None else 1
            os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def breaks() -> tuple[type[BaseException], ...]:
    """Returns the exceptions, beside gRPC's, that a call ends with whose channel is closed by another thread."""
    return (ValueError,)


def to_unavailable(error: BaseException, current: bool) -> Unavailable:
    """Returns one of them as an error after which calls are sent again. `current`: whether the channel is not closed.
    Raises those that mean something else."""
    del current  # The text says it.
    if "closed channel" not in str(error):
        raise error
    return Unavailable(str(error), code="UNAVAILABLE")


def alone(run: Run) -> None:
    """Works in this thread until all is done."""
    with _sigterm_raises():
        run.work(new_worker(run.objective))


def in_threads(run: Run, n_jobs: int) -> None:
    """Works in `n_jobs` threads; raises the first error of one. Interrupted, gives their trials back."""
    count = n_jobs if n_jobs > 0 else (os.cpu_count() or 1)
    errors: list[BaseException] = []

    def beside() -> None:
        """Works in a thread of its own; the first error ends the others."""
        try:
            run.work(new_worker(run.objective))
        except BaseException as error:
            run.stop = True
            errors.append(error)

    threads = [threading.Thread(target=beside, name=f"luthier-job-{i}", daemon=True) for i in range(count)]
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
    if errors:
        raise errors[0]


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
