"""Coordinators and objectives that die, are shared, and begin again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

import luthier

SEED = int(os.environ.get("LUTHIER_TEST_SEED", random.SystemRandom().randrange(10**6)))
CHAOS = int(os.environ.get("LUTHIER_CHAOS_TRIALS", "150"))


def _wait(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_coordinator_ends_with_its_parent(db):
    code = (
        "import luthier, sys, time\n"
        f"s = luthier.study('s', {{'x': (0.0, 1.0)}}, db={db!r})\n"
        "print(s._client.local._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        pid = int(child.stdout.readline())
        assert _alive(pid)
        child.send_signal(signal.SIGKILL)
    _wait(lambda: not _alive(pid))


def test_two_processes_share_one_and_go_on_when_its_owner_ends(db):
    code = (
        "import luthier, sys\n"
        f"s = luthier.study('s', {{'x': (0.0, 1.0)}}, db={db!r})\n"
        "s.optimize(lambda t: t['x'], n_trials=5)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout.readline().strip() == "ready"
        study = luthier.study("s", {"x": (0.0, 1.0)}, db=db)
        assert len(study) == 5 and study._client.local._process is None
        study.update(max_trials=10)
        trial = study.ask()
        owner.communicate("\n")
        study.tell(trial, 1.0)
        assert len(study) == 6 and study._client.local._process is not None


@luthier.objective(space={"x": luthier.Float(0, 1), "c": ["a", 1, None]}, metric="loss", algorithm="fobo", max_trials=6)
def _train(trial):
    loss = None
    for step in range(1, 4):
        loss = (trial["x"] - 0.3) ** 2 + 1 / step
        trial.report(loss, step=step)
    assert trial["c"] in ("a", 1, None)
    return loss, {"x": 2 * (trial["x"] - 0.3)}


def test_tune_by_the_worker(db):
    with pytest.raises(ValueError, match="n_trials is 0"):
        _train.tune(0, db=db)
    # A budget of the study's own is not used up by a call that wants less.
    study = _train.tune(2, processes=2, db=db, python=sys.executable)
    assert (study.state, Counter(t.state.value for t in study.trials)) == ("ACTIVE", {"COMPLETE": 2})
    study = _train.tune(processes=2, db=db, python=sys.executable)
    assert Counter(t.state.value for t in study.trials) == {"COMPLETE": 6}, [t.failure for t in study.trials]
    first = study.trials[0]
    assert first.gradient == pytest.approx({"x": 2 * (first.params["x"] - 0.3)})


@luthier.objective(
    space={"v": luthier.Float(0, 1, count=3), "step": luthier.Float(0, 1, step=0.25), "x": luthier.Float(0, 1)},
    algorithm="random",
    max_trials=2,
)
def _vectors(trial):
    assert [p.name for p in trial._space.differentiable] == ["v", "x"]
    return sum(trial["v"]) + trial["x"], {"x": 7.0, "v": [1.0, 2.0, 3.0]}


def test_gradients_of_vectors_by_the_worker(db):
    study = _vectors.tune(processes=1, db=db, python=sys.executable)
    assert [t.state.value for t in study.trials] == ["COMPLETE"] * 2, [t.failure for t in study.trials]
    assert study.trials[0].gradient == {"v[0]": 1.0, "v[1]": 2.0, "v[2]": 3.0, "x": 7.0}


@luthier.objective(space={"lr/0": luthier.Float(0.1, 1), "größe": [1, "1"]}, metric="loss", algorithm="random")
def _wrong(trial):
    assert type(trial["größe"]) in (int, str) and trial["lr/0"] == trial.suggest_float("lr/0", 0.1, 1)
    what = trial.number - 1
    if what == 0:
        return trial["lr/0"], {"lr/0": 1.0}
    if what == 1:
        raise ValueError("boom")
    if what == 2:
        trial.report(0.5, step=1)
        raise luthier.TrialPruned
    if what == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == 4:
        raise luthier.TrialPruned
    return [None, (1.0, 2.0), (1.0, {"nope": 1.0})][what - 5]


def test_what_goes_wrong_at_the_worker(db):
    study = _wrong.tune(8, processes=2, db=db, python=sys.executable)
    assert study.name == "wrong"
    trials = study.trials
    assert [t.state.value for t in trials] == ["COMPLETE", "FAILED", "PRUNED"] + ["FAILED"] * 5
    assert trials[0].gradient == {"lr/0": 1.0} and set(trials[0].params) == {"lr/0", "größe"}
    failures = [t.failure for t in trials]
    assert "boom" in failures[1] and failures[3].startswith("SIGNAL")
    assert "returned None" in failures[5] and "(1.0, 2.0)" in failures[6] and "nope" in failures[7], failures


@luthier.objective(space={"x": (0.0, 1.0)}, algorithm="random")
def _typo(trial):
    return undefined_name + trial["x"]  # noqa: F821


def test_tune_says_why_the_study_paused_itself(db):
    with pytest.raises(luthier.StudyPaused, match="3 trials failed alike .*NameError.*undefined_name"):
        _typo.tune(20, processes=1, db=db, python=sys.executable)
    study = luthier.load("typo", db=db)
    assert [t.state.value for t in study.trials] == ["FAILED"] * 3
    with pytest.raises(luthier.StudyPaused):  # The same call goes on, and it fails again.
        _typo.tune(processes=1, db=db, python=sys.executable)
    assert len(study.trials) == 6


@luthier.objective(space={"x": (0.0, 1.0)}, algorithm="random", timeout=0.5)
def _hangs(trial):
    time.sleep(60)


def test_what_hangs_is_ended(db):
    study = _hangs.tune(1, db=db, python=sys.executable)
    assert study.trials[0].failure.startswith("TIMEOUT")


def _parabola(trial):
    return (trial.suggest_float("x", -5, 5) - 1) ** 2


def test_processes(db):
    study = luthier.study("processes", db=db)
    study.optimize(_parabola, n_trials=7, processes=2)
    assert Counter(t.state.value for t in study.trials) == {"COMPLETE": 7}


@luthier.objective(space={"x": (0.0, 1.0)}, metric="loss", algorithm="random", max_trials=1, lease_ttl=10)
def _waits_to_be_stopped(trial):
    said = trial.report(0.5, step=1)
    deadline = time.monotonic() + 30
    while not trial.should_stop():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert said == "CONTINUE" and trial.report(0.25, step=2) == "FINISH"
    raise luthier.TrialPruned


def test_a_trial_of_the_worker_is_stopped_and_keeps_its_value(db):
    study = _waits_to_be_stopped.study(db=db, python=sys.executable)

    def stop():
        _wait(lambda: study.get_trials(["RUNNING"]) and study.trial(1).intermediate_values)
        study.stop_trial(1)

    other = threading.Thread(target=stop)
    other.start()
    _waits_to_be_stopped.tune(db=db, python=sys.executable)
    other.join()
    assert [(t.state, t.value) for t in study.trials] == [("PRUNED", 0.25)], [t.failure for t in study.trials]


@luthier.objective(space={"x": (0.0, 1.0)}, metric="loss", algorithm="random", max_trials=1)
def _goes_on(trial):
    if trial.attempt == 1:
        assert trial.checkpoint is None and trial.start_step == 0 and trial.tolerance is None
        trial.report(0.9, step=1)
        trial.report(0.8, step=2, checkpoint="two")
        trial.report(0.7, step=3)
        raise luthier.Retry("the machine is taken away")
    return {"loss": trial.start_step, "again": float(trial.checkpoint == "two")}


@luthier.objective(space={"x": (0.0, 1.0)}, metric="loss", algorithm="random", max_trials=1)
def _overwrites(trial):
    if trial.attempt == 1:
        for step in range(1, 6):
            trial.report(1.0, step=step, checkpoint="the same file" if step != 5 else None)
        raise luthier.Retry("the machine is taken away")
    return {"loss": trial.start_step}


def test_a_checkpoint_that_is_written_over_holds_the_newest_step(db):
    assert _overwrites.tune(db=db, python=sys.executable).best_trial.metrics == {"loss": 4.0}


def test_the_step_of_a_checkpoint_reaches_the_next_attempt(db):
    study = _goes_on.tune(db=db, python=sys.executable)
    assert study.best_trial.metrics == {"loss": 2.0, "again": 1.0}
    local = luthier.study("local", {"x": (0.0, 1.0)}, algorithm="random", db=db)

    def objective(trial):
        if trial.attempt == 1:
            trial.report(0.8, step=2, checkpoint="two")
            trial.report(0.7, step=3)
            raise KeyboardInterrupt
        return float(trial.start_step) if trial.checkpoint == "two" else -1.0

    with pytest.raises(KeyboardInterrupt):
        local.optimize(objective, n_trials=1)
    local.optimize(objective, n_trials=1)
    assert local.trial(1).value == 2.0


@luthier.objective(space={"l2": luthier.Float(1e-3, 1e3, log=True)}, metric="loss", algorithm="hoag", max_trials=4)
def _inexact(trial):
    tolerance = -1.0 if trial.tolerance is None else trial.tolerance
    return {"loss": (trial["l2"] - 1) ** 2, "tolerance": tolerance}, {"l2": 2 * (trial["l2"] - 1)}


def test_the_tolerance_that_the_search_asks_for(db):
    by_worker = _inexact.tune(db=db, python=sys.executable, name="w").trials
    here = _inexact.study("here", db=db, python=sys.executable)
    here.optimize(_inexact)
    tolerances = [t.metrics["tolerance"] for t in by_worker]
    assert tolerances[0] == 0.1 and tolerances == sorted(tolerances, reverse=True)
    assert [t.metrics["tolerance"] for t in here.trials] == tolerances
