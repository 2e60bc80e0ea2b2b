"""Objectives that are edited between two runs: what counts, and what is said."""

from __future__ import annotations

import functools
import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest
from programs import run

import luthier
from luthier._fingerprint import fingerprint, objective_of, worker_of


def first(trial: Any) -> float:
    """The one before it was mended."""
    x = trial.suggest_float("x", -10, 10)
    return float((x - 2) ** 2)


def mended(trial: Any) -> float:
    x = trial.suggest_float("x", -10, 10)
    return float((x + 3) ** 2 + 10)


@pytest.fixture()
def study(name: str, session_db: str) -> luthier.Study:
    study = luthier.study(name, db=session_db)
    study.optimize(first, n_trials=6)
    return study


def test_results_of_the_former_objective_are_named_and_left_out(
    study: luthier.Study, caplog: pytest.LogCaptureFixture
) -> None:
    study.optimize(mended, n_trials=6)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "trials 1 to 6" in warning and 'if_changed="continue"' in warning and '"fresh"' in warning
    assert study.best_value >= 10 and study.best_trial.number > 6 and study.best_params == study.best_trial.params
    assert len(study) == 12 and {t.objective for t in study.trials} == {fingerprint(first), fingerprint(mended)}
    again = luthier.study(study.name, db=study._client.local.directory)  # type: ignore[union-attr]
    assert again.best_value == study.best_value and again.best_trial.number == study.best_trial.number
    caplog.clear()
    study.optimize(mended, n_trials=1)
    assert not caplog.records  # It is said once.
    study.optimize(first, n_trials=1)
    assert "trials 7 to 13" in caplog.text and study.best_trial.objective == fingerprint(first)


def test_the_line_of_progress_leaves_them_out_too(study: luthier.Study, capsys: pytest.CaptureFixture[str]) -> None:
    study.optimize(mended, n_trials=2, show_progress_bar=True)
    assert f"best {study.best_value:.6g} (trial {study.best_trial.number}" in capsys.readouterr().err
    study.optimize(mended, n_trials=1, show_progress_bar=True)
    assert f"best {study.best_value:.6g} (trial {study.best_trial.number}" in capsys.readouterr().err


def test_they_count_where_that_is_wanted(study: luthier.Study, caplog: pytest.LogCaptureFixture) -> None:
    study.optimize(mended, n_trials=3)
    study.update(labels={"team": "vision"})  # Labels of the user's are beside it.
    assert study.best_value >= 10 and study.spec["labels"]["team"] == "vision"
    study.optimize(mended, n_trials=1, if_changed="continue")
    assert study.best_value < 10 and study.spec["labels"]["team"] == "vision"
    caplog.clear()
    study.optimize(mended, n_trials=1)
    assert study.best_value < 10 and not caplog.records


def test_a_study_of_its_own_where_that_is_wanted(study: luthier.Study, caplog: pytest.LogCaptureFixture) -> None:
    name, db = study.name, study._client.local.directory  # type: ignore[union-attr]
    study.optimize(mended, n_trials=3, if_changed="fresh")
    assert (study.name, len(study)) == (name + "-2", 3) and study.best_value >= 10
    assert f"study {name}-2 goes on with it" in caplog.text
    other = luthier.study(name, db=db)
    assert len(other) == 6 and other.best_value < 10
    other.optimize(mended, n_trials=2, if_changed="fresh")  # As the script that is run again does.
    assert (other.name, len(other)) == (name + "-2", 5)
    other = luthier.study(name, db=db)
    other.optimize(lambda t: t.suggest_int("another", 1, 3), n_trials=2, if_changed="fresh")
    assert (other.name, other.best_params.keys()) == (name + "-3", {"another"})
    other = luthier.study(name, db=db)
    other.optimize(first, n_trials=1, if_changed="fresh")
    assert (other.name, len(other)) == (name, 7)


def test_it_is_refused_where_that_is_wanted(study: luthier.Study) -> None:
    with pytest.raises(luthier.ObjectiveChanged, match="trials 1 to 6.*fresh"):
        study.optimize(mended, n_trials=3, if_changed="raise")
    study.optimize(first, n_trials=1, if_changed="raise")
    assert len(study) == 7
    with pytest.raises(ValueError, match="if_changed is 'no'"):
        study.optimize(first, n_trials=1, if_changed="no")  # type: ignore[arg-type]


def test_results_that_nobody_marked_count(study: luthier.Study) -> None:
    study.add_trials([{"params": {"x": 0.0}, "value": -5.0}])
    study.optimize(mended, n_trials=3)
    assert study.best_value == -5.0
    trial = study.ask()
    study.tell(trial, -7.0)
    assert study.best_value == -7.0


def test_a_maximum_is_looked_for_among_those_that_count(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, goal="maximize", db=session_db)
    study.optimize(lambda t: 5.0, n_trials=2)
    study.optimize(lambda t: t["x"], n_trials=3)
    assert study.best_value == max(t.value or 0.0 for t in study.trials[2:])
    study.optimize(lambda t: float("nan"), n_trials=2)
    with pytest.raises(ValueError, match="since its objective was edited"):
        study.best_value


PROGRAM = """
LIMIT = {limit}

def helper(x):
    return {helper}

def objective(trial):
    # {comment}
    return helper(trial.suggest_float("x", 0, 1))

study = luthier.study("edited")
study.optimize(objective, n_trials=2)
print(len(study), study.best_value)
"""


def test_a_script_that_is_edited_and_run_again(tmp_path: Path) -> None:
    def out(**words: Any) -> list[str]:
        text = PROGRAM.format(**{"limit": 1, "helper": "x", "comment": "a", **words})
        return run(tmp_path, "import os; os.dup2(1, 2)\n" + text).splitlines()

    assert out()[-1].startswith("2 ")
    assert len(out(comment="b", limit=2)) == 1  # Neither a comment nor data is the objective's text.
    said, values = out(helper="x + 10")
    assert "trials 1 to 4 of study edited" in said and float(values.split()[1]) >= 10


def test_processes_and_workers_mark_their_trials(db: str) -> None:
    study = luthier.study("processes", db=db)
    study.optimize(first, n_trials=2, processes=1)
    assert {t.objective for t in study.trials} == {fingerprint(first)}
    study = luthier.objective(space={"x": luthier.Float(-10, 10)}, name="tuned")(first).tune(2, db=db)
    assert {t.objective for t in study.trials} == {fingerprint(first)}


def test_fingerprints() -> None:
    def with_default(trial: Any, k: int = 1) -> float:
        return first(trial) + k

    a, b = (lambda t: t["x"] + 1), (lambda t: t["x"] + 2)
    assert fingerprint(a) != fingerprint(b) and len(fingerprint(a)) == 12
    one = lambda t: t["x"] ** 2  # noqa: E731
    other = lambda t: t["x"]  **  2  # noqa: E731, E221, E222  # Layout is none of its text.
    assert fingerprint(one) == fingerprint(other) != fingerprint(a)
    assert fingerprint(functools.partial(with_default, k=2)) == fingerprint(with_default) != fingerprint(first)
    assert fingerprint(luthier.objective(space={"x": (0.0, 1.0)}, max_trials=3)(first)) == fingerprint(first)

    def held(inner: Any) -> Any:
        return lambda trial: inner(trial)

    assert fingerprint(held(first)) != fingerprint(held(mended))

    class Objective:
        def __call__(self, trial: Any) -> float:
            return first(trial)

        def method(self, trial: Any) -> float:
            return first(trial) + 1

    assert fingerprint(Objective()) != fingerprint(Objective().method) != ""

    def as_class(offset: str) -> str:
        made: dict[str, Any] = {"__name__": "mine"}
        text = f"""
            class Net:
                def forward(self, x):
                    return x + {offset}
            class Objective:
                @property
                def net(self):
                    return Net()
                def __call__(self, trial):
                    return self.net.forward(1)
        """
        exec(compile(textwrap.dedent(text), "mine.py", "exec"), made)
        return fingerprint(made["Objective"]())

    assert as_class("1") == as_class("1") != as_class("2")
    assert fingerprint(len) == ""
    space: dict[str, Any] = {}
    exec("def f(t):\n    return 1\ndef g(t):\n    return 2\nh = lambda t: 1", space)
    assert len({fingerprint(space[name]) for name in "fg"}) == 2
    assert objective_of(worker_of("0" * 20, fingerprint(a))) == fingerprint(a)
    assert objective_of(worker_of("0" * 20, "")) == objective_of("gpu.1") == ""


def test_a_call_that_runs_nothing_changes_nothing(name: str, session_db: str, caplog: pytest.LogCaptureFixture) -> None:
    study = luthier.study(name, {"x": (-10.0, 10.0)}, max_trials=2, db=session_db)
    study.optimize(first, n_trials=2)
    best = study.best_value
    study.optimize(mended, n_trials=2)
    assert "is complete" in caplog.text and "the objective" not in caplog.text and study.best_value == best
    opened = luthier.study(name + "-open", db=session_db)
    opened.optimize(first, n_trials=2)
    with pytest.raises(luthier.ObjectiveChanged):
        opened.optimize(mended, n_trials=5, if_changed="raise")
    assert opened.state == "COMPLETED" and opened.spec["budget"]["max_trials"] == 2


def test_a_timeout_goes_on_where_a_number_of_trials_ended(name: str, session_db: str) -> None:
    study = luthier.study(name, db=session_db)
    study.optimize(first, n_trials=2)
    study.optimize(first, timeout=30, callbacks=[lambda s, t: s.stop() if t.number >= 4 else None])
    assert len(study) >= 4
