"""Optuna's words for Luthier's things: what a program says after `import luthier as optuna`.

Only words that mean the same are here. What Luthier does otherwise is refused with a sentence that says what to write.
"""

from __future__ import annotations

import gc
import logging as _logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Optional

import luthier
from luthier import _wire
from luthier.errors import LuthierError, NotFound, StudyExists, TrialPruned
from luthier.integrations._notes import from_note, to_note
from luthier.space import Categorical, Float, Int, to_domain
from luthier.study import Study
from luthier.table import _declare
from luthier.trial import FrozenTrial, TrialState

_LABEL = "optuna."  # Labels of a study that hold its user attributes.
_ALGORITHMS = {
    "TPESampler": "tpe",
    "CmaEsSampler": "cma_es",
    "GPSampler": "bo",
    "RandomSampler": "random",
    "QMCSampler": "sobol",
}


class OptunaStudy(Study):
    """A study whose calls also take what Optuna's take."""

    def ask(self, n: Any = None, *, fixed_distributions: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """Returns the next trial. With distributions their parameters are taken at once."""
        declared = n if isinstance(n, Mapping) else fixed_distributions
        if declared is None:
            return super().ask(n, **options)
        trial = super().ask(None, **options)
        for name, distribution in declared.items():
            trial._suggest(name, to_domain(distribution))
        return trial

    def tell(self, trial: Any, value: Any = None, **options: Any) -> Any:
        """Ends a trial."""
        value = options.pop("values", value)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        return super().tell(trial, value, **options)

    def optimize(self, *args: Any, gc_after_trial: bool = False, **options: Any) -> Any:
        """Runs trials. `gc_after_trial` collects garbage after each, as Optuna does."""
        if gc_after_trial:
            options["callbacks"] = [*(options.get("callbacks") or ()), lambda *_: gc.collect()]
        return super().optimize(*args, **options)

    def get_trials(self, states: Any = (), *, deepcopy: bool = True, **options: Any) -> list[FrozenTrial]:
        """Returns all trials, or those in some states. Optuna's first argument is `deepcopy`: all are copies here."""
        return super().get_trials(() if isinstance(states, bool) else states or (), **options)

    def add_trials(self, trials: Iterable[Any], **options: Any) -> list[int]:
        """Adds results from elsewhere. Parameters that the study has not met yet are declared."""
        rows = list(trials)
        space: dict[str, Any] = {}
        for trial in rows:
            space.update(getattr(trial, "distributions", {}))
        if self._open and space:
            _declare(self, space)
        return super().add_trials(rows, **options)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Stores a note with the study."""
        request = _wire.message("UpdateStudyRequest")(name=self._path, request_id=str(uuid.uuid4()))
        for name, text in self._refresh().spec.labels.items():
            request.spec.labels[name] = text
        request.spec.labels[_LABEL + key] = to_note(value)
        request.update_mask.paths.append("labels")
        self._take(self._client.call("StudyService", "UpdateStudy", request))

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The study's notes."""
        labels = self._refresh().spec.labels.items()
        return {name[len(_LABEL) :]: from_note(text) for name, text in labels if name.startswith(_LABEL)}

    @property
    def study_name(self) -> str:
        """The study's name."""
        return self.name


@dataclass(frozen=True)
class _MadeTrial(FrozenTrial):
    distributions: dict[str, Any] = field(default_factory=dict)


def create_trial(
    *,
    state: Any = TrialState.COMPLETE,
    value: Optional[float] = None,
    params: Optional[Mapping[str, Any]] = None,
    distributions: Optional[Mapping[str, Any]] = None,
    user_attrs: Optional[Mapping[str, Any]] = None,
) -> FrozenTrial:
    """Returns a result from elsewhere, for `add_trial`."""
    notes = {key: to_note(note) for key, note in (user_attrs or {}).items()}
    space = dict(distributions or {})
    return _MadeTrial(0, TrialState(state), dict(params or {}), value, attributes=notes, distributions=space)


def _where(storage: Any, server: Optional[str], db: Optional[str]) -> dict[str, Any]:
    """Returns the coordinator that stands for a storage: of a directory beside a SQLite file, or a server."""
    if storage is None:
        return {"server": server, "db": db}
    if not isinstance(storage, str) or server is not None or db is not None:
        raise ValueError("storage is one of sqlite:///FILE, HOST:PORT, unix:PATH; or give server= or db= instead")
    if storage.startswith("sqlite:///"):
        return {"server": None, "db": storage[len("sqlite:///") :] + ".d"}
    if "://" in storage:
        raise ValueError(
            f"trials are kept by a coordinator, not in {storage.split(':')[0]}: give server='HOST:PORT', or db='DIR'"
        )
    return {"server": storage, "db": None}


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: Optional[str] = None,
    direction: Any = "minimize",
    load_if_exists: bool = True,
    directions: Any = None,
    algorithm: Any = None,
    seed: int = 0,
    server: Optional[str] = None,
    db: Optional[str] = None,
) -> OptunaStudy:
    """Makes a study in Optuna's words, with an open space: programs need one line changed. Without a name it gets a
    fresh one. StudyExists where it is there already and `load_if_exists` is false. `storage="sqlite:///a.db"` is
    `db="a.db.d"`."""
    if directions is not None and len(directions) != 1:
        raise ValueError("a study has one objective: give direction=")
    goal = directions[0] if directions else direction
    where = _where(storage, server, db)
    name = study_name or f"study-{uuid.uuid4().hex[:12]}"
    if study_name and not load_if_exists:
        try:
            luthier.load(name, **where)
        except NotFound:
            pass
        else:
            raise StudyExists(f"study {name} exists already; load_if_exists=True goes on with it")
    if sampler is not None:
        algorithm, seed = _algorithm(sampler), getattr(sampler, "seed", None) or 0
    goal = str(getattr(goal, "name", goal) or "minimize").lower()
    made = luthier.study(name, goal=goal, algorithm=algorithm, seed=seed, stopping=_stopping(pruner), **where)
    return OptunaStudy(made._client, made._message)


def load_study(
    *, study_name: str, storage: Any = None, sampler: Any = None, pruner: Any = None, **where: Any
) -> OptunaStudy:
    """Returns a study that is there, with its own algorithm and stopping rule. NotFound."""
    found = luthier.load(study_name, **_where(storage, where.get("server"), where.get("db")))
    return OptunaStudy(found._client, found._message)


def delete_study(*, study_name: str, storage: Any = None) -> None:
    """Removes a study and its trials for ever."""
    load_study(study_name=study_name, storage=storage).delete()


def get_all_study_names(storage: Any = None) -> list[str]:
    """Returns the names of all studies."""
    return [study.name for study in luthier.studies(**_where(storage, None, None))]


def _algorithm(sampler: Any) -> Any:
    kind = type(sampler).__name__ if not isinstance(sampler, _Sampler) else sampler.kind
    if kind not in _ALGORITHMS:
        raise ValueError(f"sampler {kind} has no counterpart; give algorithm= instead of sampler=")
    return _ALGORITHMS[kind]


@dataclass
class _Sampler:
    kind: str
    seed: Optional[int] = None


def _sampler(kind: str) -> Any:
    return lambda *, seed=None, **options: _Sampler(kind, seed)


def _rule(name: str, n_startup_trials: int, n_warmup_steps: int, interval_steps: int, **more: Any) -> dict[str, Any]:
    options = {"min_trials": max(1, n_startup_trials), "warmup": n_warmup_steps, "interval": interval_steps}
    return {name: {**options, **more}}


def median_pruner(n_startup_trials: int = 5, n_warmup_steps: int = 0, interval_steps: int = 1) -> dict[str, Any]:
    """Stops trials that are worse than the median at the same step."""
    return _rule("median", n_startup_trials, n_warmup_steps, interval_steps)


def percentile_pruner(
    percentile: float, n_startup_trials: int = 5, n_warmup_steps: int = 0, interval_steps: int = 1
) -> dict[str, Any]:
    """Lets the best `percentile` of trials at the same step go on."""
    return _rule("percentile", n_startup_trials, n_warmup_steps, interval_steps, percentile=percentile)


def _stopping(pruner: Any) -> Any:
    if pruner is None or isinstance(pruner, Mapping):
        return pruner or None
    kind = type(pruner).__name__
    raise ValueError(f"pruner {kind} has no counterpart; luthier.study(stopping=, resource=, algorithm=) has more")


_logger = _logging.getLogger("luthier")
distributions = SimpleNamespace(FloatDistribution=Float, IntDistribution=Int, CategoricalDistribution=Categorical)
pruners = SimpleNamespace(MedianPruner=median_pruner, PercentilePruner=percentile_pruner, NopPruner=dict)
samplers = SimpleNamespace(**{kind: _sampler(kind) for kind in _ALGORITHMS})
exceptions = SimpleNamespace(
    TrialPruned=TrialPruned,
    DuplicatedStudyError=StudyExists,
    OptunaError=LuthierError,
    ExperimentalWarning=FutureWarning,
)
importance = SimpleNamespace(get_param_importances=lambda study, **options: study.importance())
logging = SimpleNamespace(
    CRITICAL=50, ERROR=40, WARNING=30, WARN=30, INFO=20, DEBUG=10,
    set_verbosity=_logger.setLevel,
    get_verbosity=_logger.getEffectiveLevel,
    enable_propagation=lambda: setattr(_logger, "propagate", True),
    disable_propagation=lambda: setattr(_logger, "propagate", False),
    enable_default_handler=lambda: None,
    disable_default_handler=lambda: None,
)  # fmt: skip

WORDS = (
    "create_study", "create_trial", "delete_study", "distributions", "exceptions", "get_all_study_names", "importance",
    "load_study", "logging", "pruners", "samplers",
)  # fmt: skip
