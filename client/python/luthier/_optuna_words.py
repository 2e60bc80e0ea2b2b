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
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from luthier import _create
from luthier._arguments import count, text, whole
from luthier._create import Goal, study_id
from luthier._gradient import _FixedTrial
from luthier._granted import Asked, Infeasible, State, Value
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
from luthier._optuna_refused import ONE_OBJECTIVE as _ONE_OBJECTIVE
from luthier._optuna_refused import REFUSED, Words, check_options, refuse
from luthier.space import Categorical, Domain, Float, Int, to_domain
from luthier.study import Result, Study
from luthier.trial import FrozenTrial, Trial, TrialState

_LABEL = "optuna."  # Labels of a study that hold its user attributes.
_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63}/)?[a-z0-9][a-z0-9_.-]{0,63}\Z")
Constraints = Optional[Callable[[FrozenTrial], Sequence[float]]]
_COLUMNS = "number", "value", "datetime_start", "datetime_complete", "duration", "params", "user_attrs", "state"
_STATES = {TrialState.FAILED: "FAIL", TrialState.PENDING: "WAITING"}


class StudyDirection(str, Enum):
    """Optuna's words for a goal; each equals its name as `study.direction` has it. No study has NOT_SET."""

    NOT_SET = "not set"
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class OptunaTrial(Trial):
    """A trial that runs, which also takes Optuna's words."""

    def __init__(self, asked: Asked, lease: Any, worker: str) -> None:
        super().__init__(asked, lease, worker)
        self._notes: dict[str, Any] = {key: from_note(note) for key, note in lease.trial.attributes.items()}
        self._domains: dict[str, Domain] = {}
        self._limits: dict[str, float] = {}
        self._curve: dict[int, float] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse("Trial", name)
            raise AttributeError(f"neither Optuna's trials nor Luthier's have {name!r}")

    def _taken(self, reply: Any) -> str:
        if self._last is not None and self._study.metric in self._last.metrics:
            self._curve[self._step] = self._last.metrics[self._study.metric]
        return super()._taken(reply)

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
    _given = ""  # Its name in the call that made it.

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse("Study", name)
            raise AttributeError(f"neither Optuna's studies nor Luthier's have {name!r}")

    @overload  # type: ignore[override]
    def ask(
        self, n: Optional[Mapping[str, Any]] = None, *, fixed_distributions: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None, worker: Optional[str] = None,
    ) -> OptunaTrial: ...  # fmt: skip

    @overload
    def ask(self, n: int, *, timeout: Optional[float] = None, worker: Optional[str] = None) -> list[OptunaTrial]: ...

    def ask(self, n: Any = None, *, fixed_distributions: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """Returns the next trial. With distributions their parameters are taken at once."""
        declared = n if isinstance(n, Mapping) else fixed_distributions
        declared = None if declared is None else {name: to_domain(given) for name, given in declared.items()}
        if declared is None:
            return super().ask(n, **options)
        trial = super().ask(None, **options)
        if trial is not None:
            for name, domain in declared.items():
                trial._suggest(name, domain)
        return trial

    def tell(  # type: ignore[override]
        self,
        trial: Union[Trial, FrozenTrial, int],
        values: Union[Value, Sequence[float], None] = None,
        state: Optional[State] = None,
        skip_if_finished: bool = False,
        **options: Any,
    ) -> FrozenTrial:
        """Ends a trial and returns it as it is stored. With `skip_if_finished` one that has ended is left as it is."""
        value: Any = options.pop("value", values)
        value = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        number = trial if isinstance(trial, int) else trial.number
        if skip_if_finished and (number not in self._asked.open or self.trial(number).state.is_finished()):
            return self.trial(number)
        inner: Any = self._trial_of(trial if isinstance(trial, Trial) else number)
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
        limits: dict[Any, float] = dict(getattr(trial, "constraints", {}))
        if self._constraints is not None:
            notes = {key: to_note(note) for key, note in trial.user_attrs.items()}
            number = value if isinstance(value, (int, float)) else None
            frozen = FrozenTrial(
                trial.number, TrialState.COMPLETE, trial.params, number, attributes=notes,
                started=trial.datetime_start.timestamp(), intermediate_values=dict(trial._curve),
            )  # fmt: skip
            frozen._with(lambda: trial.distributions, None)
            found = self._constraints(frozen)
            if not isinstance(found, Iterable):
                raise TypeError(f"constraints_func returned {found!r}: it returns a sequence of numbers")
            limits.update({f"{i + 1} of constraints_func": float(c) for i, c in enumerate(found)})
        broken = [f"constraint {name} is {x:.6g}, not at most 0" for name, x in limits.items() if not x <= 0]
        if broken:
            raise Infeasible(f"{'; '.join(broken)}: its value {value} does not count")

    def optimize(  # type: ignore[override]
        self,
        fn: Optional[Callable[[OptunaTrial], Union[Result, Sequence[float]]]] = None,
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        catch: Union[Iterable[type[BaseException]], type[BaseException]] = (),
        callbacks: Optional[Iterable[Callable[[Any, FrozenTrial], None]]] = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
        **options: Any,
    ) -> Any:
        """Runs trials. `gc_after_trial` collects garbage after each, as Optuna does. Trials that violate a constraint
        fail as INFEASIBLE: the search learns to avoid their like."""
        objective = options.pop("func", fn)
        options.update(catch=catch, callbacks=callbacks, show_progress_bar=show_progress_bar)
        args = n_trials, timeout, n_jobs
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
            if isinstance(result, (list, tuple)) and len(result) == 1:
                result = result[0]  # The values of one objective.
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

    def trials_dataframe(
        self, attrs: Optional[Sequence[str]] = None, multi_index: bool = False, **options: Any
    ) -> Any:
        """Returns the trials as a pandas data frame with the columns that Optuna's has, and its names of states: FAIL,
        WAITING. `attributes=` asks for Luthier's own columns."""
        if options:
            return super().trials_dataframe(**options)
        import pandas

        names = _COLUMNS if attrs is None else tuple(attrs)
        rows: list[dict[tuple[str, Any], Any]] = []
        for trial in self.trials:
            row: dict[tuple[str, Any], Any] = {}
            for name in names:
                cell = getattr(trial, name)
                if isinstance(cell, list):
                    cell = dict(enumerate(cell))
                cells = cell if isinstance(cell, dict) else {"": cell}
                row.update({(name, key): x for key, x in cells.items()})
            if "state" in names:
                row["state", ""] = _STATES.get(trial.state, trial.state.value)
            if trial.duration is not None and "duration" in names:
                row["duration", ""] = timedelta(seconds=trial.duration)
            rows.append(row)
        there = {column for row in rows for column in row}
        columns = [column for name in names for column in sorted(c for c in there if c[0] == name)]
        frame = pandas.DataFrame([[row.get(column) for column in columns] for row in rows])
        plain = [name if key == "" else f"{name}_{key}" for name, key in columns]
        frame.columns = pandas.MultiIndex.from_tuples(columns) if multi_index and columns else plain
        return frame

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
        return str(self._given or self._spec.display_name or self.name)

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
        if len(values) != 1:
            raise ValueError(f"values has {len(values)} numbers: {_ONE_OBJECTIVE}")
        value = values[0]
    state = TrialState(getattr(state, "value", state))
    if any(not limit <= 0 for limit in (constraints or {}).values()):
        state, value = TrialState.FAILED, None
    notes = {key: to_note(note) for key, note in (user_attrs or {}).items()}
    curve = {int(step): float(x) for step, x in (intermediate_values or {}).items()}
    space = {name: to_domain(given) for name, given in (distributions or {}).items()}
    if set(space) != set(params or {}):
        raise ValueError(f"params has {sorted(params or {})}, distributions {sorted(space)}: they have the same names")
    made = FrozenTrial(0, state, dict(params or {}), value, attributes=notes, intermediate_values=curve)
    made._with(lambda: space, None)
    return made


def _where(storage: Any, server: Optional[str], db: Optional[str]) -> dict[str, Any]:
    """Returns the coordinator that stands for a storage: of a directory beside a SQLite file, or a server."""
    if storage is None:
        return {"server": server, "db": db}
    if not isinstance(storage, str) or server is not None or db is not None:
        raise ValueError("storage is one of sqlite:///FILE, HOST:PORT, unix:PATH; or give server= or db= instead")
    if storage.startswith("sqlite:///") and not storage.endswith(":memory:"):
        return {"server": None, "db": storage[len("sqlite:///") :] + ".d"}
    if ":" not in storage:
        raise ValueError(f"storage is {storage!r}: it is one of sqlite:///FILE, HOST:PORT, unix:PATH")
    if "://" in storage:
        raise ValueError(
            f"trials are kept by a coordinator, not in {storage.split(':')[0]}: give server='HOST:PORT', or db='DIR'"
        )
    return {"server": storage, "db": None}


def _legal(name: str) -> str:
    """Returns a name that the service takes: any text as it is where it does, else one made from it and its hash."""
    if _NAME.match(text("study_name", name)):
        return name
    return f"{study_id(name)[:54]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: Optional[str] = None,
    direction: Union[Goal, StudyDirection, None] = None,
    load_if_exists: bool = True,
    directions: Any = None,
    algorithm: Any = None,
    seed: Optional[int] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
) -> OptunaStudy:
    """Makes a study in Optuna's words, with an open space: programs need one line changed. Without a name it gets a
    fresh one; a name that the service does not take, as with capitals, is the study's display name. StudyExists where
    it is there already and `load_if_exists` is false. Without a seed each study has one of its own.
    `storage="sqlite:///a.db"` is `db="a.db.d"`."""
    if directions is not None and len(directions) != 1:
        raise ValueError(f"directions has {len(directions)}: {_ONE_OBJECTIVE}")
    if directions is not None and direction is not None:
        raise ValueError("give direction= or directions=, not both")
    goal: Any = directions[0] if directions else direction
    where = _where(storage, server, db)
    name = _legal(study_name) if study_name else f"study-{uuid.uuid4().hex[:12]}"
    if sampler is not None:
        algorithm, seed = _algorithm(sampler), sampler.seed
    there: Optional[Study] = None
    if study_name:
        try:
            there = _create.load(name, **where)
        except NotFound:
            pass
    if there is not None and not load_if_exists:
        raise StudyExists(f"study {study_name} exists already; load_if_exists=True goes on with it")
    if seed is None and there is not None:
        seed = int(there._spec.seed)
    elif seed is None:  # As random as the name of a study without one; the same for all who make one of this name.
        seed = int(hashlib.sha256(name.encode()).hexdigest()[:7], 16)
    goal = str(getattr(goal, "name", goal) or "minimize").lower()  # luthier.study says what is wrong with it.
    shown = study_name if study_name and name != study_name else ""
    made = _create.make(
        name, goal=goal, algorithm=algorithm, seed=seed, stopping=_stopping(pruner), display_name=shown, **where
    )
    return _optuna_study(made, sampler, study_name)


def _optuna_study(made: Study, sampler: Any, name: Optional[str]) -> OptunaStudy:
    study = OptunaStudy(made._client, made._message)
    study._given = name or ""
    study._constraints = getattr(sampler, "constraints_func", None)
    return study


def load_study(
    *, study_name: Optional[str], storage: Any = None, sampler: Any = None, pruner: Any = None, **where: Any
) -> OptunaStudy:
    """Returns a study that is there; None: the only one. A sampler's constraints go on; ValueError where its algorithm,
    or the pruner, is not the study's own: these stay what they were when the study was made. NotFound."""
    place = _where(storage, where.pop("server", None), where.pop("db", None))
    if where:
        raise TypeError(f"load_study has no {sorted(where)}")
    if study_name is None:
        names = _names(place)
        if len(names) != 1:
            raise ValueError(f"there are the studies {names}: say which by study_name=")
        study_name = names[0]
    found = _create.load(_legal(study_name), **place)
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
    return _optuna_study(found, sampler, study_name)


def delete_study(*, study_name: str, storage: Any = None) -> None:
    """Removes a study and its trials for ever."""
    Study.delete(load_study(study_name=study_name, storage=storage))


def get_all_study_names(storage: Any = None) -> list[str]:
    """Returns the names of all studies."""
    return _names(_where(storage, None, None))


def _names(where: dict[str, Any]) -> list[str]:
    return [str(study._spec.display_name or study.name) for study in _create.studies(**where)]


# --- Samplers and pruners ---


class _Sampler:
    """What a sampler asks for: an algorithm with options, a seed, and constraints."""

    def __init__(self, algorithm: Any, seed: Optional[int] = None, constraints_func: Constraints = None) -> None:
        if seed is not None and whole("seed", seed) < 0:
            raise ValueError(f"seed is {seed}: it is at least 0")
        self.algorithm, self.seed, self.constraints_func = algorithm, seed, constraints_func

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            refuse("samplers", "BaseSampler")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(algorithm={self.algorithm!r}, seed={self.seed!r})"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            refuse("Sampler", name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


def _algorithm(sampler: Any) -> Any:
    if isinstance(sampler, _Sampler):
        return sampler.algorithm
    raise Unsupported(
        _not_ours("sampler", sampler)
        or f"the sampler {_kind(sampler)} is not supported here; instead: algorithm=, or in Optuna's own study "
        "luthier.optuna.LuthierSampler"
    )


def _kind(given: Any) -> str:
    return given.__name__ if isinstance(given, type) else type(given).__name__


def _not_ours(what: str, given: Any) -> str:
    """Says what is wrong with a sampler or pruner that was not made, or is Optuna's own; else returns ""."""
    name = _kind(given)
    if name in vars(samplers) or name in vars(pruners):
        if isinstance(given, type):
            return f"the {what} is the class {name}; instead: {what}={name}(...)"
        if type(given).__module__.startswith("optuna."):
            return f"the {what} {name} of the package optuna is not supported here; instead: luthier.{what}s.{name}"
    return ""


_QUIET = {"warn_independent_sampling": True, "warn_asynchronous_seeding": True, "independent_sampler": None}
_OWN_OPTIONS = 'create_study(algorithm={"%s": {...}}), whose options are in docs/reference/%s.md'


class TPESampler(_Sampler):
    """The algorithm `tpe`."""

    def __init__(
        self,
        *,
        seed: Optional[int] = None,
        n_startup_trials: int = 10,
        n_ei_candidates: int = 24,
        multivariate: Optional[bool] = None,
        constraints_func: Constraints = None,
        **options: Any,
    ) -> None:
        defaults = {
            **_QUIET, "consider_prior": True, "prior_weight": 1.0, "consider_magic_clip": True, "gamma": None,
            "consider_endpoints": False, "weights": None, "group": False, "constant_liar": True,
            "categorical_distance_func": None,
        }  # fmt: skip
        options.pop("constant_liar", None)  # Trials that run always count as taken.
        options.pop("warn_independent_sampling", None)
        check_options("TPESampler", options, defaults, _OWN_OPTIONS % ("tpe", "tpe"))
        own: dict[str, Any] = {}
        if count("n_startup_trials", n_startup_trials) != 10:
            own["startup_trials"] = max(1, n_startup_trials)
        if count("n_ei_candidates", n_ei_candidates) != 24:
            own["candidates"] = n_ei_candidates
        if multivariate is not None:
            own["multivariate"] = bool(multivariate)
        super().__init__({"tpe": own} if own else "tpe", seed, constraints_func)

    @staticmethod
    def hyperopt_parameters() -> Any:
        """Refused."""
        refuse("Sampler", "hyperopt_parameters")


class GPSampler(_Sampler):
    """The algorithm `bo`."""

    def __init__(
        self,
        *,
        seed: Optional[int] = None,
        n_startup_trials: int = 10,
        deterministic_objective: bool = False,
        constraints_func: Constraints = None,
        **options: Any,
    ) -> None:
        options.pop("warn_independent_sampling", None)
        check_options("GPSampler", options, _QUIET, _OWN_OPTIONS % ("bo", "bo"))
        startup = count("n_startup_trials", n_startup_trials)
        own: dict[str, Any] = {} if startup == 10 else {"initial_points": max(1, startup)}
        del deterministic_objective  # The model estimates the noise, and finds none where there is none.
        super().__init__({"bo": own} if own else "bo", seed, constraints_func)


class CmaEsSampler(_Sampler):
    """The algorithm `cma_es`."""

    def __init__(
        self,
        x0: Any = None,
        sigma0: Optional[float] = None,
        *,
        seed: Optional[int] = None,
        popsize: Optional[int] = None,
        warn_independent_sampling: bool = True,
        **options: Any,
    ) -> None:
        defaults = {
            "x0": None, "sigma0": None, "n_startup_trials": 1, "independent_sampler": None, "restart_strategy": None,
            "consider_pruned_trials": False, "inc_popsize": -1, "use_separable_cma": False, "with_margin": False,
            "lr_adapt": False, "source_trials": None,
        }  # fmt: skip
        way = _OWN_OPTIONS % ("cma_es", "cma_es") + "; study.enqueue_trial, study.add_trials take along what is known"
        check_options("CmaEsSampler", {"x0": x0, "sigma0": sigma0, **options}, defaults, way)
        super().__init__({"cma_es": {"population": popsize}} if popsize else "cma_es", seed)


class RandomSampler(_Sampler):
    """The algorithm `random`."""

    def __init__(self, seed: Optional[int] = None) -> None:
        super().__init__("random", seed)


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
    alone = next((name for name, word in vars(pruners).items() if word is pruner), None)
    if alone is not None:
        raise Unsupported(f"the pruner is the word {alone} alone; instead: pruner={alone}(...)")
    raise Unsupported(
        _not_ours("pruner", pruner)
        or f"the pruner {_kind(pruner)} is not supported here; instead: pruners.MedianPruner, PercentilePruner, or "
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
    """Stands for a trial with a given setting: runs an objective without a study. ValueError where the objective asks
    for a range that the setting is not in."""

    def __init__(self, params: Mapping[str, Any], number: int = 0) -> None:
        super().__init__(params)
        self.number = number
        self.user_attrs: dict[str, Any] = {}
        self.distributions: dict[str, Domain] = {}
        self.constraints: dict[str, float] = {}
        self.datetime_start = datetime.now()

    def __getattr__(self, name: str) -> Any:
        refuse("Trial", name)
        raise AttributeError(f"neither Optuna's trials nor Luthier's have {name!r}")

    def _take(self, name: str, domain: Domain) -> Any:
        value = self[name]
        if isinstance(domain, (Float, Int)):
            inside = bool(domain.low <= value <= domain.high)
        else:
            inside = value in getattr(domain, "choices", ())
        if not inside:
            raise ValueError(f"{name!r} is {value!r} in the setting, which is not in {domain}")
        self.distributions[name] = domain
        return value

    def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None, log: bool = False
    ) -> Any:
        """Returns the value of the setting."""
        return self._take(name, Float(low, high, step=step, log=log))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> Any:
        """Returns the value of the setting."""
        return self._take(name, Int(low, high, step=step, log=log))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Returns the value of the setting."""
        return self._take(name, Categorical(choices))

    def suggest_uniform(self, name: str, low: float, high: float) -> Any:
        """Returns the value of the setting."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> Any:
        """Returns the value of the setting."""
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> Any:
        """Returns the value of the setting."""
        return self.suggest_float(name, low, high, step=q)

    def set_user_attr(self, *words: Any) -> None:
        """Keeps a note in `user_attrs`."""
        key, value = words
        self.user_attrs[key] = value

    def set_constraint(self, key: str, value: float) -> None:
        """Keeps the value of a constraint in `constraints`."""
        self.constraints[key] = float(value)


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
pruners: Words = Words("pruners", MedianPruner=median_pruner, PercentilePruner=percentile_pruner, NopPruner=dict)
samplers: Words = Words(
    "samplers", TPESampler=TPESampler, CmaEsSampler=CmaEsSampler, GPSampler=GPSampler, RandomSampler=RandomSampler
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
