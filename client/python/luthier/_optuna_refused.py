"""Optuna's words that have no counterpart here, each with what to write instead. None of them is an AttributeError, and
none is accepted and forgotten."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from luthier.errors import Unsupported

_SAMPLER = "Optuna's study goes on with it; Luthier's search in that study is luthier.optuna.LuthierSampler"
_GENETIC = 'samplers.NSGAIISampler(population_size=...), or create_study(algorithm="nsga2"), which has operators of its own'
_GRID = 'luthier.study(NAME, {"x": [1, 2, 3]}, algorithm="grid") tries every setting of a declared space'
_PARTS = 'luthier.study(NAME, resource=luthier.Resource(max=81), algorithm="{}") trains in parts'
_PLOT = "a notebook shows a study by itself; Optuna's own plots take luthier.to_optuna(study)"
_CALLBACK = "luthier.integrations has callbacks for Keras, Lightning, LightGBM, transformers and XGBoost"
_TPE = 'create_study(algorithm={"tpe": {...}}), whose options are in docs/reference/tpe.md'
_COPY = "create_study(study_name=OTHER).add_trials(load_study(study_name=NAME).trials) copies the results"
_STORAGE = "trials are kept by a coordinator: storage='sqlite:///FILE' is the directory FILE.d, 'HOST:PORT' a server"
_IMPORTANCE = "study.importance() is the share of the variance that each parameter explains; it has one method"
_TERMINATOR = "luthier.study(NAME, patience=20) ends after 20 trials without a better value, target_value=0.1 at a value"
_ARTIFACT = "keep a file where workers reach it, and its path by trial.set_user_attr or trial.report(checkpoint=PATH)"

REFUSED: dict[str, dict[str, str]] = {
    "": {
        "artifacts": _ARTIFACT,
        "copy_study": _COPY,
        "get_all_study_summaries": "luthier.studies() are the studies themselves, with state, len(study) and best_value",
        "integration": _CALLBACK,
        "progress_bar": "optimize(show_progress_bar=True) shows the line elsewhere than on terminals, too",
        "search_space": "study.spec['space'] has the parameters that the trials have declared",
        "terminator": _TERMINATOR,
        "visualization": _PLOT,
    },
    "samplers": {
        "BaseSampler": f"a sampler of one's own is a designer in C++ (docs/guide/add_a_designer.md); {_SAMPLER}",
        "BaseGASampler": f"a sampler of one's own is a designer in C++ (docs/guide/add_a_designer.md); {_SAMPLER}",
        "BruteForceSampler": _GRID,
        "GridSampler": _GRID,
        "nsgaii": _GENETIC,
        "QMCSampler": 'luthier.study(NAME, {"x": luthier.Float(0, 1)}, algorithm="sobol"), or "halton", lays settings '
        "out over a declared space",
        "PartialFixedSampler": "write the fixed values as constants in the objective",
        "MOTPESampler": "TPESampler(), which takes several objectives",
        "IntersectionSearchSpace": "study.spec['space'] has the parameters that the trials have declared",
        "intersection_search_space": "study.spec['space'] has the parameters that the trials have declared",
    },
    "pruners": {
        "BasePruner": "raise optuna.TrialPruned() in the objective by a rule of one's own",
        "HyperbandPruner": _PARTS.format("hyperband"),
        "SuccessiveHalvingPruner": _PARTS.format("successive_halving") + ', or {"asha": {"variant": "STOP"}} as Optuna does',
        "PatientPruner": 'luthier.study(NAME, resource=..., stopping="curve") stops curves that promise nothing',
        "ThresholdPruner": "raise optuna.TrialPruned() in the objective where the value crosses the threshold",
        "WilcoxonPruner": "pruners.PercentilePruner or MedianPruner compare trials at the same step",
    },
    "distributions": {
        "check_distribution_compatibility": "a parameter keeps its kind; study.update(space=...) makes ranges wider",
        "distribution_to_json": "study.spec['space'] has the parameters as plain dictionaries",
        "json_to_distribution": "study.spec['space'] has the parameters as plain dictionaries",
        "DISTRIBUTION_CLASSES": "luthier.Float, Int, Categorical, Ordinal and Bool are the domains",
    },
    "exceptions": {"CLIUsageError": "the command line is `luthier`, whose exit code is 2 for wrong words"},
    "importance": {
        "BaseImportanceEvaluator": _IMPORTANCE,
        "FanovaImportanceEvaluator": _IMPORTANCE,
        "MeanDecreaseImpurityImportanceEvaluator": _IMPORTANCE,
        "PedAnovaImportanceEvaluator": _IMPORTANCE,
    },
    "logging": {},
    "storages": {
        name: _STORAGE
        for name in (
            "BaseJournalLogStorage", "BaseStorage", "GrpcStorageProxy", "InMemoryStorage", "JournalFileOpenLock",
            "JournalFileStorage", "JournalFileSymlinkLock", "JournalRedisStorage", "JournalStorage",
            "RetryFailedTrialCallback", "RetryHeartbeatStaleTrialCallback", "fail_stale_trials", "journal",
            "run_grpc_proxy_server",
        )
    },
    "study": {
        "StudySummary": "luthier.studies() are the studies themselves, with state, len(study) and best_value",
        "copy_study": _COPY,
        "get_all_study_summaries": "luthier.studies() are the studies themselves, with state, len(study) and best_value",
    },
    "trial": {"BaseTrial": "luthier.Trial and luthier.FrozenTrial are the types of trials"},
    "Sampler": {
        "hyperopt_parameters": "TPESampler() or " + _TPE,
        "reseed_rng": "seed= of the sampler, once",
    },
    "Distribution": {
        "to_external_repr": "a domain has values as the objective gets them",
        "to_internal_repr": "a domain has values as the objective gets them",
    },
    "Study": {
        "pruner": "study.spec['stopping'] has the rule, which stays as the study was made",
        "sampler": "study.spec['algorithm'] has the algorithm, which stays as the study was made",
        "set_metric_names": "luthier.study(NAME, metric='loss'), or goals={'loss': 'minimize', 'ms': 'minimize'}, names the "
        "metrics when the study is made",
        "system_attrs": "study.spec has all that is stored of the study",
        "set_system_attr": "study.set_user_attr keeps notes",
    },
    "Trial": {
        "relative_params": "trial.params are all parameters that were asked for",
        "set_system_attr": "trial.set_user_attr keeps notes",
        "storage": "trials are kept by a coordinator",
        "study": "the objective's caller has the study",
        "system_attrs": "trial.user_attrs are the notes",
    },
    "FrozenTrial": {
        "report": "a trial that is stored has ended: trial.intermediate_values is its curve",
        "set_constraint": "a trial that is stored has ended",
        "set_user_attr": "study.set_attributes(trial.number, {KEY: VALUE}) adds a note",
        "should_prune": "a trial that is stored has ended",
        "suggest_categorical": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "suggest_discrete_uniform": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "suggest_float": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "suggest_int": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "suggest_loguniform": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "suggest_uniform": "optuna.trial.FixedTrial(trial.params) runs an objective on a trial's setting",
        "system_attrs": "trial.user_attrs are the notes",
    },
}  # fmt: skip


def refuse(kind: str, name: str) -> None:
    """Raises Unsupported where a word of a kind is one of those that are refused."""
    instead = REFUSED[kind].get(name)
    if instead is not None:
        raise Unsupported(f"{kind + '.' if kind else 'optuna.'}{name} is not supported here; instead: {instead}")


class Words(ModuleType):
    """A module of Optuna's words, which is also imported as one: `from luthier.samplers import TPESampler`."""

    def __init__(self, kind: str, **words: Any) -> None:
        super().__init__(f"luthier.{kind}", f"Optuna's words in its module {kind}.")
        self.__dict__.update(words)
        sys.modules.setdefault(self.__name__, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kind = self.__name__.rpartition(".")[2]
        refuse("", kind)
        refuse(kind, name)
        raise AttributeError(f"neither Optuna's {kind} nor Luthier's have {name!r}")


for _module in ("artifacts", "integration", "progress_bar", "search_space", "terminator", "visualization"):
    Words(_module)  # All that is imported from there is refused.


def check_options(what: str, given: dict[str, Any], defaults: dict[str, Any], instead: str) -> None:
    """Raises TypeError for options that Optuna has not, Unsupported for those that are given and can't be carried out."""
    for name, value in given.items():
        if name not in defaults:
            raise TypeError(f"{what} has no {name!r}; it has {', '.join(sorted(defaults))}")
        if value is not None and value != defaults[name]:
            raise Unsupported(f"{what}({name}={value!r}) is not supported here; instead: {instead}")
