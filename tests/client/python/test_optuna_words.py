"""`import luthier as optuna`: every word of Optuna's is carried out, or refused by name with what to write instead."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import luthier
import luthier as optuna
from luthier import _optuna_create as create
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
    "crossover_prob": lambda: optuna.samplers.NSGAIISampler(crossover_prob=0.5),
    "reference_points": lambda: optuna.samplers.NSGAIIISampler(reference_points=[[1.0]]),
    "sigma0": lambda: optuna.samplers.CmaEsSampler(sigma0=0.1),
    "source_trials": lambda: optuna.samplers.CmaEsSampler(source_trials=[1]),
    "independent_sampler": lambda: optuna.samplers.GPSampler(independent_sampler=1),
    "n_min_trials": lambda: optuna.pruners.MedianPruner(n_min_trials=3),
    "evaluator": lambda: optuna.importance.get_param_importances(None, evaluator=1),
    "target": lambda: optuna.importance.get_param_importances(None, target=len),
    "QMCSampler": lambda: optuna.samplers.QMCSampler(scramble=True),
    "x0": lambda: optuna.samplers.CmaEsSampler({"x": 1.0}, 0.1),
    "categorical_distance_func": lambda: optuna.samplers.TPESampler(categorical_distance_func={"x": len}),
    "hyperopt_parameters": lambda: optuna.samplers.TPESampler.hyperopt_parameters(),
    "reseed_rng": lambda: optuna.samplers.RandomSampler().reseed_rng(),
    "class TPESampler": lambda: optuna.create_study(sampler=optuna.samplers.TPESampler),
    "MedianPruner": lambda: optuna.create_study(pruner=optuna.pruners.MedianPruner),
    "BaseSampler": lambda: type("Mine", (optuna.samplers.TPESampler,), {}),
    "heartbeat_interval": lambda: optuna.storages.RDBStorage("sqlite:///a.db", heartbeat_interval=60),
    "IntLogUniformDistribution.*step": lambda: optuna.distributions.IntLogUniformDistribution(1, 9, 2),
    "to_internal_repr": lambda: optuna.distributions.FloatDistribution(0, 1).to_internal_repr(0.5),
    "Trial.system_attrs": lambda: optuna.trial.FixedTrial({}).system_attrs,
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
    with pytest.raises(TypeError, match="NSGAIISampler has no 'dividing_parameter'"):
        optuna.samplers.NSGAIISampler(dividing_parameter=3)
    with pytest.raises(ValueError, match="db='DIR'"):
        optuna.create_study(storage="mysql://a/b")
    with pytest.raises(ValueError, match="coordinator"):
        optuna.create_study(storage="sqlite:///:memory:")
    with pytest.raises(ValueError, match="storage is 'a.db'"):
        optuna.create_study(storage="a.db")
    with pytest.raises(ValueError, match="not both"):
        optuna.create_study(direction="maximize", directions=["minimize"])
    with pytest.raises(ValueError, match="not both"):
        optuna.create_trial(value=1.0, values=[1.0])
    with pytest.raises(ValueError, match="9 numbers.* 1 to 8"):
        optuna.create_trial(values=[1.0] * 9)
    with pytest.raises(ValueError, match=r"params has \['x'\], distributions \[\]"):
        optuna.create_trial(value=1.0, params={"x": 1.0})


def test_options_of_samplers_and_pruners_are_carried_out() -> None:
    samplers, study = optuna.samplers, None
    made = {
        "tpe": samplers.TPESampler(seed=3, n_startup_trials=4, n_ei_candidates=8, multivariate=False),
        "bo": samplers.GPSampler(n_startup_trials=7),
        "cma_es": samplers.CmaEsSampler(popsize=6, seed=1),
        "nsga2": samplers.NSGAIISampler(population_size=12),
        "random": samplers.RandomSampler(2),
    }
    specs = {}
    for name, sampler in made.items():
        study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.PercentilePruner(30.0, 2, 1, 3))
        specs[name] = study.spec["algorithm"][name]
        assert study.spec["stopping"]["percentile"] == {"percentile": 30.0, "min_trials": 2, "warmup": 1, "interval": 3}
    assert specs["tpe"]["startup_trials"] == 4 and specs["tpe"]["candidates"] == 8 and not specs["tpe"]["multivariate"]
    assert specs["bo"]["initial_points"] == 7 and specs["cma_es"]["population"] == 6
    assert specs["nsga2"]["population"] == 12
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
    study.optimize(objective, n_trials=60)
    assert study.best_params["x"] >= 9 and len(study.trials) == 60
    assert {t.state.value for t in study.trials} == {"COMPLETE"}
    assert [t.feasible for t in study.trials] == [t.params["x"] >= 9 for t in study.trials]
    assert all(t.constraints == {"0": 9 - t.params["x"]} and t.value == t.params["x"] ** 2 for t in study.trials)
    loaded = optuna.load_study(
        study_name=study.study_name, sampler=optuna.samplers.TPESampler(constraints_func=lambda t: (-1.0, 1.0))
    )
    told = loaded.tell(loaded.ask(), 0.0, state=optuna.trial.TrialState.COMPLETE)
    assert (told.state, told.feasible, told.constraints) == ("COMPLETE", False, {"0": -1.0, "1": 1.0})
    with pytest.raises(luthier.Unsupported, match="n_jobs"):
        loaded.optimize(objective, n_trials=1, processes=1)


def test_a_study_that_was_made_without_constraints_fails_what_violates_them() -> None:
    name = optuna.create_study(study_name="unbounded", algorithm="tpe").study_name
    sampler = optuna.samplers.TPESampler(constraints_func=lambda t: (1.0 if t.number <= 30 else -1.0,))
    study = optuna.load_study(study_name=name, sampler=sampler)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=32)  # Though more than 20 in a row fail.
    failed = [t for t in study.trials if t.state == "FAILED"]
    assert len(failed) == 30 and all(t.failure.startswith("INFEASIBLE: constraint 0 is 1, not") for t in failed)


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
    assert create._legal("Kept") != create._legal("kept") == "kept" and create._legal("a/b") == "a/b"


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


def test_words_are_imported_from_modules() -> None:
    program = """
        from luthier.samplers import TPESampler
        from luthier.study import MaxTrialsCallback, StudyDirection
        from luthier.trial import TrialState
        from luthier.exceptions import TrialPruned
        import luthier, luthier.logging
        assert TPESampler is luthier.samplers.TPESampler and isinstance(TPESampler(), TPESampler)
        for refused in ("import luthier.visualization as vis", "from luthier.visualization import plot_slice",
                        "from luthier.pruners import HyperbandPruner", "from luthier.study import copy_study",
                        "from luthier.integration import KerasPruningCallback"):
            try:
                exec(refused)
                exec("copy_study()")
            except luthier.Unsupported as error:
                assert "instead: " in str(error)
            else:
                raise AssertionError(refused)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_studies_without_a_seed_have_one_of_their_own() -> None:
    def first(**words: Any) -> float:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(**words))
        return float(study.ask().suggest_float("x", 0, 1))

    assert first() != first() and first(seed=3) == first(seed=3)
    seeds = {optuna.create_study(study_name=name).spec["seed"] for name in ("own-a", "own-b", "own-a")}
    assert len(seeds) == 2
    luthier.study("seedless", db=os.environ["LUTHIER_DB"])  # Of before: its seed is 0.
    assert "seed" not in optuna.create_study(study_name="seedless").spec


def test_data_frames_have_the_columns_of_optuna() -> None:
    pytest.importorskip("pandas")
    study = optuna.create_study()

    def objective(trial: Any) -> float:
        trial.set_user_attr("team", ["vision"])
        if trial.number == 2:
            raise ValueError
        return float(trial.suggest_float("x", 0, 1) + trial.suggest_int("a", 1, 3))

    study.optimize(objective, n_trials=2, catch=ValueError)
    frame = study.trials_dataframe()
    assert list(frame.columns) == [
        "number", "value", "datetime_start", "datetime_complete", "duration", "params_a", "params_x", "user_attrs_team",
        "state",
    ]  # fmt: skip
    assert frame["user_attrs_team"].tolist() == [["vision"]] * 2 and frame["state"].tolist() == ["COMPLETE", "FAIL"]
    assert frame["duration"].dt.total_seconds().gt(0).all()
    assert ("params", "x") in study.trials_dataframe(attrs=("params",), multi_index=True).columns
    assert list(study.trials_dataframe(attributes=["team"]).columns)[:2] == ["number", "state"]


def test_trials_go_from_one_study_to_another() -> None:
    old = optuna.create_study()

    def objective(trial: Any) -> float:
        a = trial.suggest_float("a", 0, 1)
        b = trial.suggest_float("b", 0, 1 - a)
        kind = trial.suggest_categorical("kind", [None, "x", 3])
        for step in range(3):
            trial.report(a + step, step)
        if trial.number == 2:
            raise optuna.TrialPruned
        return a + b + len(str(kind))

    old.optimize(objective, n_trials=4)
    new = optuna.create_study()
    new.enqueue_trial({"a": 0.25, "kind": 3})
    new.add_trials(old.trials)
    new.optimize(objective, n_trials=2)
    first, *copies, last = new.trials
    assert first.params["a"] == 0.25 and first.params["kind"] == 3 and last.state == "COMPLETE"
    for was, now in zip(old.trials, copies):
        assert (was.params, was.value, was.state) == (now.params, now.value, now.state)
        assert was.intermediate_values == now.intermediate_values == old.trial(was.number).intermediate_values
        assert len(now.intermediate_values) == 3 and was.last_step == 2
    assert old.trials[0].distributions["a"] == optuna.distributions.FloatDistribution(0, 1)
    again = pickle.loads(pickle.dumps(copies[0]))
    assert again == copies[0] and again.distributions == copies[0].distributions


def test_constraints_see_the_learning_curve() -> None:
    def worst(trial: Any) -> Any:
        return [max(trial.intermediate_values.values()) - 1]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(constraints_func=worst))
    study.optimize(lambda t: [t.report(2.0 if t.number == 1 else 0.5, 1) and 1.0], n_trials=2)
    assert [t.feasible for t in study.trials] == [False, True]
    wrong = optuna.create_study(sampler=optuna.samplers.TPESampler(constraints_func=lambda t: 1.0))
    with pytest.raises(TypeError, match="sequence of numbers"):
        wrong.optimize(lambda t: 1.0, n_trials=1)


def test_fixed_trials() -> None:
    trial = optuna.trial.FixedTrial({"x": 0.5, "kind": "b"})
    assert trial.suggest_float("x", 0, 1) == 0.5 and trial.suggest_categorical("kind", ["a", "b"]) == "b"
    trial.set_constraint("c", 1)
    assert trial.distributions["x"] == optuna.distributions.FloatDistribution(0, 1) and trial.constraints == {"c": 1.0}
    with pytest.raises(ValueError, match="'x' is 0.5"):
        trial.suggest_float("x", 1, 2)


def test_the_only_study_is_loaded_without_a_name(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/only.db"
    optuna.create_study(study_name="Only", storage=storage)
    assert optuna.load_study(study_name=None, storage=storage).study_name == "Only"
    optuna.create_study(study_name="team/b", storage=storage).optimize(lambda t: 1.0, n_trials=1)
    assert optuna.load_study(study_name="team/b", storage=storage).study_name == "team/b"


def test_a_pruner_without_reports_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner())
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
    assert caplog.text.count("nothing was reported on the way") == 1
