"""Optuna's words for Luthier's things: what a program says after `import luthier as optuna`.

A word that is here is carried out. What Luthier does otherwise is refused with a sentence that says what to write
(luthier/_optuna_refused.py).
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging as _logging
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Optional, Union

from luthier import _create
from luthier._create import Goal, study_id
from luthier._gradient import _FixedTrial
from luthier._optimize import Infeasible
from luthier.errors import (
    LuthierError,
    NotFound,
    StudyExists,
    StudyPaused,
    TrialFinal,
    TrialPruned,
    Unavailable,
    Unsupported,
)
from luthier._notes import from_note, to_note
from luthier._optuna_refused import REFUSED, Words, check_options, refuse
from luthier.space import Categorical, Domain, Float, Int, to_domain
from luthier.study import Study
from luthier.table import declare
from luthier.trial import FrozenTrial, Trial, TrialState

_LABEL = "optuna."  # Labels of a study that hold its user attributes.
_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63}/)?[a-z0-9][a-z0-9_.-]{0,63}\Z")
Constraints = Optional[Callable[[FrozenTrial], Sequence[float]]]


class StudyDirection(str, Enum):
    """Optuna's words for a goal; each equals its name as `study.direction` has it."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class OptunaTrial(Trial):
    """A trial that runs, which also takes Optuna's words."""

    def __init__(self, study: Study, lease: Any, worker: str) -> None:
        super().__init__(study, lease, worker)
        self._notes: dict[str, Any] = {key: from_note(note) for key, note in lease.trial.attributes.items()}
        self._domains: dict[str, Domain] = {}
        self._limits: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        refuse("Trial", name)
        raise AttributeError(f"neither Optuna's trials nor Luthier's have {name!r}")

    def _suggest(self, name: str, domain: Domain) -> Any:
        value = super()._suggest(name, domain)
        self._domains[name] = domain
        return value

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        """As `suggest_float`."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        """As `suggest_float` with `log=True`."""
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        """As `suggest_float` with `step=q`."""
        return self.suggest_float(name, low, high, step=q)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Stores any JSON value with the trial; `user_attrs` gives it back."""
        super().set_user_attr(key, value)
        self._notes[key] = value

    def set_constraint(self, key: str, value: float) -> None:
        """Sets the value of a constraint: above 0 the setting is not allowed, and its result does not count."""
        self._limits[key] = float(value)

    @property
    def constraints(self) -> dict[str, float]:
        """The constraints that were set."""
        return dict(self._limits)

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The notes of this trial."""
        return dict(self._notes)

    @property
    def distributions(self) -> dict[str, Domain]:
        """The domains that were asked for, by name."""
        return dict(self._domains)

    @property
    def datetime_start(self) -> datetime:
        """When this attempt began."""
        begin = self._lease.trial.attempts[-1].start_time if self._lease.trial.attempts else None
        return datetime.now() if begin is None else datetime.fromtimestamp(begin.seconds + 1e-9 * begin.nanos)


class OptunaStudy(Study):
    """A study whose calls also take what Optuna's take."""

    _trial_type = OptunaTrial
    _constraints: Constraints = None

    def __getattr__(self, name: str) -> Any:
        refuse("Study", name)
        raise AttributeError(f"neither Optuna's studies nor Luthier's have {name!r}")

    def ask(self, n: Any = None, *, fixed_distributions: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """Returns the next trial. With distributions their parameters are taken at once."""
        declared = n if isinstance(n, Mapping) else fixed_distributions
        if declared is None:
            return super().ask(n, **options)
        trial = super().ask(None, **options)
        if trial is not None:
            for name, distribution in declared.items():
                trial._suggest(name, to_domain(distribution))
        return trial

    def tell(  # type: ignore[override]
        self, trial: Any, values: Any = None, state: Any = None, skip_if_finished: bool = False, **options: Any
    ) -> FrozenTrial:
        """Ends a trial and returns it as it is stored. With `skip_if_finished` one that has ended is left as it is."""
        value = options.pop("value", values)
        value = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        number = trial if isinstance(trial, int) else trial.number
        if skip_if_finished and (number not in self._open_trials or self.trial(number).state.is_finished()):
            return self.trial(number)
        inner = self._trial_of(trial)
        try:
            if state is None:
                self._check_constraints(inner, value)
        except Infeasible as error:
            inner._fail("INFEASIBLE", str(error))
        else:
            super().tell(inner, value, state=state, **options)
        return self.trial(number)

    def _check_constraints(self, trial: Any, value: Any) -> None:
        """Raises Infeasible where a constraint of the sampler or of the trial is above 0."""
        limits: dict[Any, float] = dict(trial.constraints)
        if self._constraints is not None:
            notes = {key: to_note(note) for key, note in trial.user_attrs.items()}
            number = value if isinstance(value, (int, float)) else None
            frozen = FrozenTrial(trial.number, TrialState.COMPLETE, trial.params, number, attributes=notes)
            limits.update({f"{i + 1} of constraints_func": float(c) for i, c in enumerate(self._constraints(frozen))})
        broken = [f"constraint {name} is {limit:.6g}, above 0" for name, limit in limits.items() if not limit <= 0]
        if broken:
            raise Infeasible(f"{'; '.join(broken)}: its value {value} does not count")

    def optimize(self, fn: Any = None, *args: Any, gc_after_trial: bool = False, **options: Any) -> Any:
        """Runs trials. `gc_after_trial` collects garbage after each, as Optuna does. Trials that violate a constraint
        fail as INFEASIBLE: the search learns to avoid their like."""
        objective = options.pop("func", fn)
        if options.get("callbacks") is None:
            options.pop("callbacks", None)
        if gc_after_trial:
            options["callbacks"] = [*options.get("callbacks", ()), lambda *_: gc.collect()]
        if not options.get("show_progress_bar", True):
            options.pop("show_progress_bar")  # Optuna's default; here the line is shown on terminals.
        if options.get("processes") is None:
            return super().optimize(self._constrained(objective), *args, **options)
        if self._constraints is not None:
            raise Unsupported("constraints_func with processes= is not supported here; instead: n_jobs=")
        return super().optimize(objective, *args, **options)

    def _constrained(self, objective: Any) -> Any:
        """Returns an objective whose results count only where its constraints hold."""
        if not callable(objective):
            return objective

        @functools.wraps(objective)
        def constrained(trial: Any) -> Any:
            result = objective(trial)
            self._check_constraints(trial, result)
            return result

        return constrained

    def _suggest(self, request: Any, seconds: float) -> Any:
        """Returns the reply. Trials that a constraint rules out are no reason to pause."""
        try:
            return super()._suggest(request, seconds)
        except StudyPaused:
            if "INFEASIBLE" not in self.state_reason:
                raise
            self.resume()
            return super()._suggest(request, seconds)

    def stop(self) -> None:
        """Ends the calls of `optimize` that run, after their trials, as in Optuna. RuntimeError where none runs.
        `luthier.load(NAME).stop()` ends the study itself."""
        if not self._runs:
            raise RuntimeError(
                "study.stop() ends `optimize` from within an objective or a callback; luthier.load(NAME).stop() ends a "
                "study for ever"
            )
        for run in list(self._runs):
            run.stop = True

    def enqueue_trial(  # type: ignore[override]
        self, params: Mapping[str, Any], user_attrs: Optional[Mapping[str, Any]] = None, skip_if_exists: bool = False
    ) -> None:
        """Adds a setting of the user's; with `skip_if_exists` not one that the study has."""
        if skip_if_exists and any(t.params == dict(params) for t in [*self.trials, *self._enqueued]):
            return
        notes = {key: to_note(note) for key, note in (user_attrs or {}).items()}
        made = self.enqueue(params, notes)
        self._enqueued.append(FrozenTrial(made.number, made.state, dict(params)))

    @property
    def _enqueued(self) -> list[FrozenTrial]:
        kept: list[FrozenTrial] = self.__dict__.setdefault("_kept", [])
        return kept

    def get_trials(self, deepcopy: Any = True, states: Any = None, **options: Any) -> list[FrozenTrial]:  # type: ignore[override]
        """Returns all trials, or those in some states. All are copies."""
        if not isinstance(deepcopy, bool):
            states = deepcopy  # Luthier's first argument.
        return super().get_trials(states or (), **options)

    def trials_dataframe(self, attrs: Any = None, multi_index: bool = False, **options: Any) -> Any:
        """Returns the trials as a pandas data frame, with Luthier's columns, or with those that `attrs` names."""
        if multi_index:
            raise Unsupported("trials_dataframe(multi_index=True) is not supported here; instead: columns params_NAME")
        if attrs is None:
            return super().trials_dataframe(**options)
        import pandas

        rows = []
        for trial in self.trials:
            row: dict[str, Any] = {}
            for name in attrs:
                what = getattr(trial, name)
                what = what.value if isinstance(what, TrialState) else what
                row.update({f"{name}_{key}": x for key, x in what.items()} if isinstance(what, dict) else {name: what})
            rows.append(row)
        return pandas.DataFrame(rows)

    def add_trials(self, trials: Iterable[Any], **options: Any) -> list[int]:
        """Adds results from elsewhere. Parameters that the study has not met yet are declared."""
        rows = list(trials)
        space: dict[str, Any] = {}
        for trial in rows:
            space.update(trial.distributions if isinstance(trial, _MadeTrial) else {})
        if self._open and space:
            declare(self, space)
        return super().add_trials(rows, **options)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Stores a note with the study."""
        self._set_label(_LABEL + key, to_note(value))

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The study's notes."""
        labels = self._refresh().spec.labels.items()
        return {name[len(_LABEL) :]: from_note(text) for name, text in labels if name.startswith(_LABEL)}

    @property
    def study_name(self) -> str:
        """The study's name, as it was given."""
        return str(self._spec.display_name or self.name)

    @property
    def direction(self) -> StudyDirection:
        """The goal, which equals "minimize" or "maximize"."""
        return StudyDirection(super().direction)

    @property
    def directions(self) -> list[StudyDirection]:
        """The goal, in a list."""
        return [self.direction]

    @property
    def sampler(self) -> Any:
        """Refused, as setting it is."""
        refuse("Study", "sampler")

    @sampler.setter
    def sampler(self, given: Any) -> None:
        refuse("Study", "sampler")

    @property
    def pruner(self) -> Any:
        """Refused, as setting it is."""
        refuse("Study", "pruner")

    @pruner.setter
    def pruner(self, given: Any) -> None:
        refuse("Study", "pruner")

    @property
    def best_trials(self) -> list[FrozenTrial]:
        """The best trial, in a list; empty while none is complete."""
        try:
            return [self.best_trial]
        except ValueError:
            return []

    @property
    def metric_names(self) -> list[str]:
        """The metric, in a list."""
        return [self.metric]


@dataclass(frozen=True)
class _MadeTrial(FrozenTrial):
    distributions: dict[str, Any] = field(default_factory=dict)


def create_trial(
    *,
    state: Any = TrialState.COMPLETE,
    value: Optional[float] = None,
    values: Optional[Sequence[float]] = None,
    params: Optional[Mapping[str, Any]] = None,
    distributions: Optional[Mapping[str, Any]] = None,
    user_attrs: Optional[Mapping[str, Any]] = None,
    system_attrs: Optional[Mapping[str, Any]] = None,
    intermediate_values: Optional[Mapping[int, float]] = None,
    constraints: Optional[Mapping[str, float]] = None,
) -> FrozenTrial:
    """Returns a result from elsewhere, for `add_trial`. One that violates a constraint has failed."""
    if system_attrs:
        raise Unsupported("create_trial(system_attrs=...) is not supported here; instead: user_attrs=...")
    if values is not None:
        (value,) = values
    state = TrialState(getattr(state, "value", state))
    if any(not limit <= 0 for limit in (constraints or {}).values()):
        state, value = TrialState.FAILED, None
    notes = {key: to_note(note) for key, note in (user_attrs or {}).items()}
    curve = {int(step): float(x) for step, x in (intermediate_values or {}).items()}
    space = dict(distributions or {})
    return _MadeTrial(
        0, state, dict(params or {}), value, attributes=notes, intermediate_values=curve, distributions=space
    )


def _where(storage: Any, server: Optional[str], db: Optional[str]) -> dict[str, Any]:
    """Returns the coordinator that stands for a storage: of a directory beside a SQLite file, or a server."""
    if storage is None:
        return {"server": server, "db": db}
    if not isinstance(storage, str) or server is not None or db is not None:
        raise ValueError("storage is one of sqlite:///FILE, HOST:PORT, unix:PATH; or give server= or db= instead")
    if storage.startswith("sqlite:///") and not storage.endswith(":memory:"):
        return {"server": None, "db": storage[len("sqlite:///") :] + ".d"}
    if "://" in storage:
        raise ValueError(
            f"trials are kept by a coordinator, not in {storage.split(':')[0]}: give server='HOST:PORT', or db='DIR'"
        )
    return {"server": storage, "db": None}


def _legal(name: str) -> str:
    """Returns a name that the service takes: any text as it is where it does, else one made from it and its hash."""
    if _NAME.match(name):
        return name
    return f"{study_id(name)[:54]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: Optional[str] = None,
    direction: Union[Goal, StudyDirection, None] = "minimize",
    load_if_exists: bool = True,
    directions: Any = None,
    algorithm: Any = None,
    seed: int = 0,
    server: Optional[str] = None,
    db: Optional[str] = None,
) -> OptunaStudy:
    """Makes a study in Optuna's words, with an open space: programs need one line changed. Without a name it gets a
    fresh one; a name that the service does not take, as with capitals, is the study's display name. StudyExists where
    it is there already and `load_if_exists` is false. `storage="sqlite:///a.db"` is `db="a.db.d"`."""
    if directions is not None and len(directions) != 1:
        raise ValueError(
            "a study has one objective: give direction=, return a weighted sum, and keep the parts by "
            "trial.set_user_attr"
        )
    goal: Any = directions[0] if directions else direction
    where = _where(storage, server, db)
    name = _legal(study_name) if study_name else f"study-{uuid.uuid4().hex[:12]}"
    if study_name and not load_if_exists:
        try:
            _create.load(name, **where)
        except NotFound:
            pass
        else:
            raise StudyExists(f"study {study_name} exists already; load_if_exists=True goes on with it")
    if sampler is not None:
        algorithm, seed = _algorithm(sampler), sampler.seed or 0
    goal = str(getattr(goal, "name", goal) or "minimize").lower()  # luthier.study says what is wrong with it.
    shown = study_name if study_name and name != study_name else ""
    made = _create.make(
        name, goal=goal, algorithm=algorithm, seed=seed, stopping=_stopping(pruner), display_name=shown, **where
    )
    return _optuna_study(made, sampler)


def _optuna_study(made: Study, sampler: Any) -> OptunaStudy:
    study = OptunaStudy(made._client, made._message)
    study._constraints = getattr(sampler, "constraints_func", None)
    return study


def load_study(
    *, study_name: str, storage: Any = None, sampler: Any = None, pruner: Any = None, **where: Any
) -> OptunaStudy:
    """Returns a study that is there. A sampler's constraints go on; ValueError where its algorithm, or the pruner, is
    not the study's own: these stay what they were when the study was made. NotFound."""
    found = _create.load(_legal(study_name), **_where(storage, where.pop("server", None), where.pop("db", None)))
    if where:
        raise TypeError(f"load_study has no {sorted(where)}")
    spec = found.spec
    if sampler is not None:
        wanted = _algorithm(sampler)
        (name,) = [wanted] if isinstance(wanted, str) else wanted
        if name not in spec.get("algorithm", {}):
            raise ValueError(
                f"study {study_name} has the algorithm {', '.join(spec.get('algorithm', {}))} and keeps it: leave "
                "sampler= out, or make another study"
            )
    rule = _stopping(pruner)
    if rule is not None and not set(rule) <= set(spec.get("stopping", {})):
        raise ValueError(f"study {study_name} keeps the pruner that it was made with: leave pruner= out")
    return _optuna_study(found, sampler)


def delete_study(*, study_name: str, storage: Any = None) -> None:
    """Removes a study and its trials for ever."""
    Study.delete(load_study(study_name=study_name, storage=storage))


def get_all_study_names(storage: Any = None) -> list[str]:
    """Returns the names of all studies."""
    return [str(study._spec.display_name or study.name) for study in _create.studies(**_where(storage, None, None))]


# --- Samplers and pruners ---


@dataclass
class _Sampler:
    """What a sampler asks for: an algorithm with options, a seed, and constraints."""

    algorithm: Any
    seed: Optional[int] = None
    constraints_func: Constraints = None


def _algorithm(sampler: Any) -> Any:
    if not isinstance(sampler, _Sampler):
        raise Unsupported(
            f"the sampler {type(sampler).__name__} is not supported here; instead: algorithm=, or in Optuna's own study "
            "luthier.optuna.LuthierSampler"
        )
    return sampler.algorithm


_QUIET = {"warn_independent_sampling": True, "warn_asynchronous_seeding": True, "independent_sampler": None}
_OWN_OPTIONS = 'create_study(algorithm={"%s": {...}}), whose options are in docs/reference/%s.md'


def _tpe(
    *,
    seed: Optional[int] = None,
    n_startup_trials: int = 10,
    n_ei_candidates: int = 24,
    multivariate: Optional[bool] = None,
    constraints_func: Constraints = None,
    **options: Any,
) -> _Sampler:
    defaults = {
        **_QUIET, "consider_prior": True, "prior_weight": 1.0, "consider_magic_clip": True, "consider_endpoints": False,
        "gamma": None, "weights": None, "group": False, "constant_liar": True,
    }  # fmt: skip
    options.pop("constant_liar", None)  # Trials that run always count as taken.
    options.pop("warn_independent_sampling", None)
    check_options("TPESampler", options, defaults, _OWN_OPTIONS % ("tpe", "tpe"))
    own: dict[str, Any] = {}
    if n_startup_trials != 10:
        own["startup_trials"] = max(1, n_startup_trials)
    if n_ei_candidates != 24:
        own["candidates"] = n_ei_candidates
    if multivariate is not None:
        own["multivariate"] = bool(multivariate)
    return _Sampler({"tpe": own} if own else "tpe", seed, constraints_func)


def _gp(
    *,
    seed: Optional[int] = None,
    n_startup_trials: int = 10,
    deterministic_objective: bool = False,
    constraints_func: Constraints = None,
    **options: Any,
) -> _Sampler:
    options.pop("warn_independent_sampling", None)
    check_options("GPSampler", options, _QUIET, _OWN_OPTIONS % ("bo", "bo"))
    own: dict[str, Any] = {} if n_startup_trials == 10 else {"initial_points": max(1, n_startup_trials)}
    del deterministic_objective  # The model estimates the noise, and finds none where there is none.
    return _Sampler({"bo": own} if own else "bo", seed, constraints_func)


def _cma_es(
    *, seed: Optional[int] = None, popsize: Optional[int] = None, warn_independent_sampling: bool = True, **options: Any
) -> _Sampler:
    defaults = {
        "x0": None, "sigma0": None, "n_startup_trials": 1, "independent_sampler": None, "consider_pruned_trials": False,
        "restart_strategy": None, "inc_popsize": -1, "use_separable_cma": False, "with_margin": False, "lr_adapt": False,
        "source_trials": None,
    }  # fmt: skip
    way = _OWN_OPTIONS % ("cma_es", "cma_es") + "; study.enqueue_trial and study.add_trials take settings and results along"
    check_options("CmaEsSampler", options, defaults, way)
    return _Sampler({"cma_es": {"population": popsize}} if popsize else "cma_es", seed)


def _random(seed: Optional[int] = None) -> _Sampler:
    return _Sampler("random", seed)


def _qmc(
    *, qmc_type: str = "sobol", scramble: bool = False, seed: Optional[int] = None, **options: Any
) -> _Sampler:
    for quiet in ("warn_independent_sampling", "warn_asynchronous_seeding"):
        options.pop(quiet, None)
    check_options("QMCSampler", options, _QUIET, 'create_study(algorithm="sobol")')
    if qmc_type not in ("sobol", "halton"):
        raise ValueError(f"qmc_type is {qmc_type!r}: it is 'sobol' or 'halton'")
    return _Sampler({qmc_type: {"scramble": bool(scramble)}}, seed)


def _rule(name: str, n_startup_trials: int, n_warmup_steps: int, interval_steps: int, n_min_trials: int) -> Any:
    check_options(f"{name.capitalize()}Pruner", {"n_min_trials": n_min_trials}, {"n_min_trials": 1}, "n_startup_trials=")
    return {name: {"min_trials": max(1, n_startup_trials), "warmup": n_warmup_steps, "interval": interval_steps}}


def median_pruner(
    n_startup_trials: int = 5, n_warmup_steps: int = 0, interval_steps: int = 1, *, n_min_trials: int = 1
) -> dict[str, Any]:
    """Stops trials that are worse than the median at the same step."""
    rule: dict[str, Any] = _rule("median", n_startup_trials, n_warmup_steps, interval_steps, n_min_trials)
    return rule


def percentile_pruner(
    percentile: float,
    n_startup_trials: int = 5,
    n_warmup_steps: int = 0,
    interval_steps: int = 1,
    *,
    n_min_trials: int = 1,
) -> dict[str, Any]:
    """Lets the best `percentile` of trials at the same step go on."""
    rule: dict[str, Any] = _rule("percentile", n_startup_trials, n_warmup_steps, interval_steps, n_min_trials)
    rule["percentile"]["percentile"] = percentile
    return rule


def _stopping(pruner: Any) -> Any:
    if pruner is None or isinstance(pruner, Mapping):
        return pruner or None
    raise Unsupported(
        f"the pruner {type(pruner).__name__} is not supported here; instead: pruners.MedianPruner, PercentilePruner, or "
        "luthier.study(stopping=, resource=, algorithm=)"
    )


# --- Callbacks, trials and the rest ---


class MaxTrialsCallback:
    """Ends `optimize` once the study has so many trials in the given states; None: in any."""

    def __init__(self, n_trials: int, states: Any = (TrialState.COMPLETE,)) -> None:
        self._most = n_trials
        self._states = () if states is None else tuple(states)

    def __call__(self, study: Any, trial: FrozenTrial) -> None:
        """Hears of a trial that has ended."""
        if len(study.get_trials(states=self._states)) >= self._most:
            study.stop()


class FixedTrial(_FixedTrial):
    """Stands for a trial with a given setting: runs an objective without a study."""

    def __init__(self, params: Mapping[str, Any], number: int = 0) -> None:
        super().__init__(params)
        self.number = number
        self.user_attrs: dict[str, Any] = {}

    suggest_uniform = suggest_loguniform = suggest_discrete_uniform = _FixedTrial.suggest_float

    def set_user_attr(self, *words: Any) -> None:
        """Keeps a note in `user_attrs`."""
        key, value = words
        self.user_attrs[key] = value


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
    shares = study.importance()
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


distributions = Words(
    "distributions",
    BaseDistribution=Domain,
    FloatDistribution=Float,
    IntDistribution=Int,
    CategoricalDistribution=Categorical,
    UniformDistribution=Float,
    LogUniformDistribution=lambda low, high: Float(low, high, log=True),
    DiscreteUniformDistribution=_discrete,
    IntUniformDistribution=lambda low, high, step=1: Int(low, high, step=step),
    IntLogUniformDistribution=lambda low, high, step=1: Int(low, high, log=True),
)
pruners = Words("pruners", MedianPruner=median_pruner, PercentilePruner=percentile_pruner, NopPruner=dict)
samplers = Words(
    "samplers", TPESampler=_tpe, CmaEsSampler=_cma_es, GPSampler=_gp, RandomSampler=_random, QMCSampler=_qmc
)
exceptions = Words(
    "exceptions",
    TrialPruned=TrialPruned,
    DuplicatedStudyError=StudyExists,
    OptunaError=LuthierError,
    StorageInternalError=Unavailable,
    UpdateFinishedTrialError=TrialFinal,
    ExperimentalWarning=FutureWarning,
)
importance = Words("importance", get_param_importances=get_param_importances)
storages = Words("storages", RDBStorage=lambda url: url, get_storage=lambda storage: storage)
logging = Words(
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
