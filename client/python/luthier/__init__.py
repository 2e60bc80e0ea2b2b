"""Hyperparameter tuning with gradients: studies, trials, and a coordinator of one's own where there is no other.

import luthier

study = luthier.study("parabola")
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=25)
print(study.best_params)
"""

from __future__ import annotations

import importlib
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
    Violation,
)
from luthier._create import Worker, from_file, load, studies, workers
from luthier._create import make as study
from luthier._foreign import from_optuna, to_optuna
from luthier._gradient import GradientCheck, check_gradient
from luthier._records import Event, Prediction
from luthier._resource import Resource
from luthier.objective import Tunable, objective
from luthier.space import Bool, Categorical, Domain, Float, Int, Ordinal
from luthier.study import Study
from luthier.trial import FrozenTrial, Trial, TrialState

if TYPE_CHECKING:
    __version__: str
    from luthier import aio as aio, jax as jax, torch as torch
    from luthier.integrations._optuna_words import create_study

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
    "workers",
]

_LAZY = ("aio", "jax", "torch")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from luthier._version import installed

        return installed()
    if name in _LAZY:
        return importlib.import_module(f"luthier.{name}")
    words = importlib.import_module("luthier.integrations._optuna_words")
    if name in words.WORDS:
        return getattr(words, name)
    raise AttributeError(f"module 'luthier' has no attribute {name!r}")
