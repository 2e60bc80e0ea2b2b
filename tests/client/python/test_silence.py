"""What a program hears: of studies that are paused, stopped or complete, at the start, and of each trial."""

from __future__ import annotations

import asyncio
import logging
import os
import pty
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from programs import run, script

import luthier
import luthier.aio
from luthier import _progress


def value(trial: Any) -> float:
    return float(trial.suggest_float("x", 0, 1))


@pytest.fixture()
def study(name: str, session_db: str) -> luthier.Study:
    return luthier.study(name, max_trials=50, db=session_db)


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Returns what the log has at a level, and forgets it."""
    texts = [r.getMessage() for r in caplog.records if r.levelno == level and r.name == "luthier"]
    caplog.clear()
    return texts


# --- Studies that give no trials ---


@pytest.mark.parametrize("how", ["alone", "threads", "processes", "ask", "tasks", "tasks ask"])
def test_a_paused_study_says_so_at_once(how: str, study: luthier.Study) -> None:
    study.optimize(value, n_trials=1)
    study.pause()
    loop = luthier.aio.Study(study)
    calls: dict[str, Any] = {
        "alone": lambda: study.optimize(value, n_trials=1),
        "threads": lambda: study.optimize(value, n_trials=2, n_jobs=2),
        "processes": lambda: study.optimize(value, n_trials=1, processes=1),
        "ask": study.ask,
        "tasks": lambda: asyncio.run(loop.optimize(value, n_trials=1)),
        "tasks ask": lambda: asyncio.run(loop.ask()),  # type: ignore[arg-type]
    }
    with pytest.raises(luthier.StudyPaused, match="paused by a user.*resume"):
        calls[how]()
    study.resume()
    study.optimize(value, n_trials=1)
    assert len(study) == 2


def test_a_study_that_is_paused_meanwhile_ends_the_threads_after_their_trials(study: luthier.Study) -> None:
    both = threading.Barrier(2, timeout=30)

    def objective(trial: luthier.Trial) -> float:
        if both.wait() == 0:
            study.pause()
        both.wait()
        return value(trial)

    with pytest.raises(luthier.StudyPaused):
        study.optimize(objective, n_trials=20, n_jobs=2)
    assert [t.state.value for t in study.trials] == ["COMPLETE", "COMPLETE"]


def test_a_study_that_is_paused_meanwhile_ends_the_tasks_after_their_trials(name: str, session_db: str) -> None:
    async def main() -> Any:
        study = await luthier.aio.study(name, {"x": (0.0, 1.0)}, db=session_db)
        paused = asyncio.Event()

        async def objective(trial: Any) -> float:
            if trial.number == 1:
                await study.pause()
                paused.set()
            await paused.wait()
            await asyncio.sleep(0.05)
            return 1.0

        with pytest.raises(luthier.StudyPaused):
            await study.optimize(objective, n_trials=20, n_jobs=2)
        return await study.trials

    assert {t.state.value for t in asyncio.run(main())} == {"COMPLETE"}


def test_a_study_that_was_stopped_says_so(study: luthier.Study) -> None:
    study.optimize(value, n_trials=1)
    study.stop()
    for call in (
        lambda: study.optimize(value, n_trials=1),
        lambda: study.optimize(value),
        lambda: asyncio.run(luthier.aio.Study(study).optimize(value, n_trials=1)),  # type: ignore[arg-type]
    ):
        with pytest.raises(luthier.StudyFinished, match="was stopped.*add_trials"):
            call()


def test_a_study_that_is_complete_says_so(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, max_trials=2, db=session_db)
    study.optimize(lambda t: t["x"], n_trials=5)
    (ended,) = said(caplog, logging.WARNING)
    assert "ended after 2 of 5 trials: max_trials reached (2)" in ended and "update(max_trials=" in ended
    study.optimize(lambda t: t["x"], n_trials=5)
    (complete,) = said(caplog, logging.WARNING)
    assert "is complete" in complete and "max_trials reached (2)" in complete
    assert len(study) == 2
    target = luthier.study(name + "-target", {"x": (0.0, 1.0)}, target_value=2.0, db=session_db)
    target.optimize(lambda t: t["x"], n_trials=5)
    assert "ended after 1 of 5 trials: target" in said(caplog, logging.WARNING)[0]


def test_a_study_that_is_stopped_meanwhile_says_so(study: luthier.Study, caplog: pytest.LogCaptureFixture) -> None:
    study.optimize(value, n_trials=5, callbacks=[lambda s, t: s.stop() if t.number == 2 else None])
    assert "ended after 2 of 5 trials: it was stopped" in said(caplog, logging.WARNING)[0]


def test_waiting_for_trials_that_run_elsewhere_is_said(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["luthier._asking"], "_HUNGRY_SECONDS", 0.0)
    study = luthier.study(name, {"x": (0.0, 1.0)}, max_parallel=1, db=session_db)
    elsewhere = luthier.load(name, db=session_db)
    held = elsewhere.ask()
    assert study.ask(timeout=1.0) is None and study.ask(timeout=1.0) is None
    (waits,) = said(caplog, logging.WARNING)
    assert "1 run elsewhere" in waits and "at most 1 at a time" in waits
    elsewhere.tell(held, 1.0)


def test_tune_says_what_a_study_is(db: str) -> None:
    train = luthier.objective(space={"x": luthier.Float(0, 1)}, name="told")(value)
    study = train.study(db=db)
    study.pause()
    with pytest.raises(luthier.StudyPaused, match="paused by a user"):
        train.tune(1, db=db)
    study.stop()
    with pytest.raises(luthier.StudyFinished, match="stopped"):
        train.tune(1, db=db)


# --- What is logged and shown ---


def test_the_log_has_a_line_at_the_start_and_one_a_trial(
    study: luthier.Study, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "luthier")
    results = iter([3.0, 2.0, float("nan"), 2.5])
    study.optimize(lambda t: value(t) * 0 + next(results), n_trials=3)
    start, first, second, third = said(caplog, logging.INFO)
    assert start.startswith(f"study {study.name} in ") and start.endswith(": 0 trials there, 3 more")
    assert re.fullmatch(rf"trial 1 of {study.name}: COMPLETE, value = 3, with {{'x': .*}}; best 3 \(trial 1\)", first)
    assert "value = 2" in second and "best 2 (trial 2)" in second
    assert "trial 3" in third and "FAILED" in third and "NaN" in third and "best 2 (trial 2)" in third
    study.optimize(lambda t: value(t) * 0 + next(results), n_trials=1, if_changed="continue")
    start, fourth = said(caplog, logging.INFO)
    assert start.endswith(": 3 trials there, 1 more") and "best 2 (trial 2)" in fourth


def test_all_ends_of_trials_are_logged(study: luthier.Study, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "luthier")

    def objective(trial: luthier.Trial) -> float:
        trial.report(0.5)
        if trial.number == 1:
            raise luthier.TrialPruned()
        if trial.number == 2:
            raise ValueError("too bad")
        return 1.0

    study.optimize(objective, n_trials=3, catch=ValueError)
    lines = said(caplog, logging.INFO)[1:]
    assert ["PRUNED, value = 0.5" in lines[0], "FAILED, ValueError: too bad" in lines[1]] == [True, True], lines
    assert "COMPLETE, value = 1" in lines[2]


@pytest.mark.parametrize("how", ["processes", "tasks", "tune"])
def test_the_log_has_what_other_processes_and_tasks_do(how: str, db: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "luthier")
    if how == "processes":
        luthier.study("p", db=db).optimize(abs_of, n_trials=3, processes=2)
    elif how == "tune":
        luthier.objective(space={"x": luthier.Float(0, 1)}, name="p")(abs_of).tune(3, db=db, python=sys.executable)
    else:
        loop = luthier.aio.Study(luthier.study("p", {"x": (0.0, 1.0)}, db=db))
        asyncio.run(loop.optimize(lambda t: t["x"], n_trials=3))
    start, *lines = said(caplog, logging.INFO)
    assert start.endswith("0 trials there, 3 more") and len(lines) == 3, lines
    assert all("COMPLETE, value = " in line for line in lines)


def abs_of(trial: Any) -> float:
    return abs(float(trial.suggest_float("x", 0, 1)))


PROGRAM = "study = luthier.study('shown')\nstudy.optimize(lambda t: t.suggest_float('x', 0, 1), n_trials=3, {})\n"


def on_terminal(tmp_path: Path, options: str) -> str:
    """Runs the program with a terminal as its standard error; returns what it shows."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        command = script(tmp_path / "script.py", PROGRAM.format(options))
        os.execvp(command[0], command)
    shown = b""
    while True:
        try:
            some = os.read(terminal, 4096)
        except OSError:  # Linux says so that the other end is closed.
            break
        if not some:
            break
        shown += some
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0, shown
    return shown.decode()


def test_a_terminal_shows_a_line_that_is_written_over(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, "")
    start, *rest = shown.splitlines()
    assert start == "study shown in ./luthier.db.d: 0 trials there, 3 more"
    last = shown.rstrip().rpartition("\r")[2]
    assert re.match(r"shown: 3 of 3 trials, best 0\.\d+ \(trial \d\), 0:00:0\d", last), shown
    assert rest


def test_a_terminal_shows_nothing_where_it_is_not_wanted_or_the_log_does(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, "show_progress_bar=False") == ""


def test_elsewhere_the_line_is_shown_where_it_is_wanted(tmp_path: Path) -> None:
    both = "import os; os.dup2(1, 2)\n"
    assert run(tmp_path, both + PROGRAM.format("")) == ""
    shown = run(tmp_path, both + PROGRAM.format("show_progress_bar=True")).splitlines()
    assert shown[0] == "study shown in ./luthier.db.d: 3 trials there, 3 more"
    assert "shown: 3 of 3 trials" in shown[-1] and "\r" not in shown[-1]


def test_the_line_is_shown_in_notebooks_and_not_beside_the_log(
    study: luthier.Study, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Notebook:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return False

    Notebook.__module__ = "ipykernel.iostream"
    monkeypatch.setattr(sys, "stderr", page := Notebook())
    caplog.set_level(logging.WARNING, "luthier")
    study.optimize(value, n_trials=2)
    assert f"{study.name}: 2 of 2 trials" in page.text
    caplog.set_level(logging.INFO, "luthier")
    page.text = ""
    study.optimize(value, n_trials=2)
    assert page.text == "" and _progress._log_is_heard()


# --- What the results say of the search ---


@pytest.mark.parametrize("same", [True, False])
def test_results_that_are_all_equal_are_warned_of(
    same: bool, study: luthier.Study, caplog: pytest.LogCaptureFixture
) -> None:
    study.optimize(lambda trial: value(trial) * (0.0 if same else 1.0), n_trials=10)
    told = said(caplog, logging.WARNING)
    assert len(told) == (1 if same else 0)
    if same:
        assert told[0].startswith(f"all 10 results of study {study.name} are equal, value 0: the search has nothing")


def test_the_line_says_since_when_the_best_is_as_good(study: luthier.Study, capsys: pytest.CaptureFixture[str]) -> None:
    values = iter([3.0, 2.0000001, 2.0])

    def objective(trial: Any) -> float:
        value(trial)
        return next(values)

    study.optimize(objective, n_trials=3, show_progress_bar=True)
    assert "best 2 (trial 3, to six digits since trial 2)" in capsys.readouterr().err


@pytest.mark.parametrize("goal", ["minimize", "maximize"])
def test_a_best_that_creeps_on_is_not_the_same_for_ever(
    goal: str, name: str, session_db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, goal=goal, db=session_db)  # type: ignore[arg-type]
    sign = 1.0 if goal == "minimize" else -1.0
    values = iter([sign * (2.0 - 1.1e-6 * i) for i in range(20)])
    study.optimize(lambda trial: next(values), n_trials=20, show_progress_bar=True)
    assert f"best {sign * 1.99998:g} (trial 20, to six digits since trial 16)" in capsys.readouterr().err
