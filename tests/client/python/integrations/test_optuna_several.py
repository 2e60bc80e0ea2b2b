"""Optuna's studies of several objectives and constraints: LuthierSampler in them, and their way to Luthier and back."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, Optional

import pytest

import luthier

pytestmark = pytest.mark.peers
optuna = pytest.importorskip("optuna", minversion="4.0", reason="Optuna is not installed: pip install optuna")

from luthier.integrations.optuna import LuthierSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
MIN_MAX = ["minimize", "maximize"]
COMPLETE = optuna.trial.TrialState.COMPLETE


def trade_off(trial: Any) -> tuple[float, float]:
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_int("y", 0, 5)
    return x + y, x * y


def values_of(trials: list[Any]) -> list[Any]:
    return sorted(trial.values for trial in trials)


@pytest.mark.parametrize("algorithm", ["auto", "nsga2", "tpe", "random"])
def test_the_front_is_the_same(coordinator_folder: Path, algorithm: str) -> None:
    def limits(trial: Any) -> tuple[float, float]:
        return trial.params["x"] - 0.7, trial.params["x"] + trial.params["y"] - 4

    sampler = LuthierSampler(algorithm, seed=1, db=str(coordinator_folder), constraints_func=limits)
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.optimize(trade_off, n_trials=14)
    ours = sampler.luthier_studies()[-1]
    assert ours.constraints == {"constraint_0": {"at_most": 0.0}, "constraint_1": {"at_most": 0.0}}
    assert {t.state.name for t in ours.trials} == {"COMPLETE"} and len(ours.trials) == 14
    feasible = [all(c <= 0 for c in t.system_attrs["constraints"]) for t in study.trials]
    assert sum(t.feasible is True for t in ours.trials) == sum(feasible)
    assert values_of(ours.front) == values_of(study.best_trials)


def test_four_threads(coordinator_folder: Path) -> None:
    sampler = LuthierSampler("tpe", seed=1, db=str(coordinator_folder), constraints_func=lambda t: (t.params["x"] - 0.7,))
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.optimize(trade_off, n_trials=24, n_jobs=4)
    study.optimize(trade_off, n_trials=1)  # Takes along what the threads found.
    assert {t.state for t in study.trials} == {COMPLETE}
    ours = sampler.luthier_studies()[-1]
    assert values_of([t for t in ours.trials if t.values]) == values_of(study.trials)


def test_trials_without_constraints_and_numbers_that_change(coordinator_folder: Path) -> None:
    def limits(trial: Any) -> Any:
        return (-1.0,) if trial.number == 4 else (trial.params["x"] - 0.7, -1.0)

    sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder), constraints_func=limits)
    study = optuna.create_study(sampler=sampler)
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trial(optuna.create_trial(params={"x": 0.5}, distributions=space, value=1))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=8)
    assert len(study.trials) == 9
    ours = sampler.luthier_studies()[-1]
    states = [t.state.name for t in ours.trials]
    assert "FAILED" not in states  # A trial that lacks a constraint teaches nothing.
    known = sorted(round(t.value, 9) for t in ours.trials if t.value is not None)
    assert known == sorted(round(t.value, 9) for t in study.trials if t.number not in (0, 4))


def test_a_constraint_that_is_no_number_is_said_as_by_optuna(coordinator_folder: Path) -> None:
    found: list[Any] = [-1.0, -1.0, -1.0]
    sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder), constraints_func=lambda t: (found[t.number % 3],))
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.optimize(trade_off, n_trials=3)
    for wrong, error in ((math.nan, ValueError), (None, TypeError)):
        found[:] = [wrong] * 3
        with pytest.raises(error):
            study.optimize(trade_off, n_trials=1)
    found[:] = [-1.0] * 3
    study.optimize(trade_off, n_trials=3)
    ours = sampler.luthier_studies()[-1]
    assert sorted(t.state.name for t in ours.trials).count("CANCELLED") == 2  # Nobody holds a trial any more.
    assert not [t for t in ours.trials if not t.state.is_finished()]


def test_values_that_are_no_numbers_and_pruned_trials(coordinator_folder: Path) -> None:
    def objective(trial: Any) -> Any:
        x = trial.suggest_float("x", 0, 1)
        if trial.number == 3:
            raise optuna.TrialPruned
        return {4: (math.nan, 1.0), 5: (1.0,), 6: (math.inf, 1.0)}.get(trial.number, (x, x))

    sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder))
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(objective, n_trials=9)
    (ours,) = sampler.luthier_studies()
    assert sorted(t.state.name for t in ours.trials) == ["COMPLETE"] * 5 + ["FAILED"] * 3 + ["PRUNED"]


def test_more_constraints_than_metrics(coordinator_folder: Path) -> None:
    sampler = LuthierSampler(
        "random", seed=1, db=str(coordinator_folder), constraints_func=lambda t: [t.params["x"] - i / 10 for i in range(5, 15)]
    )
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.optimize(trade_off, n_trials=6)
    ours = sampler.luthier_studies()[-1]
    assert ours.constraints == {"constraint": {"at_most": 0.0}}
    assert all(t.metrics["constraint"] == pytest.approx(t.params["x"] - 0.5) for t in ours.trials)


def test_parameters_named_as_metrics(coordinator_folder: Path) -> None:
    for directions in (["minimize"], MIN_MAX):
        sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder), constraints_func=lambda t: (t.number - 3.0,))
        study = optuna.create_study(directions=directions, sampler=sampler)

        def objective(trial: Any) -> Any:
            names = ["value", "value_", "value_0", "constraint_0", "constraint"]
            return [sum(trial.suggest_float(name, 0, 1) for name in names)] * len(directions)

        study.optimize(objective, n_trials=5)
        ours = sampler.luthier_studies()[-1]
        assert values_of(ours.trials) == values_of(study.trials)
        assert sorted(t.feasible for t in ours.trials) == [False, True, True, True, True]


def test_eight_objectives_and_no_more(coordinator_folder: Path) -> None:
    def run(n: int) -> Any:
        sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder))
        study = optuna.create_study(directions=["minimize"] * n, sampler=sampler)
        study.optimize(lambda t: tuple(t.suggest_float("x", 0, 1) + i for i in range(n)), n_trials=3)
        return sampler.luthier_studies()[-1]

    assert len(run(8).goals) == 8
    with pytest.raises((ValueError, luthier.LuthierError), match="9.*8"):
        run(9)


def test_settings_are_not_asked_twice_in_a_finite_space(coordinator_folder: Path) -> None:
    sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder))
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler)
    study.optimize(lambda t: (t.suggest_int("a", 0, 2), t.suggest_categorical("b", [1, 2])), n_trials=9)  # Has 6 settings.
    assert len(study.trials) == 9
    assert len({tuple(sorted(t.params.items())) for t in study.trials}) == 6


# --- There and back ---


def bounded(names: Optional[list[str]] = None) -> Any:
    sampler = optuna.samplers.RandomSampler(seed=3)
    study = optuna.create_study(directions=MIN_MAX, sampler=sampler, study_name="there")
    if names:
        study.set_metric_names(names)
    study.optimize(trade_off, n_trials=8)
    out = optuna.create_study(directions=MIN_MAX, study_name="there")
    if names:
        out.set_metric_names(names)
    for trial in study.trials:
        attributes = {"constraints": [trial.params["x"] - 0.6, -1.0]} if trial.number else {}
        out.add_trial(
            optuna.create_trial(
                values=trial.values, params=trial.params, distributions=trial.distributions, system_attrs=attributes
            )
        )
    return out


@pytest.mark.filterwarnings("ignore")
def test_studies_come_with_their_objectives_and_constraints(
    name: str, coordinator_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = bounded(["loss", "score"])
    study = luthier.from_optuna(source, name, algorithm="random", db=str(coordinator_folder))
    assert study.goals == {"loss": "minimize", "score": "maximize"}
    assert study.constraints == {"constraint_0": {"at_most": 0.0}, "constraint_1": {"at_most": 0.0}}
    assert "1 trials of there are left out: they lack constraints" in caplog.text
    assert [t.values for t in study.trials] == [t.values for t in source.trials[1:]]
    assert [t.feasible for t in study.trials] == [t.params["x"] <= 0.6 for t in source.trials[1:]]
    back = luthier.to_optuna(study)
    assert back.metric_names == ["loss", "score"] and back.directions == source.directions
    for was, now in zip(source.trials[1:], back.trials):
        assert (was.values, was.params) == (now.values, now.params)
        assert now.system_attrs["constraints"] == pytest.approx(was.system_attrs["constraints"])
    assert values_of(back.best_trials) == values_of(study.front)


@pytest.mark.filterwarnings("ignore")
def test_studies_go_into_those_that_fit(name: str, coordinator_folder: Path) -> None:
    words, source = {"algorithm": "random", "db": str(coordinator_folder)}, bounded(["a b", "c"])
    assert list(luthier.from_optuna(source, name, **words).goals) == ["value_0", "value_1"]
    goals: Any = {"a": "minimize", "b": "maximize"}
    study = luthier.study(name + "-b", goals=goals, constraints={"constraint": {"at_most": 0}}, **words)
    assert len(study.import_trials(source)) == 7
    assert [t.metrics["constraint"] for t in study.trials] == [t.params["x"] - 0.6 for t in source.trials[1:]]
    with pytest.raises(ValueError, match="has the constraints 0, 1, for which .* has no bounds.*constraint_0"):
        luthier.study(name + "-c", goals=goals, **words).import_trials(source)
    with pytest.raises(ValueError, match="wants its values to minimize, maximize; .* luthier.from_optuna"):
        luthier.study(name + "-d", **words).import_trials(source)


def test_studies_in_optunas_words_go_back(coordinator_folder: Path) -> None:
    sampler = luthier.samplers.TPESampler(seed=1, constraints_func=lambda t: (t.params["x"] - 0.5,))
    study = luthier.create_study(directions=MIN_MAX, sampler=sampler, db=str(coordinator_folder))
    study.optimize(trade_off, n_trials=12)
    study.tell(study.ask(), state=luthier.trial.TrialState.PRUNED)
    back = luthier.to_optuna(study)
    assert values_of(back.best_trials) == values_of(study.best_trials)
    assert back.trials[-1].state == optuna.trial.TrialState.PRUNED and back.trials[-1].values is None


def test_objectives_named_as_parameters_get_other_names(name: str, coordinator_folder: Path) -> None:
    db = str(coordinator_folder)
    theirs = optuna.create_study(directions=MIN_MAX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.set_metric_names(["x", "acc"])
    theirs.optimize(trade_off, n_trials=4)
    ours = luthier.from_optuna(theirs, name, db=db)
    assert ours.goals == {"value_0": "minimize", "value_1": "maximize"}
    assert values_of(ours.trials) == values_of(theirs.trials)

    def alike(trial: Any) -> float:
        x = trial.suggest_float("value", 0, 1) + trial.suggest_float("constraint_0", 0, 1)
        trial.set_user_attr("limits", [x - 0.7])
        return x

    one = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=1, constraints_func=lambda trial: trial.user_attrs["limits"])
    )
    one.optimize(alike, n_trials=4)
    ours = luthier.from_optuna(one, name + "-one", db=db)
    assert ours.goals == {"value_": "minimize"} and ours.constraints == {"constraint_0_": {"at_most": 0.0}}
    assert [t.metrics["constraint_0_"] for t in ours.trials] == [t.user_attrs["limits"][0] for t in one.trials]


def test_a_study_that_can_not_be_filled_is_not_left_behind(name: str, coordinator_folder: Path) -> None:
    db = str(coordinator_folder)
    theirs = optuna.create_study(directions=MIN_MAX)
    theirs.optimize(trade_off, n_trials=2)
    declared = {"space": {"x": luthier.Float(5, 6)}, "db": db}
    with pytest.raises(luthier.BadField):
        luthier.from_optuna(theirs, name, **declared)
    assert name not in [study.name for study in luthier.studies(db=db)]
    made = luthier.study(name, declared["space"], goals={"value_0": "minimize", "value_1": "maximize"}, db=db)
    with pytest.raises(luthier.BadField):
        luthier.from_optuna(theirs, name, **declared)
    assert len(made) == 0  # It was there before, and stays.


def test_eight_objectives_with_constraints_are_refused_at_once(name: str, coordinator_folder: Path) -> None:
    words = "has 8 objectives, and its constraints are one more metric; a study here has at most 8: leave an objective out"
    tried: list[int] = []

    def objective(trial: Any) -> list[float]:
        tried.append(trial.number)
        return [trial.suggest_float("x", 0, 1)] * 8

    sampler = LuthierSampler("random", db=str(coordinator_folder), constraints_func=lambda trial: (0.0,))
    with pytest.raises(ValueError, match=words):
        optuna.create_study(directions=["minimize"] * 8, sampler=sampler).optimize(objective, n_trials=2)
    assert not tried
    own = optuna.samplers.RandomSampler(seed=1)
    theirs = optuna.create_study(directions=["minimize"] * 8, sampler=own)
    theirs.add_trial(
        optuna.trial.create_trial(values=[0.5] * 8, params={}, distributions={}, system_attrs={"constraints": [0.0]})
    )
    with pytest.raises(ValueError, match=words):
        luthier.from_optuna(theirs, name, db=str(coordinator_folder))
