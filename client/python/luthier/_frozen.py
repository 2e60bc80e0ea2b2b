"""Trials as they are stored: what users see of the service's Trial messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Optional

from luthier import _wire
from luthier._dynamic import is_own, share_of, with_values
from luthier._fingerprint import objective_of
from luthier._goals import CONSTRAINT
from luthier._notes import from_note
from luthier._optuna_refused import refuse
from luthier.space import Domain, Float, Int, Space


_CURVES = "intermediate_values", "intermediate_metrics"


class TrialState(str, Enum):
    """What has become of a trial. Equal to its name as a text."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    PRUNED = "PRUNED"
    FAILED = "FAILED"
    FAIL = "FAILED"  # Optuna's words: the same members.
    WAITING = "PENDING"
    CANCELLED = "CANCELLED"
    PAUSED = "PAUSED"

    def is_finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self not in (TrialState.PENDING, TrialState.RUNNING, TrialState.PAUSED)


class Seconds(float):
    """A time in seconds, which also says so as a timedelta does: Optuna's trials have these."""

    def total_seconds(self) -> float:
        """Returns the number."""
        return float(self)


@dataclass(frozen=True)
class FrozenTrial:
    """A trial as it is stored. Lists of trials come without learning curves: `intermediate_values`, which has the first
    objective by step, and `intermediate_metrics`, which has all that was reported, ask for that of their trial when one
    of them is looked at first."""

    number: int
    state: TrialState
    params: dict[str, Any]
    value: Optional[float] = None
    metrics: dict[str, float] = field(default_factory=dict)
    standard_errors: dict[str, float] = field(default_factory=dict)
    gradient: Optional[dict[str, float]] = None
    attributes: dict[str, str] = field(default_factory=dict)
    designer: str = ""
    failure: str = ""
    started: Optional[float] = None
    ended: Optional[float] = None
    intermediate_values: dict[int, float] = field(default_factory=dict, repr=False)
    step: int = 0
    objective: str = ""  # Fingerprint of the function that `optimize` ran.
    gradients: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)  # By metric: those that are whole.
    feasible: Optional[bool] = None  # False beyond a constraint of the study; None without constraints, or a result.
    objectives: tuple[str, ...] = field(default=(), repr=False)  # Names of the study's objectives, in order.
    intermediate_metrics: dict[int, dict[str, float]] = field(default_factory=dict, repr=False)  # By step, and by name.

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The attributes, in Optuna's word and with its values: what is JSON comes as what it stands for."""
        return {key: from_note(note) for key, note in self.attributes.items() if not is_own(key)}

    @property
    def distributions(self) -> dict[str, Domain]:
        """What each of its parameters may be, by name."""
        return {name: domain for name, domain in self._all_domains().items() if name in self.params}

    def _all_domains(self) -> dict[str, Domain]:
        """Returns the same with the parameters that stand for others, as the share of a range does."""
        domains: Callable[[], dict[str, Domain]] = self.__dict__.get("_domains", dict)
        return domains()

    def _with(self, domains: Callable[[], dict[str, Domain]], whole: Optional[Callable[[], FrozenTrial]]) -> None:
        """Takes what says its domains, and what asks for the trial with its curve where it came without."""
        self.__dict__["_domains"] = domains
        if whole is not None:
            self.__dict__["_whole"] = whole
            for name in _CURVES:
                del self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        """A copy, and what travels to other processes, has all that the trial has."""
        curves, domains = {name: getattr(self, name) for name in _CURVES}, self._all_domains()
        state = {name: value for name, value in self.__dict__.items() if name not in ("_whole", "_domains")}
        return {**state, **curves, "_kept": domains}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept: dict[str, Domain] = state.pop("_kept", {})
        self.__dict__.update(state)
        self._with(lambda: kept, None)

    @property
    def values(self) -> Optional[list[float]]:
        """The values of the study's objectives, in Optuna's word; None without all of them."""
        if len(self.objectives) < 2:
            return None if self.value is None else [self.value]
        known = [self.metrics[name] for name in self.objectives if name in self.metrics]
        return known if len(known) == len(self.objectives) else None

    @property
    def constraints(self) -> dict[str, float]:
        """What Optuna calls the constraints of the trial, by their keys: it is feasible where none is above 0."""
        prefix = CONSTRAINT + "_"
        return {name[len(prefix) :]: x for name, x in self.metrics.items() if name.startswith(prefix)}

    @property
    def last_step(self) -> Optional[int]:
        """The last step of its curve, in Optuna's word; None where it reported nothing."""
        return max(self.intermediate_values, default=None)

    @property
    def datetime_start(self) -> Optional[datetime]:
        """When it began, in Optuna's word."""
        return None if self.started is None else datetime.fromtimestamp(self.started)

    @property
    def datetime_complete(self) -> Optional[datetime]:
        """When it ended, in Optuna's word."""
        return None if self.ended is None else datetime.fromtimestamp(self.ended)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _CURVES and "_whole" in self.__dict__:
                whole = self.__dict__["_whole"]()
                for curve in _CURVES:
                    self.__dict__.setdefault(curve, getattr(whole, curve))
                return self.__dict__[name]
            if not name.startswith("_"):
                refuse("FrozenTrial", name)
            raise AttributeError(f"trials have no {name!r}")

    @property
    def duration(self) -> Optional[Seconds]:
        """Seconds from its first grant to its end."""
        return None if self.started is None or self.ended is None else Seconds(self.ended - self.started)


def freeze(space: Space, objectives: Sequence[str], trial: Any) -> FrozenTrial:
    """Returns a Trial message as users see it. `objectives`: the study's, by name."""
    metric = objectives[0]
    last = trial.final_measurement
    gradients = {
        name: dict(zip(space.coordinates(), one.full.values))
        for name, one in [(metric, last.gradient), *sorted(last.gradients.items())]
        if one.WhichOneof("kind") == "full"
    }
    state = TrialState(_wire.enum_names("Trial.State")[trial.state])
    begin = trial.attempts[0].start_time if trial.attempts else trial.create_time if state.is_finished() else None
    stored = space.decode(trial.parameters)
    frozen = FrozenTrial(
        number=trial.number,
        state=state,
        params=with_values(stored, trial.attributes),
        value=last.metrics[metric] if metric in last.metrics else None,
        metrics=dict(last.metrics),
        standard_errors=dict(last.standard_errors),
        gradient=gradients.get(metric),
        gradients=gradients,
        attributes=dict(trial.attributes),
        designer=trial.provenance.designer,
        failure=f"{trial.failure.reason}: {trial.failure.message}" if trial.HasField("failure") else "",
        started=_seconds(begin) if begin is not None else None,
        ended=_seconds(trial.end_time) if state.is_finished() else None,
        intermediate_values={p.step: p.metrics[metric] for p in trial.measurements if metric in p.metrics},
        step=last.step,
        objective=objective_of(trial.attempts[-1].worker) if trial.attempts else "",
        feasible=trial.feasible if trial.HasField("feasible") else None,
        objectives=tuple(objectives),
        intermediate_metrics={p.step: dict(p.metrics) for p in trial.measurements},
    )
    frozen.__dict__["_stored"] = stored
    frozen._with(lambda: _domains(space, {**stored, **frozen.params}), None)
    return frozen


def _domains(space: Space, params: Mapping[str, Any]) -> dict[str, Domain]:
    """Returns what the parameters of a setting may be. A range that differs from trial to trial is one that has the
    value."""
    out: dict[str, Domain] = {}
    for name, value in params.items():
        if name not in space.by_name:
            continue
        domain = space.by_name[name].domain()
        if share_of(name) in space.by_name and isinstance(domain, (Float, Int)):
            domain = type(domain)(min(domain.low, value), max(domain.high, value), log=domain.log)
        out[name] = domain
    return out


def explain(space: Space, trial: Any) -> dict[str, Any]:
    """Returns why a trial's setting was tried, from its provenance."""
    p = trial.provenance
    out: dict[str, Any] = {"designer": p.designer, "origin": p.origin, "details": dict(p.details)}
    if p.HasField("ask_index"):
        out.update(ask_index=p.ask_index, prefix_seq=p.prefix_seq)
    if p.direction:
        out["direction"] = dict(zip(space.coordinates(), p.direction))
    if trial.gradient_set_aside:
        out["gradient_set_aside"] = True
    return out


def _seconds(time: Any) -> float:
    return float(time.seconds) + 1e-9 * float(time.nanos)
