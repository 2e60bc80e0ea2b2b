"""LuthierSampler beyond Optuna's own suite: what the coordinator learns, and from whom."""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import luthier

pytestmark = pytest.mark.peers
optuna = pytest.importorskip("optuna", minversion="4.0", reason="Optuna is not installed: pip install optuna")

from luthier.integrations.optuna import LuthierSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)


def branin(trial: Any) -> float:
    import math

    x = trial.suggest_float("x", -5, 10)
    y = trial.suggest_float("y", 0, 15)
    a = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return float(a * a + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


def states(study: luthier.Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


def test_finds_the_minimum_of_branin(coordinator_folder: Path) -> None:
    study = optuna.create_study(sampler=LuthierSampler(seed=1, db=str(coordinator_folder)))
    study.optimize(branin, n_trials=40)
    assert study.best_value - 0.39788735772973816 < 1e-4


def test_a_seed_fixes_the_search(coordinator_folder: Path) -> None:
    def run(seed: int) -> list[dict[str, float]]:
        study = optuna.create_study(sampler=LuthierSampler(seed=seed, db=str(coordinator_folder)))
        study.optimize(branin, n_trials=12)
        return [trial.params for trial in study.trials]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_results_of_others_are_imported_once(coordinator_folder: Path) -> None:
    sampler = LuthierSampler(db=str(coordinator_folder))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
    study.optimize(branin, n_trials=5)
    study.sampler = sampler
    study.enqueue_trial({"x": 1.0, "y": 2.0})
    study.optimize(branin, n_trials=3)
    (ours,) = sampler.luthier_studies()
    assert states(ours) == ["COMPLETE"] * 8
    values = {round(trial.value or 0.0, 9) for trial in ours.trials}
    assert values == {round(trial.value, 9) for trial in study.trials}
    study.sampler = pickle.loads(pickle.dumps(sampler))  # Finds the same study, and what it knows.
    study.optimize(branin, n_trials=2)
    assert states(ours) == ["COMPLETE"] * 10


def test_failures_and_pruned_trials(coordinator_folder: Path) -> None:
    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0, 1))
        trial.report(x, 1)
        if trial.number == 3:
            raise optuna.TrialPruned
        if trial.number == 4:
            raise ValueError("diverged")
        return x

    sampler = LuthierSampler(db=str(coordinator_folder))
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.optimize(objective, n_trials=6, catch=(ValueError,))
    (ours,) = sampler.luthier_studies()
    assert sorted(states(ours)) == ["COMPLETE"] * 4 + ["FAILED", "PRUNED"]
    assert ours.best_value == study.best_value


def test_many_failures_in_a_row_do_not_end_the_search(coordinator_folder: Path) -> None:
    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0, 1))
        if 2 <= trial.number < 30:
            raise ValueError("diverged")
        return x

    study = optuna.create_study(sampler=LuthierSampler("random", db=str(coordinator_folder)))
    study.optimize(objective, n_trials=33, catch=(ValueError,))
    assert len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))) == 5


def test_gradients_reach_the_coordinator(coordinator_folder: Path) -> None:
    def objective(trial: Any) -> float:
        values = [trial.suggest_float(f"x{i}", -5, 5) for i in range(8)]
        trial.set_user_attr("luthier:gradient", {f"x{i}": 2 * (v - i / 4) for i, v in enumerate(values)})
        return float(sum((v - i / 4) ** 2 for i, v in enumerate(values)))

    study = optuna.create_study(sampler=LuthierSampler("fobo", seed=1, db=str(coordinator_folder)))
    study.optimize(objective, n_trials=15)
    assert study.best_value < 1e-6


def test_names_and_choices_that_luthier_would_refuse(coordinator_folder: Path) -> None:
    def objective(trial: Any) -> float:
        rate = trial.suggest_float("optimizer/learning rate", 1e-4, 1.0, log=True)
        kind = trial.suggest_categorical("é", [None, True, 1, 1.5, "1", "x" * 500])
        return float(rate + (kind is not None))

    sampler = LuthierSampler(db=str(coordinator_folder))
    study = optuna.create_study(sampler=sampler, study_name=f"Größe / {uuid.uuid4()}")
    study.optimize(objective, n_trials=15)
    assert len(sampler.luthier_studies()) == 1


def test_other_values_than_those_asked_are_told_as_they_were(coordinator_folder: Path) -> None:
    sampler = LuthierSampler(db=str(coordinator_folder))
    study = optuna.create_study(sampler=sampler)
    study.optimize(branin, n_trials=2)
    study.enqueue_trial({"x": 9.5})
    study.optimize(branin, n_trials=2)
    (ours,) = sampler.luthier_studies()
    given = sorted(round(trial.params["x"], 9) for trial in ours.trials if trial.state.name == "COMPLETE")
    assert given == sorted(round(trial.params["x"], 9) for trial in study.trials)


def test_several_objectives_and_constraints_are_told(coordinator_folder: Path) -> None:
    sampler = LuthierSampler(
        "random", seed=1, db=str(coordinator_folder), constraints_func=lambda trial: [trial.user_attrs["over"]]
    )
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)

    def objective(trial: Any) -> tuple[float, float]:
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        trial.set_user_attr("over", x - 0.5)
        return x, y

    study.optimize(objective, n_trials=12)
    (ours,) = [one for one in sampler.luthier_studies() if one.constraints]
    assert ours.goals == {"value_0": "minimize", "value_1": "maximize"}
    assert ours.constraints == {"constraint_0": {"at_most": 0.0}}
    assert len(ours.trials) == 12 and {trial.state.name for trial in ours.trials} == {"COMPLETE"}
    theirs = sorted(trial.values for trial in study.best_trials)
    assert sorted(trial.values for trial in ours.front) == theirs


def test_constraints_of_trials_are_told(coordinator_folder: Path) -> None:
    sampler = LuthierSampler("random", seed=1, db=str(coordinator_folder))
    study = optuna.create_study(sampler=sampler)
    if not hasattr(optuna.trial.Trial, "set_constraint"):
        pytest.skip("this Optuna has no Trial.set_constraint")

    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0, 1))
        trial.set_constraint("small", 0.25 - x)
        return x

    study.optimize(objective, n_trials=15)
    ours = sampler.luthier_studies()[-1]
    assert len(ours.trials) == 15
    assert ours.best_value == study.best_value == min(t.value for t in study.trials if t.value >= 0.25)


def test_algorithms_that_take_one_objective_say_so(coordinator_folder: Path) -> None:
    sampler = LuthierSampler("cma_es", db=str(coordinator_folder))
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    with pytest.raises(luthier.BadField, match="cma_es does not take several objectives"):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 1.0), n_trials=2)


def test_more_open_trials_than_one_worker_may_hold(coordinator_folder: Path) -> None:
    study = optuna.create_study(sampler=LuthierSampler("random", db=str(coordinator_folder)))
    study.optimize(branin, n_trials=1)
    trials = [study.ask() for _ in range(70)]
    for trial in trials:
        study.tell(trial, branin(trial))
    assert len(study.trials) == 71


PROCESS = """
import sys, optuna
from luthier.integrations.optuna import LuthierSampler
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.load_study(study_name="shared", storage=sys.argv[1], sampler=LuthierSampler(db=sys.argv[2]))
study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=6)
"""


def test_processes_share_what_they_learn(coordinator_folder: Path, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/optuna.db"
    sampler = LuthierSampler(db=str(coordinator_folder))
    study = optuna.create_study(study_name="shared", storage=storage, sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=4)
    command = [sys.executable, "-c", PROCESS, storage, str(coordinator_folder)]
    both = [subprocess.Popen(command), subprocess.Popen(command)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=2)
    (ours,) = sampler.luthier_studies()
    assert states(ours) == ["COMPLETE"] * 18


def test_loads_as_an_optunahub_module(tmp_path: Path, coordinator_folder: Path) -> None:
    hub = pytest.importorskip("optunahub", reason="optunahub is not installed: pip install optunahub")
    package = tmp_path / "samplers" / "luthier"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from luthier.integrations.optuna import LuthierSampler\n")
    module = hub.load_local_module("samplers/luthier", registry_root=str(tmp_path))
    study = optuna.create_study(sampler=module.LuthierSampler(db=str(coordinator_folder)))
    study.optimize(branin, n_trials=3)
    assert len(study.trials) == 3
