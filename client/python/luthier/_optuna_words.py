"""Optuna's words for Luthier's things: what a program says after `import luthier as optuna`.

A word that is here is carried out. What Luthier does otherwise is refused with a sentence that says what to write
(luthier/_optuna_refused.py).
"""

from __future__ import annotations

import functools
import logging as _logging
import sys
from collections.abc import Sequence
from typing import Any, Optional

from luthier._optuna_create import create_study, delete_study, get_all_study_names, load_study
from luthier._optuna_refused import REFUSED, Words, check_options, refuse
from luthier._optuna_samplers import pruners, samplers
from luthier._optuna_study import MaxTrialsCallback, StudyDirection
from luthier._optuna_trial import FixedTrial, create_trial
from luthier.errors import LuthierError, StudyExists, TrialFinal, TrialPruned, Unavailable
from luthier.space import Categorical, Domain, Float, Int
from luthier.study import Study


def get_param_importances(
    study: Study, *, evaluator: Any = None, params: Optional[Sequence[str]] = None, target: Any = None,
    normalize: bool = True,
) -> dict[str, float]:  # fmt: skip
    """Returns the share of the variance that each parameter explains, largest first; of `params` alone where they are
    named; with `normalize` their sum is 1."""
    check_options(
        "get_param_importances", {"evaluator": evaluator, "target": target}, {"evaluator": None, "target": None},
        "study.importance(metric), which has one method",
    )  # fmt: skip
    shares: dict[str, float] = study.importance()
    if params is not None:
        unknown = sorted(set(params) - set(shares))
        if unknown:
            raise ValueError(f"the study has no parameters {unknown}; it has {sorted(shares)}")
        shares = {name: share for name, share in shares.items() if name in params}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if normalize and total > 0 else shares


_logger = _logging.getLogger("luthier")


def _get_logger(name: str = "luthier") -> _logging.Logger:
    """Returns the log that says what runs. Who asks for it wants to hear of each trial, as Optuna's does."""
    if _logger.level == _logging.NOTSET:
        _logger.setLevel(_logging.INFO)
    return _logger if name in ("optuna", "luthier") else _logging.getLogger(name)


_default_handler = _logging.StreamHandler(sys.stderr)


def _enable_default_handler() -> None:
    _get_logger().addHandler(_default_handler)


def _discrete(low: float, high: float, q: float) -> Float:
    return Float(low, high, step=q)


def _log_int(low: int, high: int, step: int = 1) -> Int:
    check_options("IntLogUniformDistribution", {"step": step}, {"step": 1}, "IntDistribution, with log=True or step=")
    return Int(low, high, log=True)


def _database(url: str, engine_kwargs: Any = None, skip_compatibility_check: bool = False, **options: Any) -> str:
    options.update(engine_kwargs=engine_kwargs, skip_compatibility_check=skip_compatibility_check)
    defaults = dict.fromkeys(("engine_kwargs", "grace_period", "heartbeat_interval", "failed_trial_callback"))
    defaults.update(heartbeat_stale_trial_callback=None, skip_compatibility_check=False, skip_table_creation=False)
    way = "storage='sqlite:///FILE'; trials whose worker dies go to another one by themselves"
    check_options("RDBStorage", options, defaults, way)
    return url


distributions: Words = Words(
    "distributions",
    BaseDistribution=Domain,
    FloatDistribution=Float,
    IntDistribution=Int,
    CategoricalDistribution=Categorical,
    UniformDistribution=Float,
    LogUniformDistribution=lambda low, high: Float(low, high, log=True),
    DiscreteUniformDistribution=_discrete,
    IntUniformDistribution=lambda low, high, step=1: Int(low, high, step=step),
    IntLogUniformDistribution=_log_int,
)
exceptions: Words = Words(
    "exceptions",
    TrialPruned=TrialPruned,
    DuplicatedStudyError=StudyExists,
    OptunaError=LuthierError,
    StorageInternalError=Unavailable,
    UpdateFinishedTrialError=TrialFinal,
    ExperimentalWarning=FutureWarning,
)
importance: Words = Words("importance", get_param_importances=get_param_importances)
storages: Words = Words("storages", RDBStorage=_database, get_storage=lambda storage: storage)
logging: Words = Words(
    "logging", CRITICAL=50, FATAL=50, ERROR=40, WARNING=30, WARN=30, INFO=20, DEBUG=10,
    set_verbosity=_logger.setLevel,
    get_verbosity=_logger.getEffectiveLevel,
    get_logger=_get_logger,
    enable_propagation=lambda: setattr(_logger, "propagate", True),
    disable_propagation=lambda: setattr(_logger, "propagate", False),
    enable_default_handler=_enable_default_handler,
    disable_default_handler=lambda: _logger.removeHandler(_default_handler),
)  # fmt: skip

WORDS = (
    "create_study", "create_trial", "delete_study", "distributions", "exceptions", "get_all_study_names", "importance",
    "load_study", "logging", "pruners", "samplers", "storages",
)  # fmt: skip
# `optuna.study` and `optuna.trial` are names of Luthier's, too: a function, which gets these, and a module.
OF_STUDY: dict[str, Any] = {
    "MaxTrialsCallback": MaxTrialsCallback,
    "Study": Study,
    "StudyDirection": StudyDirection,
    "create_study": create_study,
    "delete_study": delete_study,
    "get_all_study_names": get_all_study_names,
    "load_study": load_study,
}
OF_STUDY.update({name: functools.partial(refuse, "study", name) for name in REFUSED["study"]})
OF_TRIAL: dict[str, Any] = {"FixedTrial": FixedTrial, "create_trial": create_trial}
