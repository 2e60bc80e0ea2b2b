"""`import luthier as optuna`: every word of Optuna's is carried out, or refused by name with what to write instead."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

import luthier
import luthier as optuna
from luthier import _optuna_words as words
from luthier._optuna_refused import REFUSED

# What Optuna 4 and 5 have, by module.
OPTUNA = {
    "": "Study Trial TrialPruned artifacts copy_study create_study create_trial delete_study distributions exceptions "
    "get_all_study_names get_all_study_summaries importance integration load_study logging progress_bar pruners samplers "
    "search_space storages study terminator trial version visualization",
    "samplers": "BaseSampler BaseGASampler BruteForceSampler CmaEsSampler GridSampler NSGAIISampler NSGAIIISampler "
    "PartialFixedSampler QMCSampler RandomSampler TPESampler GPSampler nsgaii MOTPESampler IntersectionSearchSpace",
    "pruners": "BasePruner HyperbandPruner MedianPruner NopPruner PatientPruner PercentilePruner SuccessiveHalvingPruner "
    "ThresholdPruner WilcoxonPruner",
    "distributions": "BaseDistribution CategoricalDistribution DISTRIBUTION_CLASSES DiscreteUniformDistribution "
    "FloatDistribution IntDistribution IntLogUniformDistribution IntUniformDistribution LogUniformDistribution "
    "UniformDistribution check_distribution_compatibility distribution_to_json json_to_distribution",
    "exceptions": "CLIUsageError DuplicatedStudyError ExperimentalWarning OptunaError StorageInternalError TrialPruned "
    "UpdateFinishedTrialError",
    "importance": "BaseImportanceEvaluator FanovaImportanceEvaluator MeanDecreaseImpurityImportanceEvaluator "
    "PedAnovaImportanceEvaluator get_param_importances",
    "logging": "CRITICAL DEBUG ERROR FATAL INFO WARN WARNING get_logger set_verbosity get_verbosity "
    "enable_default_handler disable_default_handler enable_propagation disable_propagation",
    "trial": "BaseTrial FixedTrial FrozenTrial Trial TrialState create_trial",
    "study": "MaxTrialsCallback StudyDirection StudySummary copy_study create_study delete_study get_all_study_names "
    "get_all_study_summaries load_study Study",
    "storages": "BaseStorage BaseJournalLogStorage InMemoryStorage RDBStorage JournalStorage JournalFileStorage "
    "JournalRedisStorage JournalFileSymlinkLock JournalFileOpenLock RetryHeartbeatStaleTrialCallback "
    "RetryFailedTrialCallback fail_stale_trials GrpcStorageProxy run_grpc_proxy_server",
}
OF_STUDY = (
    "add_trial add_trials ask best_params best_trial best_trials best_value direction directions enqueue_trial get_trials "
    "metric_names optimize set_metric_names set_user_attr stop tell trials trials_dataframe user_attrs system_attrs "
    "set_system_attr study_name sampler pruner"
)
OF_TRIAL = (
    "constraints datetime_start distributions number params relative_params report set_constraint set_user_attr "
    "should_prune suggest_categorical suggest_discrete_uniform suggest_float suggest_int suggest_loguniform "
    "suggest_uniform user_attrs system_attrs set_system_attr"
)
OF_FROZEN = (
    "constraints datetime_start datetime_complete distributions duration last_step number params report set_constraint "
    "set_user_attr should_prune state suggest_categorical suggest_discrete_uniform suggest_float suggest_int "
    "suggest_loguniform suggest_uniform system_attrs user_attrs value values intermediate_values"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session_db: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUTHIER_DB", session_db)


def carried_out(of: Any, name: str) -> bool:
    """Whether a word is there; else it is refused with what to write instead. No word is an AttributeError."""
    try:
        found = getattr(of, name)
        if getattr(found, "func", None) is not None and found.func.__name__ == "refuse":
            found()
    except luthier.Unsupported as error:
        assert name in str(error) and "is not supported here; instead: " in str(error)
        return False
    return True


@pytest.mark.parametrize("module", OPTUNA)
def test_every_word_is_carried_out_or_refused(module: str) -> None:
    of = getattr(optuna, module) if module else optuna
    refused = {name for name in OPTUNA[module].split() if not carried_out(of, name)}
    assert refused == set(REFUSED.get(module, {})) & set(OPTUNA[module].split())
    with pytest.raises(AttributeError):
        getattr(of, "no_such_word")


def test_every_word_of_studies_and_trials() -> None:
    study = optuna.create_study()
    trial = study.ask()
    refused = {name for name in OF_TRIAL.split() if not carried_out(trial, name)}
    assert refused == {"relative_params", "system_attrs", "set_system_attr"}
    study.tell(trial, 1.0)
    refused = {name for name in OF_STUDY.split() if not carried_out(study, name)}
    assert refused == {"set_metric_names", "system_attrs", "set_system_attr", "sampler", "pruner"}
    for name in ("sampler", "pruner"):
        with pytest.raises(luthier.Unsupported, match="stays as the study was made"):
            setattr(study, name, None)
    assert study.direction == "minimize" == optuna.study.StudyDirection.MINIMIZE and study.direction.name == "MINIMIZE"
    assert study.trials[0].duration.total_seconds() == study.trials[0].duration
    frozen = study.trials[0]
    refused = {name for name in OF_FROZEN.split() if not carried_out(frozen, name)}
    assert refused == set(REFUSED["FrozenTrial"])
    for of in (study, trial, frozen):
        with pytest.raises(AttributeError):
            getattr(of, "no_such_word")


@pytest.mark.peers
def test_no_word_of_the_installed_optuna_is_missing() -> None:
    if importlib.util.find_spec("optuna") is None:
        pytest.skip("optuna is not installed: tools/install_packages.sh peers")
    for module, known in OPTUNA.items():
        real = importlib.import_module(f"optuna.{module}" if module else "optuna")
        public = getattr(real, "__all__", None) or known.split()
        of = getattr(optuna, module) if module else optuna
        for name in (word for word in public if not word.startswith("_")):
            carried_out(of, name)  # An AttributeError names the word.


REFUSALS: dict[str, Any] = {
    "gamma": lambda: optuna.samplers.TPESampler(gamma=len),
    "group": lambda: optuna.samplers.TPESampler(group=True),
    "sigma0": lambda: optuna.samplers.CmaEsSampler(sigma0=0.1),
    "source_trials": lambda: optuna.samplers.CmaEsSampler(source_trials=[1]),
    "independent_sampler": lambda: optuna.samplers.GPSampler(independent_sampler=1),
    "n_min_trials": lambda: optuna.pruners.MedianPruner(n_min_trials=3),
    "evaluator": lambda: optuna.importance.get_param_importances(None, evaluator=1),
    "target": lambda: optuna.importance.get_param_importances(None, target=len),
    "multi_index": lambda: optuna.create_study().trials_dataframe(multi_index=True),
    "Other": lambda: optuna.create_study(sampler=type("Other", (), {})()),
    "Rule": lambda: optuna.create_study(pruner=type("Rule", (), {})()),
    "system_attrs": lambda: optuna.create_trial(value=1.0, system_attrs={"a": 1}),
}


@pytest.mark.parametrize("word", REFUSALS)
def test_options_that_can_not_be_carried_out_are_refused_by_name(word: str) -> None:
    with pytest.raises(luthier.Unsupported, match=f"{word}.*instead: "):
        REFUSALS[word]()


def test_options_that_optuna_has_not_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="TPESampler has no 'n_trials'"):
        optuna.samplers.TPESampler(n_trials=3)
    with pytest.raises(ValueError, match="one objective.*weighted sum"):
        optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="db='DIR'"):
        optuna.create_study(storage="mysql://a/b")
    with pytest.raises(ValueError, match="coordinator"):
        optuna.create_study(storage="sqlite:///:memory:")


def test_options_of_samplers_and_pruners_are_carried_out() -> None:
    samplers, study = optuna.samplers, None
    made = {
        "tpe": samplers.TPESampler(seed=3, n_startup_trials=4, n_ei_candidates=8, multivariate=False),
        "bo": samplers.GPSampler(n_startup_trials=7),
        "cma_es": samplers.CmaEsSampler(popsize=6, seed=1),
        "random": samplers.RandomSampler(2),
    }
    specs = {}
    for name, sampler in made.items():
        study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.PercentilePruner(30.0, 2, 1, 3))
        specs[name] = study.spec["algorithm"][name]
        assert study.spec["stopping"]["percentile"] == {"percentile": 30.0, "min_trials": 2, "warmup": 1, "interval": 3}
    assert specs["tpe"]["startup_trials"] == 4 and specs["tpe"]["candidates"] == 8 and not specs["tpe"]["multivariate"]
    assert specs["bo"]["initial_points"] == 7 and specs["cma_es"]["population"] == 6
    assert words._qmc(qmc_type="halton", scramble=True).algorithm == {"halton": {"scramble": True}}
    assert study is not None and study.spec["seed"] == 2


def test_results_that_violate_a_constraint_do_not_count() -> None:
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=1, constraints_func=lambda t: t.user_attrs["c"])
    )

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", -10, 10)
        trial.set_user_attr("c", (9 - x,))
        return float(x**2)

    study.enqueue_trial({"x": 9.5})
    study.optimize(objective, n_trials=60)  # Nearly all are ruled out; more than 20 in a row are no reason to pause.
    assert study.best_params["x"] >= 9 and len(study.trials) == 60 and study.state != "PAUSED"
    ruled_out = [t for t in study.trials if t.state == "FAILED"]
    assert ruled_out and all(t.failure.startswith("INFEASIBLE: constraint 1 of constraints_func is") for t in ruled_out)
    loaded = optuna.load_study(
        study_name=study.study_name, sampler=optuna.samplers.TPESampler(constraints_func=lambda t: (1.0,))
    )
    trial = loaded.ask()
    assert loaded.tell(trial, 0.0).state == "FAILED"
    with pytest.raises(luthier.Unsupported, match="n_jobs"):
        loaded.optimize(objective, n_trials=1, processes=1)


def test_constraints_that_trials_set() -> None:
    study = optuna.create_study()

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", -1, 1)
        trial.set_constraint("positive", -x)
        assert trial.constraints == {"positive": -x}
        return float(x**2)

    study.optimize(objective, n_trials=20)
    assert study.best_params["x"] >= 0
    assert any("constraint positive" in t.failure for t in study.trials)


def test_a_study_keeps_its_algorithm_when_it_is_loaded() -> None:
    name = optuna.create_study(study_name="Kept", sampler=optuna.samplers.RandomSampler()).study_name
    assert name == "Kept"
    optuna.load_study(study_name="Kept", sampler=optuna.samplers.RandomSampler())
    with pytest.raises(ValueError, match="algorithm random and keeps it"):
        optuna.load_study(study_name="Kept", sampler=optuna.samplers.TPESampler())
    with pytest.raises(ValueError, match="pruner"):
        optuna.load_study(study_name="Kept", pruner=optuna.pruners.MedianPruner())
    with pytest.raises(luthier.StudyExists, match="Kept"):
        optuna.create_study(study_name="Kept", load_if_exists=False)
    assert {"Kept"} <= set(optuna.get_all_study_names())
    assert words._legal("Kept") != words._legal("kept") == "kept" and words._legal("a/b") == "a/b"


def test_stop_ends_the_call_and_not_the_study() -> None:
    study = optuna.create_study()

    def objective(trial: Any) -> float:
        if trial.number == 3:
            study.stop()
        return float(trial.suggest_float("x", 0, 1))

    study.optimize(objective, n_trials=10)
    assert len(study.trials) == 3
    study.optimize(objective, n_trials=2)
    assert len(study.trials) == 5
    with pytest.raises(RuntimeError, match="within an objective"):
        study.stop()


def test_the_log_is_printed_where_that_is_wanted() -> None:
    import logging

    log = logging.getLogger("luthier")
    level = log.level
    try:
        optuna.logging.enable_default_handler()
        assert words._default_handler in log.handlers and optuna.logging.get_verbosity() == optuna.logging.INFO
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        assert not log.isEnabledFor(logging.INFO)
    finally:
        optuna.logging.disable_default_handler()
        log.setLevel(level)
    assert words._default_handler not in log.handlers
    assert optuna.logging.get_logger("other").name == "other"
    log.setLevel(level)
