"""Hyperparameter tuning with gradients: studies, trials, and a coordinator of one's own where there is no other.

import luthier

study = luthier.study("parabola")
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=25)
print(study.best_params)
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from luthier.errors import (
    BadField,
    ConflictingReport,
    Forbidden,
    LeaseLost,
    LimitExceeded,
    LuthierError,
    NotFound,
    NotOpen,
    ObjectiveChanged,
    ParameterDiffers,
    Reproducible,
    Retry,
    StudyExists,
    StudyFinished,
    StudyPaused,
    NoModel,
    NotGranted,
    TooFewResults,
    TrialFinal,
    TrialOpen,
    TrialPruned,
    TrialsRunning,
    Unavailable,
    Unimplemented,
    Unsupported,
    Violation,
)
from luthier._create import Resource, Worker, from_file, from_optuna, load, studies, study, undelete, workers
from luthier._foreign import to_optuna
from luthier._gradient import GradientCheck, check_gradient
from luthier._stored import Event, Importance, Prediction
from luthier.objective import Tunable, objective
from luthier.space import Bool, Categorical, Domain, Float, Int, Ordinal
from luthier.study import Study
from luthier.trial import FrozenTrial, Trial, TrialState
from luthier import _optuna_words, trial as _trial
from luthier._optuna_refused import refuse

if TYPE_CHECKING:
    __version__: str
    from luthier import aio as aio, jax as jax, torch as torch
    from luthier._optuna_create import (
        create_study as create_study,
        delete_study as delete_study,
        get_all_study_names as get_all_study_names,
        load_study as load_study,
    )
    from luthier._optuna_samplers import pruners as pruners, samplers as samplers
    from luthier._optuna_trial import create_trial as create_trial
    from luthier._optuna_words import (
        distributions as distributions,
        exceptions as exceptions,
        importance as importance,
        logging as logging,
        storages as storages,
    )

__all__ = [
    "BadField",
    "Bool",
    "Categorical",
    "ConflictingReport",
    "Domain",
    "Event",
    "Float",
    "Forbidden",
    "FrozenTrial",
    "GradientCheck",
    "Importance",
    "Int",
    "LeaseLost",
    "LimitExceeded",
    "LuthierError",
    "NotFound",
    "NotOpen",
    "ObjectiveChanged",
    "Ordinal",
    "ParameterDiffers",
    "Prediction",
    "Reproducible",
    "Resource",
    "Retry",
    "Study",
    "StudyExists",
    "StudyFinished",
    "StudyPaused",
    "NoModel",
    "NotGranted",
    "TooFewResults",
    "Trial",
    "TrialFinal",
    "TrialOpen",
    "TrialPruned",
    "TrialState",
    "TrialsRunning",
    "Tunable",
    "Unavailable",
    "Unimplemented",
    "Unsupported",
    "Violation",
    "Worker",
    "__version__",
    "check_gradient",
    "create_study",
    "from_file",
    "from_optuna",
    "load",
    "objective",
    "studies",
    "study",
    "to_optuna",
    "undelete",
    "workers",
]

for _name, _word in _optuna_words.OF_STUDY.items():
    setattr(study, _name, _word)  # Optuna's module of this name, which is here a function and a module.
    setattr(importlib.import_module("luthier.study"), _name, _word)
for _name, _word in _optuna_words.OF_TRIAL.items():
    setattr(_trial, _name, _word)

_LAZY = ("aio", "jax", "torch")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from luthier._version import installed

            return installed()
        if name in _LAZY:
            return importlib.import_module(f"luthier.{name}")
        if name in _optuna_words.WORDS:
            return getattr(_optuna_words, name)
        if name == "version":
            return SimpleNamespace(__version__=__getattr__("__version__"))
        refuse("", name)
        raise AttributeError(f"module 'luthier' has no attribute {name!r}")
