"""A program of test_chaos.py that optimizes until the study is done, with an objective that does all that one may do
wrong. `chaos_worker.py DB LOG SEED CALM`: each trial that the coordinator acknowledged is a line of LOG; once there is
a file CALM nothing goes wrong any more."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
from typing import Any

import luthier

DB, LOG, SEED, CALM = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
rng = random.Random(SEED)


def _hang(number: int, frame: Any) -> None:
    raise TimeoutError("the objective took too long")


def objective(trial: luthier.Trial) -> Any:
    """Returns the value of a parabola, unless something goes wrong."""
    x = trial.suggest_float("x", 0, 1)
    label = trial.suggest_categorical("label", ["a", 1, None, 2.5, True])
    if label == "a":
        trial.suggest_int("only_a", 1, 9)
    value = (x - 0.3) ** 2
    what = 99 if os.path.exists(CALM) else rng.randrange(30)
    if what == 0:
        raise ValueError("boom")
    if what == 1:
        return None
    if what == 2:
        return rng.choice(
            [(1.0, 2.0), (1.0, 2.0, 3.0), "text", [1.0], {"other": 1.0}, {"a b": 1.0, "value": 1.0}, 10**400]
        )
    if what == 3:
        return value, {"nope": 1.0}
    if what == 4:
        return float("nan")
    if what == 5:  # A child that goes its own way, and one that comes back here.
        pid = os.fork()
        if pid == 0:
            if rng.random() < 0.5:
                os._exit(0)
            return value
        os.waitpid(pid, 0)
    if what == 6:
        for step in range(1, 4):
            trial.report(value + 1 / step, step)
        raise luthier.TrialPruned
    if what == 7:
        raise luthier.Retry("another time")
    if what == 8:
        raise KeyboardInterrupt
    if what == 9:
        raise MemoryError
    if what == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == 11:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            signal.pause()
    if what == 12:
        os.kill(os.getpid(), signal.SIGTERM)
    if what == 13:
        return Scalar(value)
    if what == 14:
        return {"value": value, "other": 1}, {"x": Scalar(2 * (x - 0.3))}
    return (value, {"x": 2 * (x - 0.3)}) if what % 2 else value


class Scalar:
    """Stands for numpy's and torch's numbers."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


def note(_: luthier.Study, trial: luthier.FrozenTrial) -> None:
    """Writes down what was acknowledged."""
    line = json.dumps([trial.number, trial.state.value, repr(trial.value)]) + "\n"
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(line)


def main() -> int:
    """Optimizes until the study is done."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _hang)
    study = luthier.load("chaos", db=DB)
    while True:
        try:
            study.optimize(objective, catch=(ValueError, TimeoutError, MemoryError), callbacks=[note])
            return 0
        except KeyboardInterrupt:
            continue
        except luthier.StudyPaused:
            study.resume()


if __name__ == "__main__":
    sys.exit(main())
