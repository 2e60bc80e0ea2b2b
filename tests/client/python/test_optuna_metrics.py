"""`import luthier as optuna` with several objectives and constraints."""

from __future__ import annotations

import importlib
import math
import os
from pathlib import Path
from typing import Any

import pytest

import luthier
import luthier as optuna

MIN_MAX = ["minimize", "maximize"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session_db: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUTHIER_DB", session_db)


def undominated(trials: list[Any]) -> list[int]:
    """Returns numbers of the feasible trials that none surpasses, of a first value to be small and a second to be large."""
    some = [(t.number, t.values[0], -t.values[1]) for t in trials if t.feasible is not False and t.values]
    return sorted(n for n, a, b in some if not any(c <= a and d <= b and (c, d) != (a, b) for _, c, d in some))


@pytest.mark.parametrize(
    "sampler",
    [
        optuna.samplers.NSGAIISampler(seed=1, population_size=8),
        optuna.samplers.NSGAIIISampler(seed=1),
        optuna.samplers.TPESampler(seed=1),
        optuna.samplers.GPSampler(seed=1),
        optuna.samplers.RandomSampler(seed=1),
        None,
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_objectives_return_tuples(sampler: Any) -> None:
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE, optuna.study.StudyDirection.MAXIMIZE]
    assert study.metric_names == ["value_0", "value_1"]

    def objective(trial: Any) -> tuple[float, float]:
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_int("y", 0, 5)
        return x + y, x * y

    study.optimize(objective, n_trials=12)
    for trial in study.trials:
        x, y = trial.params["x"], trial.params["y"]
        assert trial.values == [x + y, x * y] and trial.state == "COMPLETE"
    assert sorted(t.number for t in study.best_trials) == undominated(study.trials)
    with pytest.raises(ValueError, match="several objectives"):
        _ = study.best_trial
    with pytest.raises(RuntimeError, match="study.directions"):
        _ = study.direction


def test_constraints_bound_the_front() -> None:
    sampler = optuna.samplers.NSGAIISampler(
        seed=2, constraints_func=lambda t: (t.params["x"] - 0.5, t.values[1] - 0.9, t.user_attrs["c"])
    )
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)

    def objective(trial: Any) -> list[float]:
        x = trial.suggest_float("x", 0, 1)
        trial.set_user_attr("c", -1)
        trial.set_constraint("own", 0.1 - x)
        return [x, x]

    study.optimize(objective, n_trials=30, n_jobs=4)
    assert len(study.trials) == 30 and {t.state.value for t in study.trials} == {"COMPLETE"}
    for trial in study.trials:
        x = trial.params["x"]
        assert trial.constraints == {"0": x - 0.5, "1": x - 0.9, "2": -1.0, "own": 0.1 - x}
        assert trial.feasible is (0.1 <= x <= 0.5)
    assert sorted(t.number for t in study.best_trials) == undominated(study.trials)


def test_asked_and_told() -> None:
    study = optuna.create_study(directions=MIN_MAX)
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    told = study.tell(trial, [1.0, 2.0])
    assert (told.values, told.state) == ([1.0, 2.0], "COMPLETE")
    assert study.tell(study.ask(), {"value_0": 3, "value_1": 4}).values == [3.0, 4.0]
    assert study.tell(study.ask(), state=optuna.trial.TrialState.PRUNED).state == "PRUNED"
    assert study.tell(study.ask(), state=optuna.trial.TrialState.FAIL).values is None
    assert study.tell(study.ask(), (math.nan, 1.0)).state == "FAILED"
    trial = study.ask()
    with pytest.raises(TypeError, match="has 3 values; the metrics are value_0, value_1"):
        study.tell(trial, (1.0, 2.0, 3.0))
    with pytest.raises(luthier.Unsupported, match="instead: report.*'value_0': ..., 'value_1': ..."):
        trial.report(1.0, 1)
    trial.report({"value_0": 1.0, "value_1": 2.0}, 1)
    study.tell(trial, (1.0, 2.0))
    assert study.trials[-1].intermediate_values == {1: 1.0}


def test_results_that_are_none_fail_their_trials(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(directions=MIN_MAX)
    results: list[Any] = [(1.0, 2.0), 1.0, (1.0,), (1.0, None), ("a", 1.0), (math.nan, 1.0), None, [1.0, 2.0, 3.0]]
    study.optimize(lambda trial: results[trial.number - 1], n_trials=len(results))
    assert [t.state.value for t in study.trials] == ["COMPLETE"] + ["FAILED"] * 7
    assert "the result (1.0,) has 1 values; the metrics are value_0, value_1" in study.trial(3).failure
    assert len(study.best_trials) == 1


@pytest.mark.parametrize("found", [None, 1.0, (None,), ("a",), "1", (math.nan,)])
def test_constraints_that_are_none_are_said(found: Any) -> None:
    sampler = optuna.samplers.TPESampler(constraints_func=lambda t: found)
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    with pytest.raises((TypeError, ValueError), match="constraint"):
        study.optimize(lambda t: (1.0, 2.0), n_trials=1)
    assert study.trials[0].state == "FAILED"


def test_no_constraints_are_met() -> None:
    sampler = optuna.samplers.TPESampler(constraints_func=lambda t: () if t.number == 1 else (t.number - 2.5,) * t.number)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda t: float(t.number), n_trials=3)  # Their number may differ from trial to trial.
    assert [t.feasible for t in study.trials] == [True, True, False] and study.best_value == 2.0


def test_constraints_that_are_infinite() -> None:
    sampler = optuna.samplers.TPESampler(constraints_func=lambda t: (-math.inf if t.number == 1 else math.inf,))
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: 1.0, n_trials=2)
    assert [(t.state.value, t.feasible) for t in study.trials] == [("COMPLETE", True), ("FAILED", None)]


def test_a_study_with_constraints_goes_on_with_them(caplog: pytest.LogCaptureFixture) -> None:
    bounded = optuna.samplers.TPESampler(seed=1, constraints_func=lambda t: [1.0])
    study = optuna.create_study(study_name="bounded", sampler=bounded)
    study.optimize(lambda t: 1.0, n_trials=1)
    assert study.best_trials == []
    again = optuna.create_study(study_name="bounded", sampler=optuna.samplers.TPESampler(seed=1))
    again.optimize(lambda t: 1.0, n_trials=1)
    assert "it returns a dictionary with value, constraint" in again.trials[1].failure
    again.optimize(lambda t: t.set_constraint("c", 0.0) or 1.0, n_trials=1)
    assert again.best_trial.number == 3


def test_processes_run_objectives_that_return_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_values.py").write_text("def objective(trial):\n    x = trial.suggest_float('x', 0, 1)\n    return x, -x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    objective = importlib.import_module("two_values").objective
    study = optuna.create_study(directions=MIN_MAX, sampler=optuna.samplers.RandomSampler(1))
    study.optimize(objective, n_trials=4, processes=2)
    assert [t.values for t in study.trials] == [[t.params["x"], -t.params["x"]] for t in study.trials]
    bounded = optuna.create_study(sampler=optuna.samplers.TPESampler(constraints_func=lambda t: (0.0,)))
    with pytest.raises(luthier.Unsupported, match="constraints_func with processes="):
        bounded.optimize(objective, n_trials=1, processes=2)


def test_at_most_eight_metrics() -> None:
    study = optuna.create_study(directions=["minimize"] * 8, sampler=optuna.samplers.NSGAIISampler())
    study.optimize(lambda t: tuple(range(8)), n_trials=1)
    assert study.best_trials[0].values == [float(i) for i in range(8)]
    with pytest.raises(ValueError, match="directions has 9: a study has at most 8 metrics"):
        optuna.create_study(directions=["minimize"] * 9)
    bounded = optuna.samplers.TPESampler(constraints_func=lambda t: (0.0,))
    with pytest.raises(ValueError, match="directions has 8, and the constraints are one more metric"):
        optuna.create_study(directions=["minimize"] * 8, sampler=bounded)
    with pytest.raises(ValueError, match="directions is empty"):
        optuna.create_study(directions=[])
    with pytest.raises(ValueError, match="not 'minimize' or 'maximize'"):
        optuna.create_study(directions=["minimize", "up"])
    with pytest.raises(luthier.BadField, match="cma_es does not take several objectives"):
        optuna.create_study(directions=MIN_MAX, sampler=optuna.samplers.CmaEsSampler())


def test_results_from_elsewhere() -> None:
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}

    def result(x: float, values: list[float], **limits: float) -> Any:
        return optuna.create_trial(params={"x": x}, distributions=space, values=values, constraints=limits)

    sampler = optuna.samplers.TPESampler(constraints_func=lambda t: (0.0,))
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.add_trials([result(0.1, [1, 2], a=-1.0), result(0.2, [0, 3], a=-1.0, b=0.5)])
    assert [(t.values, t.feasible) for t in study.trials] == [([1.0, 2.0], True), ([0.0, 3.0], False)]
    assert study.trials[1].constraints == {"a": -1.0, "b": 0.5}
    with pytest.raises(luthier.BadField, match='"constraint"'):
        study.add_trial(result(0.3, [1, 1]))
    named = luthier.study("named-goals", goals={"loss": "minimize", "score": "maximize"}, algorithm="random")
    named.add_trials([result(0.1, [1, 2], a=-1.0), result(0.2, [0, 3], b=0.5)])
    assert [(t.values, t.state.value) for t in named.trials] == [([1.0, 2.0], "COMPLETE"), ([0.0, 3.0], "FAILED")]
    other = optuna.create_study(directions=MIN_MAX)
    other.add_trials(study.trials)
    assert [t.values for t in other.trials] == [t.values for t in study.trials]


def test_data_frames_have_a_column_for_each_value() -> None:
    pytest.importorskip("pandas")
    study = optuna.create_study(directions=MIN_MAX)
    study.optimize(lambda t: (1.0, 2.0) if t.number == 1 else 3.0, n_trials=2)
    frame = study.trials_dataframe()
    assert list(frame.columns)[:3] == ["number", "values_0", "values_1"]
    assert frame["values_1"][0] == 2.0 and math.isnan(frame["values_1"][1])


def test_values_in_the_order_of_the_metrics() -> None:
    study = luthier.study(
        "in-order", goals={"a": "minimize", "b": "maximize"}, constraints={"c": {"at_most": 1}}, algorithm="random"
    )
    study.optimize(lambda trial: (1.0, 2.0, 0.5), n_trials=1)
    study.optimize(lambda trial: ([1.0, 2.0, 1.5], None), n_trials=1)
    assert [t.metrics for t in study.trials] == [{"a": 1.0, "b": 2.0, "c": 0.5}, {"a": 1.0, "b": 2.0, "c": 1.5}]
    assert [t.feasible for t in study.trials] == [True, False]


def test_parameters_may_be_named_as_metrics() -> None:
    study = optuna.create_study(directions=MIN_MAX, study_name="alike")
    study.enqueue_trial({"value_0": 0.25, "value_1": "a"})

    def objective(trial: Any) -> tuple[float, float]:
        x = trial.suggest_float("value_0", 0, 1)
        assert trial.suggest_categorical("value_1", ["a", "b"]) == trial.params["value_1"]
        return x, -x

    study.optimize(objective, n_trials=3)
    again = optuna.load_study(study_name="alike")
    again.optimize(objective, n_trials=2)
    assert again.metric_names == ["value_0", "value_1"] and len(again.trials) == 5
    assert again.trials[0].params == {"value_0": 0.25, "value_1": "a"}
    for trial in again.trials:
        assert trial.values == [trial.params["value_0"], -trial.params["value_0"]]
    assert {"values_0", "params_value_0"} <= set(again.trials_dataframe().columns)
