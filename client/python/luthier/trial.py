"""A trial that this program runs."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from luthier import _dynamic, _wire
from luthier._arguments import representation, whole
from luthier._frozen import FrozenTrial as FrozenTrial, TrialState as TrialState, explain
from luthier._notes import note, to_note
from luthier._optuna_refused import refuse
from luthier._results import Notes, measurement
from luthier._retry import ASK, FINISH, Policy
from luthier.errors import (
    BadField,
    ConflictingReport,
    Forbidden,
    LeaseLost,
    LimitExceeded,
    LuthierError,
    MessageTooLarge,
    NotOpen,
    ParameterDiffers,
    TrialFinal,
)
from luthier.space import Categorical, Domain, Float, Int, Parameter, to_spec

if TYPE_CHECKING:
    from luthier.study import Study

Value = Union[float, Mapping[str, float]]
Choice = TypeVar("Choice")
_log = logging.getLogger("luthier")
UNCHANGED = (BadField, LimitExceeded, MessageTooLarge)  # After these the trial is still held, and can be told again.


def _writable(value: Any) -> str:
    """Returns a text that UTF-8 can write, of a key that is none, too."""
    text = value if isinstance(value, str) else representation(value)
    return text.encode("utf-8", "backslashreplace").decode()


class Trial:
    """A trial that this program runs. Take its parameters with `suggest_float` and the like, or as `trial["lr"]`.

    def objective(trial):
        lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        for epoch in range(1, 51):
            loss = train_one_epoch(lr)
            trial.report(loss, step=epoch)
            if trial.should_stop():
                raise luthier.TrialPruned()
        return loss
    """

    def __init__(self, study: Study, lease: Any, worker: str) -> None:
        self._study = study
        self._lease = lease
        self._worker = worker
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._directive = "CONTINUE"
        self._used: set[str] = set()
        self._all_used = False
        self._fields = {name: lease.trial.parameters.fields[name] for name in lease.trial.parameters.fields}
        self._last: Optional[Any] = None
        self._outcome: Optional[tuple[str, Optional[float], str]] = None  # State, value and failure, once it has ended.
        self._shared: dict[str, Any] = {}  # Values of parameters whose range is another one in each trial.
        self._malformed: Optional[Exception] = None  # What was wrong with the newest report.
        self._checkpoint: str = lease.resume_checkpoint
        self._checkpoint_step: int = lease.resume_step  # The step that it holds.
        self._step = 0
        self.number: int = lease.trial.number
        self.name: str = lease.trial.name
        self.attempt: int = lease.attempt
        ttl = lease.ttl.seconds + 1e-9 * lease.ttl.nanos
        study._client.beats.add(worker, lease.token, ttl, self._hear)

    def __reduce__(self) -> Any:
        raise TypeError(f"trial {self.number} is leased to this process: hand on its params, and tell it here")

    def __repr__(self) -> str:
        return f"<luthier.Trial {self.number} of {self._study.name!r}: {self.params}>"

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

    def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None, log: bool = False
    ) -> float:
        """Returns the value of a number from `low` to `high`.

        The first trial of an open space that meets a name adds the parameter; a declared space has it already. Raises
        ParameterDiffers where the study has it with another range (`Study.update(space=...)` makes ranges wider),
        NotOpen where a declared space lacks it, KeyError where a condition rules it out in this trial.
        """
        return float(self._suggest(name, Float(low, high, log=log, step=step)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Returns the value of a whole number from `low` to `high`, both included. Errors as `suggest_float`."""
        return int(self._suggest(name, Int(low, high, log=log, step=step)))

    def suggest_categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        """Returns one of `choices`: texts, numbers, True, False or None. Errors as `suggest_float`."""
        chosen: Choice = self._suggest(name, Categorical(choices))
        return chosen

    def _suggest(self, name: str, domain: Domain) -> Any:
        if isinstance(domain, (Float, Int)) and not domain.low < domain.high:  # In a space there is no such range.
            if not domain.low <= domain.high:
                raise ValueError(f"{name!r} has the range from {domain.low} to {domain.high}, which is empty")
            known = self._study._space.by_name.get(name)
            if self._study._open and (known is None or not known.accepts(to_spec(name, domain))):
                return _dynamic.suggest(self, name, domain, known)
        spec = to_spec(name, domain)
        study = self._study
        known = study._space.by_legal.get(spec.name)
        if known is not None and not known.accepts(spec):
            study._refresh(ASK)  # Perhaps its range was made wider.
            known = study._space.by_legal[spec.name]
            if not study._open and not known.accepts(spec):
                raise ParameterDiffers(
                    f"parameter {name!r} has another kind or range in the space of study {study.name!r}"
                )
        if not study._open:
            if known is None:
                raise NotOpen(
                    f"the space of study {study.name!r} has no parameter {name!r}; "
                    f"it has {sorted(study._space.by_name)}"
                )
            return self[name]
        if known is not None and not known.accepts(spec) and _dynamic.is_dynamic(self, known, spec, name, domain):
            assert isinstance(domain, (Float, Int))
            return _dynamic.suggest(self, name, domain, known)
        study._asked.add((self._worker, spec.name))
        self._used.add(spec.name)
        if known is None or spec.name not in self._fields or not known.accepts(spec):
            request = _wire.message("DeclareParametersRequest")(
                trial=self.name, token=self._lease.token, parameters=[spec]
            )
            reply = study._client.call("WorkerService", "DeclareParameters", request, policy=ASK)
            self._fields[spec.name] = reply.parameters.fields[spec.name]
            if known is None:
                study._learn(spec)
        return Parameter(spec).decode(self._fields[spec.name])

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
        import hashlib

        text = f"{self._study.name}/{self._study._spec.seed}/{self.number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") & 0x7FFFFFFF

    def explain(self) -> dict[str, Any]:
        """Returns why this setting is tried: designer, origin, what the model predicted."""
        return explain(self._study._space, self._lease.trial)

    def _hear(self, directive: str) -> None:
        with self._lock:
            if self._directive in ("LOST", "STOP") or (self._directive == "FINISH" and directive == "CONTINUE"):
                return  # What was said of a trial's end is not taken back.
            self._directive = directive

    # --- Reports ---

    def report(
        self,
        value: Optional[Value] = None,
        step: Optional[int] = None,
        *,
        metrics: Optional[Mapping[str, float]] = None,
        gradient: Optional[Mapping[str, float]] = None,
        checkpoint: Optional[str] = None,
    ) -> str:
        """Reports a point of the learning curve and returns what the service says: CONTINUE, STOP, FINISH or PAUSE.

        With STOP the trial has ended, with FINISH somebody asks for its end: raise TrialPruned, and the last value
        stands. `should_stop()` is true for both.

        Steps default to one more than the last. `checkpoint` says where a later attempt can go on, in at most 1,024
        bytes. Of a step that had other values the first ones are kept, and of a curve 10,000 points; the log says so.
        Raises LeaseLost where the trial is somebody else's now.
        """
        m = self._measured(value, step, metrics, gradient)
        request = _wire.message("ReportRequest")(trial=self.name, token=self._lease.token, measurements=[m])
        if checkpoint is not None:
            self._save(str(checkpoint), request)
        self._last = m
        try:
            reply = self._study._client.call("WorkerService", "Report", request, policy=FINISH)
        except LuthierError as error:
            return self._not_taken(error)
        return self._taken(reply)

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
            self._study._note(self.number, {type(error).__name__: why})
            return self._directive
        if isinstance(error, LeaseLost):
            self._hear("LOST")
        if isinstance(error, UNCHANGED):
            self._last, self._malformed = None, error
        raise error

    def _measured(self, value: Any, step: Any, metrics: Any, gradient: Any) -> Any:
        """Returns the Measurement of a report. One that can't be read raises TypeError or ValueError, and takes the
        place of what was reported before: an older value never stands for a newer one."""
        notes: Notes = {}
        try:
            self._step = self._step + 1 if step is None else whole("step", step)
            if self._step < 0:
                raise ValueError(f"step is {self._step}: it is at least 0")
            if value is None and not metrics:
                raise TypeError("the report has no value")
            space, metric = self._study._space, self._study.metric
            m = measurement(space, metric, value, metrics=metrics, gradient=gradient, step=self._step, notes=notes)
        except (TypeError, ValueError) as error:
            self._last, self._malformed = None, error
            raise
        self._malformed = None
        if not all(math.isfinite(x) for x in [*m.gradient.full.values, *m.gradient.by_name.values.values()]):
            m.ClearField("gradient")
            notes["gradient"] = "a gradient is not finite"
        self._study._note(self.number, notes)
        return m

    def should_stop(self) -> bool:
        """Whether training is to end: raise TrialPruned then."""
        with self._lock:
            return self._directive in ("STOP", "LOST", "FINISH")

    should_prune = should_stop

    def should_pause(self) -> bool:
        """Whether the target is reached: save a checkpoint, report it, and return."""
        with self._lock:
            return self._directive == "PAUSE"

    def set_attribute(self, key: str, value: Any) -> None:
        """Stores a note with the trial: a text of at most 64 KiB; other values as JSON. One that can't be kept never
        costs the trial: it is left out, with a warning in the log."""
        self._set(key, value, note)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Stores any JSON value with the trial, numbers and arrays of numpy, too; `user_attrs` gives it back. Of
        another value its text is kept, with a warning in the log."""
        self._set(key, value, to_note)

    def _set(self, key: str, value: Any, to_text: Callable[[Any], str]) -> None:
        try:
            written = to_text(value)
        except Exception:  # A value of a user's class may raise anything.
            written = value if isinstance(value, str) else representation(value)
            self._warn("attribute %r is %s, which JSON can't say: its text is kept", key, type(value).__name__)
        try:
            self._study.set_attributes(self.number, {_writable(key): _writable(written)})
        except (*UNCHANGED, Forbidden) as error:
            self._warn("attribute %r is left out: %s", key, error)

    def _warn(self, text: str, *words: object) -> None:
        _log.warning("trial %d of %s: " + text, self.number, self._study.name, *words)

    # --- Its end ---

    def _unused(self) -> list[str]:
        if not self._study._open or self._all_used:
            return []
        return [name for name in self._fields if name not in self._used]

    def _end(self, method: str, request: Any, policy: Policy = FINISH) -> Any:
        try:
            reply = self._study._client.call("WorkerService", method, request, policy=policy)
        except UNCHANGED:
            raise
        except BaseException:
            self._study._forget(self)
            raise
        self._has_ended(request, reply)
        return reply

    def _has_ended(self, request: Any, reply: Any) -> None:
        """Takes note of what became of the trial."""
        self._study._forget(self)
        if not hasattr(reply, "state"):
            return  # It was given back.
        state = _wire.enum_names("Trial.State")[reply.state]
        metrics = request.measurement.metrics if hasattr(request, "measurement") else {}
        value = metrics[self._study.metric] if self._study.metric in metrics else None
        why = request.failure.message if hasattr(request, "failure") else " ".join(reply.warnings)
        self._outcome = state, value, why.strip().rpartition("\n")[2]

    def _save(self, checkpoint: str, request: Any) -> None:
        """Takes note of a checkpoint of the step that is being reported, and puts it into the report."""
        self._checkpoint, self._checkpoint_step = checkpoint, self._step
        self._pass_on(request)

    def _pass_on(self, request: Any) -> None:
        if self._checkpoint:
            request.checkpoint, request.checkpoint_step = self._checkpoint, self._checkpoint_step

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

    def _complete(self, m: Any, *, pruned: bool = False, checkpoint: str = "") -> list[str]:
        """Ends the trial with a result; returns the service's warnings."""
        return list(self._end("Complete", self._complete_request(m, pruned=pruned, checkpoint=checkpoint)).warnings)

    def _fail(self, reason: str, message: str, *, retry: bool = False) -> bool:
        """Ends the trial without a result; returns whether that is final."""
        reply = self._end("Fail", self._fail_request(reason, message, retry=retry))
        for warning in reply.warnings:
            self._warn("%s", warning)
        return bool(reply.state != _wire.enum("Trial.State")["PENDING"])

    def _release(self) -> None:
        """Gives the trial back, if that takes no more than some seconds."""
        request = _wire.message("ReleaseRequest")(trial=self.name, token=self._lease.token)
        self._pass_on(request)
        try:
            self._end("Release", request, Policy(attempts=10, patience=5.0))
        except LuthierError:
            pass  # Its lease ends, and it is tried again.


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Refuses words of Optuna's module of this name; those that are carried out, `luthier` has put here."""
        if not name.startswith("_"):
            refuse("trial", name)
        raise AttributeError(f"module 'luthier.trial' has no attribute {name!r}")
