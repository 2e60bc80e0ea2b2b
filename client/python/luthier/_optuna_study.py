"""Optuna's words of a study."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from luthier._goals import CONSTRAINT
from luthier._granted import Infeasible, State, Value
from luthier._notes import from_note, to_note
from luthier._optuna_refused import refuse
from luthier._optuna_samplers import Constraints
from luthier._optuna_trial import OptunaTrial, metrics_of_constraints
from luthier._results import split, to_number
from luthier.errors import StudyPaused, Unsupported
from luthier.space import to_domain
from luthier.study import Result, Study
from luthier.trial import FrozenTrial, Trial, TrialState

_LABEL = "optuna."  # Labels of a study that hold its user attributes.
_COLUMNS = "number", "value", "datetime_start", "datetime_complete", "duration", "params", "user_attrs", "state"
_STATES = {TrialState.FAILED: "FAIL", TrialState.PENDING: "WAITING"}


class StudyDirection(str, Enum):
    """Optuna's words for a goal; each equals its name as `study.direction` has it. No study has NOT_SET."""

    NOT_SET = "not set"
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


def _has_gradient(result: Any) -> bool:
    return isinstance(result, tuple) and len(result) == 2 and (result[1] is None or isinstance(result[1], Mapping))


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
        number = trial if isinstance(trial, int) else trial.number
        if skip_if_finished and (number not in self._asked.open or self.trial(number).state.is_finished()):
            return self.trial(number)
        inner: Any = self._trial_of(trial if isinstance(trial, Trial) else number)
        try:
            if str(getattr(state, "value", state)) in ("None", "COMPLETE"):
                value = self._judged(inner, value)
        except Infeasible as error:
            inner._fail("INFEASIBLE", str(error))
        else:
            super().tell(inner, value, state=state, **options)
        return self.trial(number)

    def _judged(self, trial: Any, result: Any) -> Any:
        """Returns a result with the metrics that stand for the trial's constraints. Raises Infeasible where one is above 0
        and the study has no bound for it, ValueError where one is NaN."""
        value, gradient = split(result) if _has_gradient(result) else (result, None)
        goals = list(self.goals)
        if isinstance(value, (list, tuple)) and len(value) == len(goals):
            value = value[0] if len(goals) == 1 else dict(zip(goals, value))
        measured = value if isinstance(value, Mapping) else {goals[0]: value}
        limits = self._limits(trial, measured)
        if CONSTRAINT in self.constraints:
            if (limits or self._constraints is not None) and set(goals) <= set(measured):
                value = {**measured, **metrics_of_constraints(limits)}
        else:
            broken = [f"constraint {name} is {x:.6g}, not at most 0" for name, x in limits.items() if not x <= 0]
            if broken:
                raise Infeasible(f"{'; '.join(broken)}: its value {value} does not count")
        return value if gradient is None else (value, gradient)

    def _limits(self, trial: Any, measured: Mapping[str, Any]) -> dict[str, float]:
        """Returns the constraints of a trial by their keys: those that it set, and numbered what `constraints_func`
        returns. TypeError where that is no sequence of numbers."""
        limits: dict[str, float] = dict(getattr(trial, "constraints", {}))
        if self._constraints is None:
            return limits
        notes = {key: to_note(note) for key, note in trial.user_attrs.items()}
        goals = tuple(self.goals)
        metrics = {name: float(x) for name, x in measured.items() if isinstance(x, Real)}
        frozen = FrozenTrial(
            trial.number, TrialState.COMPLETE, trial.params, metrics.get(goals[0]), metrics, attributes=notes,
            started=trial.datetime_start.timestamp(), intermediate_values=dict(trial._curve), objectives=goals,
        )  # fmt: skip
        frozen._with(lambda: trial.distributions, None)
        found = self._constraints(frozen)
        if isinstance(found, str) or not isinstance(found, Iterable):
            raise TypeError(f"constraints_func returned {found!r}: it returns a sequence of numbers")
        return {**limits, **{str(i): to_number(f"constraint {i} of constraints_func", x) for i, x in enumerate(found)}}

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
        """Runs trials. `gc_after_trial` collects garbage after each, as Optuna does. Trials that violate a constraint are
        not feasible; of a study that was made without constraints they fail as INFEASIBLE."""
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
        """Returns an objective whose results have the metrics that stand for its constraints."""
        if not callable(objective):
            return objective

        @functools.wraps(objective)
        def constrained(trial: Any) -> Any:
            return self._judged(trial, objective(trial))

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
        if len(self.goals) > 1:
            names = tuple("values" if name == "value" else name for name in names)
        rows: list[dict[tuple[str, Any], Any]] = []
        for trial in self.trials:
            row: dict[tuple[str, Any], Any] = {}
            for name in names:
                cell = getattr(trial, name)
                if name == "values" and cell is None:
                    continue
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
        """The goal, which equals "minimize" or "maximize". RuntimeError for several, which are `directions`."""
        if len(self.goals) > 1:
            raise RuntimeError(f"{self.study_name} has several objectives: look at study.directions")
        return StudyDirection(super().direction)

    @property
    def directions(self) -> list[StudyDirection]:
        """The goals, in their order."""
        return [StudyDirection(goal) for goal in self.goals.values()]

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
        """The front of several goals; of one the best trial, in a list. Empty while none is complete and feasible."""
        if len(self.goals) > 1:
            return self.front
        try:
            return [self.best_trial]
        except ValueError:
            return []

    @property
    def metric_names(self) -> list[str]:
        """The metrics of the goals, in their order."""
        return list(self.goals)


class MaxTrialsCallback:
    """Ends `optimize` once the study has so many trials in the given states; None: in any."""

    def __init__(self, n_trials: int, states: Any = (TrialState.COMPLETE,)) -> None:
        self._most = n_trials
        self._states = () if states is None else tuple(states)

    def __call__(self, study: Any, trial: FrozenTrial) -> None:
        """Hears of a trial that has ended."""
        if len(study.get_trials(states=self._states)) >= self._most:
            study.stop()
