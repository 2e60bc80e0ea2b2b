"""What is known here of granted trials, and of what a study object has asked for. Threads and event loops share it, and
nothing in it makes a call."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from luthier import _dynamic, _results, _wire
from luthier._arguments import whole
from luthier._fingerprint import new_worker
from luthier._frozen import TrialState, explain
from luthier.errors import (
    BadField,
    ConflictingReport,
    LeaseLost,
    LimitExceeded,
    LuthierError,
    MessageTooLarge,
    TrialFinal,
)

if TYPE_CHECKING:
    from luthier._stored import Stored

Value = Union[float, Mapping[str, float]]
State = Union[Literal["COMPLETE", "PRUNED", "FAILED", "FAIL"], TrialState]
_log = logging.getLogger("luthier")
UNCHANGED = (BadField, LimitExceeded, MessageTooLarge)  # After these the trial is still held, and can be told again.


class Infeasible(Exception):
    """The setting is not allowed: its result does not count, and the search learns to avoid its like."""


class Asked:
    """What one study object has asked for. Any thread may use it, and event loops, too."""

    def __init__(self, study: Stored) -> None:
        self.study: Stored = study
        self.worker: str = new_worker()
        self.open: dict[int, Any] = {}  # The trials that were asked for and not told, by number.
        self.names: set[tuple[str, str]] = set()  # Parameters that programs have asked for, each with its worker.
        self.dynamic: set[str] = set()  # Parameters whose range is another one in each trial.
        self.hungry_since: Optional[float] = None  # Since when there is no trial to run; infinite once that is said.
        self._noted: set[str] = set()  # Names of what was left out of results, each of which the log has once.
        self._lock = threading.Lock()

    def take(self, trials: list[Any]) -> None:
        """Takes note of trials that were granted."""
        self.hungry_since = None
        with self._lock:
            self.open.update({trial.number: trial for trial in trials})

    def by_number(self, number: Any) -> Any:
        """Returns the trial of a number. ValueError where it was not asked for here, or was told."""
        found = self.open.get(whole("the trial", number))
        if found is None:
            raise ValueError(f"trial {number} was not asked for by this study object, or was told")
        return found

    def forget(self, trial: Granted) -> None:
        """Lets a trial go that has ended, and its lease. One of the same number that was granted since is kept."""
        self.study._client.beats.remove(trial._lease.token)
        with self._lock:
            if self.open.get(trial.number) is trial:
                del self.open[trial.number]

    def note(self, number: int, notes: _results.Notes) -> list[str]:
        """Returns what was left out of a trial's result. The log has each name once."""
        texts = [f"left out: {why}" for why in notes.values()]
        for name, said in zip(notes, texts):
            if name not in self._noted:
                self._noted.add(name)
                _log.warning("trial %d of %s: %s", number, self.study.name, said)
        return texts

    def warn(self, number: int, warning: str) -> None:
        """Says in the log what the service warns of. The log has each warning once."""
        if warning not in self._noted:
            _log.warning("trial %d of %s: %s", number, self.study.name, warning)
        if not warning.startswith("the user's setting"):  # Each of those is about a setting of its own.
            self._noted.add(warning)


class Granted:
    """A trial that this program holds: its setting, its lease, and what it has reported. A `Trial` of threads or of an
    event loop is a handle on it, which adds the calls."""

    _type_name = "luthier.Trial"

    def __init__(self, asked: Asked, lease: Any, worker: str) -> None:
        self._asked = asked
        self._study = asked.study
        self._lease = lease
        self._worker = worker
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._directive = "CONTINUE"
        self._used: set[str] = set()
        self._all_used = False
        self._fields = {name: lease.trial.parameters.fields[name] for name in lease.trial.parameters.fields}
        self._last: Optional[Any] = None
        # State, metrics and failure, once it has ended.
        self._outcome: Optional[tuple[str, dict[str, float], str]] = None
        self._shared: dict[str, Any] = {}  # Values of parameters whose range is another one in each trial.
        self._malformed: Optional[Exception] = None  # The error of the newest report, if it was malformed.
        self._checkpoint: str = lease.resume_checkpoint
        self._checkpoint_step: int = lease.resume_step  # The step that it holds.
        self._step = 0
        self.number: int = lease.trial.number
        self.name: str = lease.trial.name
        self.attempt: int = lease.attempt
        ttl = lease.ttl.seconds + 1e-9 * lease.ttl.nanos
        self._study._client.beats.add(worker, lease.token, ttl, self._hear)

    def __reduce__(self) -> Any:
        raise TypeError(f"trial {self.number} is leased to this process: hand on its params, and tell it here")

    def __repr__(self) -> str:
        return f"<{self._type_name} {self.number} of {self._study.name!r}: {self.params}>"

    # --- Parameters ---

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the setting, by name. In an open space those that were asked for so far."""
        space = self._study._space
        known = {p.name: p.decode(self._fields[p.legal]) for p in space.parameters if p.legal in self._fields}
        if self._study._open and not self._all_used:
            known = {name: value for name, value in known.items() if space.by_name[name].legal in self._used}
        return _dynamic.merged(known, self._shared) if self._shared else known

    @property
    def suggested(self) -> dict[str, Any]:
        """The whole setting as it was suggested. In an open space all of it then counts as asked for."""
        self._all_used = True
        return self.params

    def __getitem__(self, name: str) -> Any:
        p = self._study._space.by_name.get(name)
        if p is None or p.legal not in self._fields:
            raise KeyError(f"trial {self.number} has no parameter {name!r}; it has {sorted(self.params)}")
        self._used.add(p.legal)
        return p.decode(self._fields[p.legal])

    def __contains__(self, name: str) -> bool:
        p = self._study._space.by_name.get(name)
        return p is not None and p.legal in self._fields

    # --- What the service says about it ---

    @property
    def start_step(self) -> int:
        """The step that `checkpoint` was saved at by an earlier attempt; 0: begin afresh."""
        return int(self._lease.resume_step)

    @property
    def target_step(self) -> Optional[int]:
        """Train to this step and no further; None: there is no target."""
        return int(self._lease.target_step) or None

    @property
    def checkpoint(self) -> Optional[str]:
        """Where an earlier attempt of this trial left off; None: begin afresh."""
        return self._lease.resume_checkpoint or None

    @property
    def tolerance(self) -> Optional[float]:
        """How exactly an objective with an inner problem need solve it; None: to all digits. `hoag` asks for little at
        first."""
        provenance = self._lease.trial.provenance
        return float(provenance.tolerance) if provenance.HasField("tolerance") else None

    @property
    def direction(self) -> Optional[dict[str, float]]:
        """Along which a slope of the metric is asked for, by parameters' names; None: none is."""
        entries = list(self._lease.trial.provenance.direction)
        return dict(zip(self._study._space.coordinates(), entries)) if entries else None

    @property
    def wants_gradient(self) -> bool:
        """Whether the search can use a gradient of this trial."""
        return _wire.enum_names("GradientUse").get(self._lease.gradient) != "GRADIENT_USE_NONE"

    @property
    def seed(self) -> int:
        """A number below 2^31, the same for every attempt of this trial, different between trials."""
        text = f"{self._study.name}/{self._study._spec.seed}/{self.number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") & 0x7FFFFFFF

    def explain(self) -> dict[str, Any]:
        """Returns why this setting is tried: designer, origin, what the model predicted."""
        return explain(self._study._space, self._lease.trial)

    def _hear(self, directive: str) -> None:
        with self._lock:
            if self._directive in ("LOST", "STOP") or (self._directive == "FINISH" and directive == "CONTINUE"):
                return  # A directive that ends the trial is never taken back.
            self._directive = directive

    # --- Reports ---

    def _measured(self, value: Any, step: Any, metrics: Any, gradient: Any) -> Any:
        """Returns the Measurement of a report. One that can't be read raises TypeError or ValueError, and takes the
        place of what was reported before: an older value never stands for a newer one."""
        notes: _results.Notes = {}
        try:
            self._step = self._step + 1 if step is None else whole("step", step)
            if self._step < 0:
                raise ValueError(f"step is {self._step}: it is at least 0")
            if value is None and not metrics:
                raise TypeError("the report has no value")
            goals = list(self._study.goals)
            _results.check_point(goals, value, metrics)
            m = _results.measurement(
                self._study._space, goals[0], value, metrics=metrics, gradient=gradient, step=self._step, notes=notes,
                needed=goals,
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            self._last, self._malformed = None, error
            raise
        self._malformed = None
        if not _results.finite(m.gradient):
            m.ClearField("gradient")
            notes["gradient"] = "a gradient is not finite"
        for name in sorted(m.gradients):
            if not _results.finite(m.gradients[name]):
                del m.gradients[name]
                notes[f"gradient of {name}"] = f"the gradient of {name} is not finite"
        self._asked.note(self.number, notes)
        return m

    def _taken(self, reply: Any) -> str:
        """Returns what the service says to a report."""
        directive = _wire.enum_names("HeartbeatResponse.Directive").get(reply.directive, "CONTINUE")
        self._hear(directive)
        return directive

    def _not_taken(self, error: LuthierError) -> str:
        """Returns what becomes of the trial where a report was refused. Raises the error where training can't go on."""
        if isinstance(error, TrialFinal):
            self._hear("STOP")
            return "STOP"
        if isinstance(error, (ConflictingReport, LimitExceeded)):  # The newest value counts in the end all the same.
            again = isinstance(error, ConflictingReport)
            why = f"step {self._step} was reported before; the first report counts" if again else str(error)
            self._asked.note(self.number, {type(error).__name__: why})
            return self._directive
        if isinstance(error, LeaseLost):
            self._hear("LOST")
        if isinstance(error, UNCHANGED):
            self._last, self._malformed = None, error
        raise error

    def should_stop(self) -> bool:
        """Whether training is to end: raise TrialPruned then."""
        with self._lock:
            return self._directive in ("STOP", "LOST", "FINISH")

    should_prune = should_stop

    def should_pause(self) -> bool:
        """Whether the target is reached: save a checkpoint, report it, and return."""
        with self._lock:
            return self._directive == "PAUSE"

    def _warn(self, text: str, *words: object) -> None:
        _log.warning("trial %d of %s: " + text, self.number, self._study.name, *words)

    def _warn_that_it_failed(self, why: object) -> None:
        _log.warning("trial %d of %s failed: %s", self.number, self._study.name, why)

    # --- Its end ---

    def _unused(self) -> list[str]:
        if not self._study._open or self._all_used:
            return []
        return [name for name in self._fields if name not in self._used]

    def _has_ended(self, request: Any, reply: Any) -> None:
        """Takes note of what became of the trial."""
        self._asked.forget(self)
        if not hasattr(reply, "state"):
            return  # It was given back.
        state = _wire.enum_names("Trial.State")[reply.state]
        metrics = dict(request.measurement.metrics) if hasattr(request, "measurement") else {}
        why = request.failure.message if hasattr(request, "failure") else " ".join(reply.warnings)
        self._outcome = state, metrics, why.strip().rpartition("\n")[2]

    def _save(self, checkpoint: str, request: Any) -> None:
        """Takes note of a checkpoint of the step that is being reported, and puts it into the report."""
        self._checkpoint, self._checkpoint_step = checkpoint, self._step
        self._pass_on(request)

    def _pass_on(self, request: Any) -> None:
        if self._checkpoint:
            request.checkpoint, request.checkpoint_step = self._checkpoint, self._checkpoint_step

    def _tell_request(
        self,
        value: Any,
        gradient: Any,
        standard_errors: Any,
        state: Any,
        error_bound: Any,
        notes: _results.Notes,
    ) -> tuple[Any, str]:
        """Returns the request that ends the trial with what `tell` was given, and the call that it is for."""
        state = None if state is None else str(getattr(state, "value", state))
        if state not in (None, "COMPLETE", "PRUNED", "FAILED", "FAIL"):
            raise ValueError(f"state is {state!r}, not COMPLETE, PRUNED or FAILED")
        if state in ("FAILED", "FAIL"):
            return self._fail_request("TOLD_FAILED", "" if value is None else str(value)), "Fail"
        value, gradient = _results.split(_results.by_name(self._study._metrics, value), gradient)
        if value is None and state != "PRUNED":
            raise ValueError("tell() needs a value, or state='FAILED' or 'PRUNED'")
        if value is None and self._last is not None:
            m = self._last
        else:
            m = _results.measurement(
                self._study._space,
                self._study.metric,
                value,
                gradient=gradient,
                standard_errors=standard_errors,
                step=self._step,
                error_bound=error_bound,
                notes=notes,
                needed=self._study._metrics,
            )
        return self._complete_request(m, pruned=state == "PRUNED"), "Complete"

    def _complete_request(self, m: Any, *, pruned: bool = False, checkpoint: str = "") -> Any:
        request = _wire.message("CompleteRequest")(
            trial=self.name, token=self._lease.token, measurement=m, pruned=pruned, unused=self._unused()
        )
        if checkpoint:
            request.checkpoint, request.checkpoint_step = checkpoint, self._checkpoint_step
        target = self.target_step
        if target is not None and not pruned and m.step >= target and checkpoint:
            request.paused = True
        return request

    def _fail_request(self, reason: str, message: str, *, retry: bool = False) -> Any:
        kind = _wire.enum("Failure.Kind")["INFRA" if retry else "CONFIG"]
        request = _wire.message("FailRequest")(trial=self.name, token=self._lease.token, unused=self._unused())
        request.failure.kind, request.failure.reason = kind, reason
        request.failure.message = message.encode("utf-8", "replace")[-4096:].decode("utf-8", "ignore")
        return request
