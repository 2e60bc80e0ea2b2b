"""What is said while trials run: a line a trial in the log, and one line that is written over on terminals and in
notebooks."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from luthier._goals import beyond, surpasses

if TYPE_CHECKING:
    from luthier._granted import Granted
    from luthier._stored import Stored

_log = logging.getLogger("luthier")
_SECONDS = 0.1  # Between two writings of the line.
_EQUAL_RESULTS = 10  # At so many results, all equal, the user is warned.
_PLAIN_SECONDS = 5.0  # The same where each writing is a line of its own.
_ENDED = ("COMPLETE", "PRUNED", "FAILED", "CANCELLED")


def place_of(study: Stored) -> str:
    """Returns where a study is kept: a directory, or a server."""
    local = study._client.local
    if local is None:
        return str(study._client.server)
    relative = os.path.relpath(local.directory)
    return local.directory if relative.startswith("..") else os.path.join(".", relative)


class Progress:
    """Tells of the trials of one call. `show`: whether the line is written; None: on terminals and in notebooks, where
    the log does not say the same. Any thread may tell."""

    def __init__(self, study: Stored, show: Optional[bool]) -> None:
        self._study, self._lock = study, threading.Lock()
        self._stream = sys.stderr
        self._over = _is_screen(self._stream)
        self._show = show if show is not None else self._over and not _log_is_heard()
        self._total: Optional[int] = None
        self._done = self._failed = self._width = 0
        self._best: Optional[float] = None
        self._best_trial = 0
        self._signs = [-1.0 if goal == "maximize" else 1.0 for goal in study.goals.values()]
        self._front: list[list[float]] = []  # With several objectives: their values in trials that none surpasses.
        self._beyond = 0  # COMPLETE trials beyond a bound.
        self._as_good: list[tuple[int, float]] = []  # Trials that were the best one, if as good as it to six digits.
        self._alike: Optional[tuple[float, Any, int]] = None  # Value and settings of the first result; how many are equal.
        self._differ = self._settings_differ = False  # Results, and settings of the equal ones.
        self._running: list[int] = []
        self._begin = time.monotonic()
        self._drawn = -1e9

    def begin(self, there: int, more: Optional[int], until: str) -> None:
        """Says what is about to happen: so many trials are there, and so many more come, or `until` something."""
        try:
            if len(self._signs) > 1:
                if self._show or _log.isEnabledFor(logging.INFO):
                    self._front = [trial.values for trial in self._study.front if trial.values is not None]
            else:
                self._best_trial, self._best = self._study._best_result(self._study._message)
                self._as_good, self._differ = [(self._best_trial, self._best)], True
        except ValueError:
            pass  # There is none yet.
        self._total = more
        more_text = f"{more} more" if more is not None else f"more {until}"
        page = self._study._page()
        seen = f"; its page: {page}" if page is not None else ""
        self._say(f"study {self._study._full_name} in {place_of(self._study)}: {there} trials there, {more_text}{seen}")

    def _say(self, text: str) -> None:
        _log.info("%s", text)
        if self._show:
            self._stream.write(text + "\n")
            self._draw()

    def starts(self, number: int) -> None:
        """Hears that a trial begins."""
        with self._lock:
            self._running.append(number)
            if self._show:
                self._draw()

    def ended(self, number: int, state: str, metrics: Mapping[str, float], params: Any, why: str) -> None:
        """Hears that a trial has ended; `why` says it of one that failed. `params` is a function."""
        value = metrics.get(self._study.metric)
        outside = beyond(self._study._spec, metrics) if state == "COMPLETE" else []
        with self._lock:
            if number in self._running:
                self._running.remove(number)
            self._done += 1
            self._failed += state == "FAILED"
            self._beyond += bool(outside)
            if state == "COMPLETE" and value is not None:
                if not outside:
                    self._take(number, value, metrics)
                if not self._differ:
                    self._compare(value, params())
            if _log.isEnabledFor(logging.INFO):
                result = why if state == "FAILED" else self._result(metrics, outside)
                _log.info(
                    "trial %d of %s: %s, %s, with %s; %s",
                    number, self._study.name, state, result, params(), self._best_text(),
                )  # fmt: skip
            if self._show:
                self._draw()

    def _take(self, number: int, value: float, metrics: Mapping[str, float]) -> None:
        """Takes note of a feasible result."""
        if len(self._signs) > 1:
            values = [metrics[name] for name in self._study.goals if name in metrics]
            if not any(surpasses(self._signs, other, values) for other in self._front):
                self._front = [other for other in self._front if not surpasses(self._signs, values, other)] + [values]
        elif self._best is None or self._signs[0] * value < self._signs[0] * self._best:
            self._best, self._best_trial = value, number
            self._as_good.append((number, value))
            self._as_good = [(n, v) for n, v in self._as_good if abs(v - value) <= _half_digit(value)]

    def _result(self, metrics: Mapping[str, float], outside: list[str]) -> str:
        told = ", ".join(f"{name} = {_short(metrics.get(name))}" for name in self._study.goals)
        return told + (f" (beyond a bound: {'; '.join(outside)})" if outside else "")

    def _compare(self, value: float, params: Any) -> None:
        first, setting, count = self._alike or (value, params, 0)
        self._differ = value != first
        self._settings_differ = self._settings_differ or params != setting
        self._alike = (first, setting, count + 1)

    def ran(self, trial: Granted, counts: bool) -> None:
        """Hears of a trial that ran here. One that the service ended has the last value that it reported."""
        outcome = trial._outcome
        if outcome is None and counts:
            outcome = "PRUNED", (dict(trial._last.metrics) if trial._last is not None else {}), ""
        if outcome is None or outcome[0] == "PENDING":
            self.given_up(trial.number)
        else:
            self.ended(trial.number, outcome[0], outcome[1], lambda: trial.params, outcome[2])

    def given_up(self, number: int) -> None:
        """Hears that a trial goes to somebody else."""
        with self._lock:
            if number in self._running:
                self._running.remove(number)

    def end(self) -> None:
        """Leaves the last line where it is."""
        with self._lock:
            if self._show:
                self._drawn = -1e9
                self._draw()
                if self._over:
                    self._stream.write("\n")
                self._flush()
        if self._alike and self._alike[2] >= _EQUAL_RESULTS and self._settings_differ and not self._differ:
            _log.warning(
                "all %d results of study %s are equal, %s %s: the search has nothing to go by; look at what the metric "
                "measures, and at whether the objective uses its parameters",
                self._alike[2], self._study.name, self._study.metric, _short(self._alike[0]),
            )  # fmt: skip

    def _best_text(self) -> str:
        if self._front:
            return f"{len(self._front)} on the front"
        if self._best is None:
            bounded = self._beyond > 0 or self._study._message.least_violating_trial > 0
            return "none within the constraints" if bounded else "none complete"
        first = self._as_good[0][0]
        since = f", to six digits since trial {first}" if first < self._best_trial else ""
        return f"best {_short(self._best)} (trial {self._best_trial}{since})"

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < (_SECONDS if self._over else _PLAIN_SECONDS):
            return
        self._drawn = now
        seconds = int(now - self._begin)
        parts = [f"{self._done}" + (f" of {self._total}" if self._total is not None else "") + " trials", self._best_text()]
        parts += [f"{self._failed} failed"] if self._failed else []
        parts += [f"trial {self._running[0]} runs" if len(self._running) == 1 else f"{len(self._running)} run"]
        parts = parts if self._running else parts[:-1]
        text = f"{self._study.name}: {', '.join(parts)}, {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if self._over:
            text = text[: shutil.get_terminal_size().columns - 1]
            self._width, text = len(text), "\r" + text.ljust(self._width)
        else:
            text += "\n"
        self._stream.write(text)
        self._flush()

    def _flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._show = False  # Nobody reads it any more.


class Follower:
    """Tells of trials that end in other processes: asks for them now and then."""

    def __init__(self, study: Stored, progress: Progress) -> None:
        self._study, self._progress = study, progress
        self._seq = int(study._message.update_seq)
        self._due = 0.0

    def look(self, now: bool = False) -> None:
        """Tells of those that ended since the last look, at most twice a second."""
        if not (now or time.monotonic() >= self._due):
            return
        self._due = time.monotonic() + 0.5
        for message in self._study._messages(_ENDED, filter=f"update_seq > {self._seq}"):
            self._seq = max(self._seq, int(message.update_seq))
            trial = self._study._frozen(message)
            self._progress.ended(trial.number, trial.state.value, trial.metrics, lambda t=trial: t.params, trial.failure)


def _half_digit(value: float) -> float:
    """Returns half a unit of the sixth digit of a number."""
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - 5) if value else 0.0


def _short(value: Optional[float]) -> str:
    return "none" if value is None else f"{value:.6g}"


def _is_screen(stream: Any) -> bool:
    """Whether what is written can be written over: on a terminal, or in a notebook."""
    try:
        return bool(stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel")))
    except ValueError:
        return False  # It is closed.


def _log_is_heard() -> bool:
    return _log.isEnabledFor(logging.INFO) and _log.hasHandlers()
