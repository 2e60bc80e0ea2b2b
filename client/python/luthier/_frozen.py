"""Trials as they are stored: what users see of the service's Trial messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Optional

from luthier import _wire
from luthier._dynamic import is_own, with_values
from luthier._fingerprint import objective_of
from luthier._notes import from_note
from luthier._optuna_refused import refuse
from luthier.space import Space


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
    """A trial as it is stored."""

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
    intermediate_values: dict[int, float] = field(default_factory=dict)
    step: int = 0
    objective: str = ""  # Fingerprint of the function that `optimize` ran.

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The attributes, in Optuna's word and with its values: what is JSON comes as what it stands for."""
        return {key: from_note(note) for key, note in self.attributes.items() if not is_own(key)}

    @property
    def values(self) -> Optional[list[float]]:
        """The value in a list, in Optuna's word."""
        return None if self.value is None else [self.value]

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
            if not name.startswith("_"):
                refuse("FrozenTrial", name)
            raise AttributeError(f"trials have no {name!r}")

    @property
    def duration(self) -> Optional[Seconds]:
        """Seconds from its first grant to its end."""
        return None if self.started is None or self.ended is None else Seconds(self.ended - self.started)


def freeze(space: Space, metric: str, trial: Any) -> FrozenTrial:
    """Returns a Trial message as users see it."""
    last = trial.final_measurement
    gradient: Optional[dict[str, float]] = None
    if last.gradient.WhichOneof("kind") == "full":
        gradient = dict(zip(space.coordinates(), last.gradient.full.values))
    state = TrialState(_wire.enum_names("Trial.State")[trial.state])
    begin = trial.attempts[0].start_time if trial.attempts else trial.create_time if state.is_finished() else None
    return FrozenTrial(
        number=trial.number,
        state=state,
        params=with_values(space.decode(trial.parameters), trial.attributes),
        value=last.metrics[metric] if metric in last.metrics else None,
        metrics=dict(last.metrics),
        standard_errors=dict(last.standard_errors),
        gradient=gradient,
        attributes=dict(trial.attributes),
        designer=trial.provenance.designer,
        failure=f"{trial.failure.reason}: {trial.failure.message}" if trial.HasField("failure") else "",
        started=_seconds(begin) if begin is not None else None,
        ended=_seconds(trial.end_time) if state.is_finished() else None,
        intermediate_values={p.step: p.metrics[metric] for p in trial.measurements if metric in p.metrics},
        step=last.step,
        objective=objective_of(trial.attempts[-1].worker) if trial.attempts else "",
    )


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
