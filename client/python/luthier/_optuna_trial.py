"""Optuna's words of a trial that runs, has a given setting, or comes from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Optional

from luthier._gradient import _FixedTrial
from luthier._goals import CONSTRAINT, MOST_METRICS, greatest, names_of_goals
from luthier._granted import Asked
from luthier._notes import from_note, to_note
from luthier._optuna_refused import refuse
from luthier.errors import Unsupported
from luthier.space import LEGAL_NAME, Categorical, Domain, Float, Int, to_domain
from luthier.trial import FrozenTrial, Trial, TrialState


_MOST_KEPT = 20  # Constraints of a trial that are kept one by one.


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

    def _measured(self, value: Any, step: Any, metrics: Any, gradient: Any) -> Any:
        names = list(self._study.goals)
        if len(names) > 1 and value is not None and not isinstance(value, Mapping):
            way = ", ".join(f"{name!r}: ..." for name in names)
            raise Unsupported(
                f"report({value!r}) of a study with several objectives is not supported here; instead: "
                f"report({{{way}}}, step)"
            )
        return super()._measured(value, step, metrics, gradient)

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
        """Sets the value of a constraint: above 0 the trial is not feasible. ValueError for NaN."""
        if math.isnan(float(value)):
            raise ValueError(f"constraint {key!r} is NaN")
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


def metrics_of_constraints(limits: Mapping[str, float]) -> dict[str, float]:
    """Returns constraints as a trial keeps them: the largest, and each by its key where that may be a metric's name.
    ValueError for NaN."""
    for key, limit in limits.items():
        if math.isnan(limit):
            raise ValueError(f"constraint {key!r} is NaN")
    names = {key: f"{CONSTRAINT}_{key}" for key in list(limits)[:_MOST_KEPT]}
    finite = {name: float(limits[key]) for key, name in names.items() if math.isfinite(limits[key])}
    kept = {name: x for name, x in finite.items() if LEGAL_NAME.match(name)}
    return {CONSTRAINT: greatest(limits.values()), **kept}


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
    """Returns a result from elsewhere, for `add_trial`. One that violates a constraint is not feasible; a study that was
    made without constraints takes it as one that has failed."""
    if system_attrs:
        raise Unsupported("create_trial(system_attrs=...) is not supported here; instead: user_attrs=...")
    if values is not None and value is not None:
        raise ValueError("give value= or values=, not both")
    given = [value] if values is None else list(values)
    if not 1 <= len(given) <= MOST_METRICS:
        raise ValueError(f"values has {len(given)} numbers: a study has 1 to {MOST_METRICS} objectives")
    names = names_of_goals(len(given))
    metrics = {name: float(x) for name, x in zip(names, given) if x is not None}
    feasible: Optional[bool] = None
    if constraints:
        metrics.update(metrics_of_constraints(constraints))
        feasible = metrics[CONSTRAINT] <= 0
    state = TrialState(getattr(state, "value", state))
    notes = {key: to_note(note) for key, note in (user_attrs or {}).items()}
    curve = {int(step): float(x) for step, x in (intermediate_values or {}).items()}
    space = {name: to_domain(given) for name, given in (distributions or {}).items()}
    if set(space) != set(params or {}):
        raise ValueError(f"params has {sorted(params or {})}, distributions {sorted(space)}: they have the same names")
    made = FrozenTrial(
        0, state, dict(params or {}), given[0], metrics if len(metrics) > 1 else {}, attributes=notes,
        intermediate_values=curve, feasible=feasible, objectives=tuple(names),
    )  # fmt: skip
    made._with(lambda: space, None)
    return made
