"""Leases of objectives that keep the interpreter's lock for longer than a lease lives."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from programs import alive, wait

import luthier
from luthier import _processes

TTL = 10.0  # The shortest that the service takes.


def _holds(trial: Any) -> float:
    """Keeps the lock in the first trial; the others give another process time to take that one over."""
    if trial.number == 1:
        ctypes.PyDLL(None).sleep(int(1.4 * TTL))
    else:
        time.sleep(2.0)
    return float(trial.suggest_float("x", 0, 1))


@luthier.objective(space={"x": (0.0, 1.0)}, algorithm="random", lease_ttl=TTL, max_trials=8)
def _tuned(trial: Any) -> float:
    return _holds(trial)


def test_who_keeps_the_lock_keeps_the_lease(db: str) -> None:
    study = luthier.study("processes", {"x": (0.0, 1.0)}, algorithm="random", lease_ttl=TTL, db=db)
    others = threading.Thread(target=lambda: _tuned.tune(processes=2, db=db, name="tuned"))
    others.start()
    study.optimize(_holds, n_trials=8, processes=2)
    others.join()
    for one in (study, luthier.load("tuned", db=db)):
        attempts = [len(message.attempts) for message in one._messages()]
        assert attempts == [1] * 8 and {t.state.value for t in one.trials} == {"COMPLETE"}


def _notes_its_process(trial: luthier.Trial) -> float:
    path = Path(trial.suggest_categorical("folder", [os.environ["LUTHIER_TEST_NOTES"]])) / f"{trial.attempt}"
    path.write_text(str(os.getpid()))
    if trial.attempt == 1:
        time.sleep(60)
    return 1.0


def test_the_lease_of_a_process_that_is_killed_ends(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUTHIER_TEST_NOTES", str(tmp_path))
    study = luthier.study("killed", algorithm="random", lease_ttl=TTL, max_trials=1, db=db)
    failures: list[str] = []

    def job() -> None:
        try:
            study.optimize(_notes_its_process, n_trials=1, processes=1)
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=job)
    thread.start()
    wait(lambda: (tmp_path / "1").is_file() and (tmp_path / "1").read_text() != "")
    pid = int((tmp_path / "1").read_text())
    wait(lambda: len(study._client.beats._leases) == 1)
    os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert not alive(pid) and "killed by SIGKILL" in failures[0]
    assert study._client.beats._leases == {}
    study.optimize(_notes_its_process, n_trials=1)  # There is no other trial: it waits until that lease ends.
    assert study.trial(1).state == "COMPLETE" and [len(m.attempts) for m in study._messages()] == [2]


class Recorder:
    """Stands for the parent's heartbeats."""

    def __init__(self) -> None:
        self.held: dict[bytes, Any] = {}

    def add(self, worker: str, token: bytes, ttl: float, tell: Any) -> None:
        self.held[token] = (worker, ttl, tell)

    def remove(self, token: bytes) -> None:
        self.held.pop(token, None)


def test_directives_reach_the_process(session_db: str) -> None:
    recorder = Recorder()
    relay = _processes.Relay(recorder)  # type: ignore[arg-type]
    told = _processes.Told(luthier._client.connect(db=session_db), os.dup(relay.fileno()))  # type: ignore[attr-defined]
    relay.begin()
    heard: list[str] = []
    told.add("w", b"one", 30.0, heard.append)
    told.add("w", b"two", 30.0, heard.append)
    wait(lambda: set(recorder.held) == {b"one", b"two"})
    assert recorder.held[b"one"][:2] == ("w", 30.0)
    for directive in ("CONTINUE", "FINISH"):
        recorder.held[b"one"][2](directive)
    wait(lambda: heard == ["FINISH"])
    told.remove(b"one")
    wait(lambda: set(recorder.held) == {b"two"})
    relay.close()
    assert recorder.held == {}
    told.add("w", b"late", 30.0, heard.append)  # The parent is gone: nothing happens.
