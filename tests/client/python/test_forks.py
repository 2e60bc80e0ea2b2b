"""Objectives that fork and run programs; programs that are interrupted and killed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from programs import alive, run, script, wait

import luthier


def test_forks_in_an_objective(name: str, session_db: str) -> None:
    import multiprocessing

    context = multiprocessing.get_context("fork")

    def objective(trial: luthier.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        with context.Pool(2) as pool:  # As a DataLoader has them.
            return sum(pool.map(math.sqrt, [x, x]))

    study = luthier.study(name, db=session_db)
    study.optimize(objective, n_trials=3)
    assert Counter(t.state.value for t in study.trials) == {"COMPLETE": 3}


def test_a_forked_child_uses_the_study(tmp_path: Path) -> None:
    if sys.version_info < (3, 10):
        pytest.skip("gRPC and forks: see test_without_support_of_forks_a_child_is_told")
    said = run(
        tmp_path,
        """
study = luthier.study("forked", {"x": (0.0, 1.0)}, db="db")
study.optimize(lambda t: t["x"], n_trials=2)
pid = os.fork()
if pid == 0:
    study.optimize(lambda t: t["x"], n_trials=3)
    os._exit(len(study))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
study.optimize(lambda t: t["x"], n_trials=1)
print(len(study))
""",
    )
    assert said.split() == ["5", "6"]


def test_without_support_of_forks_a_child_is_told(tmp_path: Path) -> None:
    text = """
study = luthier.study("forked", {"x": (0.0, 1.0)}, db="db")
study.optimize(lambda t: t["x"], n_trials=2)
pid = os.fork()
if pid == 0:
    try:
        study.best_value
    except luthier.Unavailable as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
study.optimize(lambda t: t["x"], n_trials=1)
print(len(study))
"""
    assert run(tmp_path, text, env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}).split() == ["7", "3"]


def test_programs_that_an_objective_runs(tmp_path: Path) -> None:
    """Python before 3.10 forks for them, and gRPC's handlers of forks aborted one in ten."""
    text = """
import subprocess
study = luthier.study("programs", {"x": (0.0, 1.0)}, algorithm="random", db="db")
codes = []
def objective(trial):
    codes.extend(subprocess.run(["true"]).returncode for _ in range(4))
    return trial["x"]
study.optimize(objective, n_trials=30)
print(set(codes), len(codes))
"""
    assert run(tmp_path, text).strip() == "{0} 120"


def test_processes_show_their_errors(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(trial):\n    raise ValueError('from the child')\n")
    text = """
import mine
study = luthier.study("p", {"x": (0.0, 1.0)}, db="db")
try:
    study.optimize(mine.f, n_trials=2, processes=2)
except RuntimeError as error:
    print("from the child" in str(error))
study.optimize(mine.f, n_trials=2, processes=2, catch=ValueError)
print(len([t for t in study.trials if "EXCEPTION" in t.failure]) >= 3)
try:
    study.optimize(lambda t: 1.0, n_trials=1, processes=1)
except RuntimeError as error:
    print("cloudpickle" in str(error))
else:
    print(True)  # cloudpickle is there.
"""
    assert [word for word in run(tmp_path, text).split() if word in ("True", "False")] == ["True"] * 3


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, time\n"
        "def f(trial):\n"
        "    open(f'pid{trial.number}', 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
    )
    text = "import mine\nluthier.study('p', {'x': (0.0, 1.0)}, db='db').optimize(mine.f, n_trials=2, processes=2)\n"
    parent = subprocess.Popen(script(tmp_path / "s.py", text), cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait(lambda: len([p for p in tmp_path.glob("pid*") if p.read_text()]) == 2)
    parent.kill()
    parent.wait()
    pids = [int(p.read_text()) for p in tmp_path.glob("pid*")]
    wait(lambda: not any(alive(pid) for pid in pids))


def test_resume_after_kill(tmp_path: Path) -> None:
    text = """
study = luthier.study("killed", {"x": (0.0, 1.0)}, db="db", lease_ttl=10)
def objective(trial):
    if trial.number == 4 and trial.attempt == 1 and len(sys.argv) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return trial["x"]
study.optimize(objective, n_trials=5)
"""
    run(tmp_path, text, -signal.SIGKILL)
    study = luthier.study("killed", {"x": (0.0, 1.0)}, db=str(tmp_path / "db"), lease_ttl=10)
    begin = len(study)
    assert begin == 4 and Counter(t.state.value for t in study.trials)["COMPLETE"] == 3
    study.optimize(lambda t: t["x"], n_trials=3)
    assert Counter(t.state.value for t in study.trials)["COMPLETE"] >= 6
    study._client.close()


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_interrupt_gives_trials_back(jobs: int, tmp_path: Path) -> None:
    text = f"""
study = luthier.study("interrupted", {{"x": (0.0, 1.0)}}, db="db")
def objective(trial):
    if trial.number == 2 and trial.attempt == 1:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    return trial["x"]
try:
    study.optimize(objective, n_trials=6, n_jobs={jobs})
except KeyboardInterrupt:
    print("interrupted", study.trials[1].state.value)
study.optimize(lambda t: t["x"], n_trials=7 - len([t for t in study.trials if t.state == "COMPLETE"]))
print(all(t.state == "COMPLETE" for t in study.trials))
"""
    begin = time.monotonic()
    assert run(tmp_path, text).split() == ["interrupted", "PENDING", "True"]
    assert time.monotonic() - begin < 20


def test_sigterm_gives_the_trial_back(tmp_path: Path) -> None:
    text = """
study = luthier.study("ended", {"x": (0.0, 1.0)}, db="db")
def objective(trial):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
study.optimize(objective, n_trials=1)
"""
    run(tmp_path, text, 128 + signal.SIGTERM)
    study = luthier.load("ended", db=str(tmp_path / "db"))
    assert study.trials[0].state == "PENDING"
    study._client.close()


def test_an_objective_that_cannot_travel(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def made(lock):\n    def objective(trial):\n        return lock\n    return objective\n"
    )
    text = """
import mine
study = luthier.study("s", {"x": (0.0, 1.0)}, db="db")
try:
    study.optimize(mine.made(threading.Lock()), n_trials=1, processes=1)
except RuntimeError as error:
    print(error)
print(len(study))
"""
    said = run(tmp_path, text)
    assert "can't travel to other processes" in said and said.endswith("0\n")
