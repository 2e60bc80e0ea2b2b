"""What a study is, and how it is controlled: the part of Study that has no trials in hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from luthier import _results, _wire
from luthier._client import Client, new_id
from luthier._retry import ASK, ORDINARY, Policy, Retry
from luthier.errors import LuthierError
from luthier.space import Space, SpaceLike, to_specs

UNCAPPED = "luthier.budget"  # Label of a study whose max_trials nobody set: `optimize` raises it.


@dataclass(frozen=True)
class Event:
    """A line of a study's log. `trial` is 0 where it is about the study."""

    seq: int
    time: float
    type: str
    trial: int
    attempt: int
    actor: str
    detail: str
    value: Optional[float]


class Handle:
    """A study of the service: its name, state and controls. Every call may raise LuthierError."""

    def __init__(self, client: Client, message: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._take(message)

    def __repr__(self) -> str:
        return f"<luthier.Study {self.name!r}>"

    def __bool__(self) -> bool:
        return True

    def _take(self, message: Any) -> None:
        self._message = message
        self._spec = message.spec
        self._open: bool = message.spec.open_space
        self._space = Space(message.spec.space)

    def _call(self, name: str, request: Any, seconds: float = 30.0, policy: Policy = ORDINARY) -> Any:
        return self._client.call("StudyService", name, request, seconds=seconds, policy=policy)

    def _refresh(self, policy: Policy = ORDINARY) -> Any:
        message = self._call("GetStudy", _wire.message("GetStudyRequest")(name=self._path), policy=policy)
        with self._lock:
            self._take(message)
        return message

    def _learn(self, spec: Any) -> None:
        """Takes note of another parameter of an open space."""
        with self._lock:
            if spec.name not in self._space.by_legal:
                self._space = Space([p.spec for p in self._space.parameters] + [spec])

    # --- What it is ---

    @property
    def _path(self) -> str:
        return str(self._message.name)

    def _trial_path(self, number: int) -> str:
        return f"{self._path}/trials/{int(number)}"

    @property
    def name(self) -> str:
        """The study's id."""
        return self._path.rsplit("/", 1)[1]

    @property
    def created(self) -> str:
        """When it was made: tells it from an earlier study of the same name."""
        return f"{self._message.create_time.seconds}.{self._message.create_time.nanos:09d}"

    @property
    def metric(self) -> str:
        """The metric that is optimized."""
        return str(self._spec.metric.name)

    @property
    def direction(self) -> str:
        """Either "minimize" or "maximize"."""
        return _wire.enum_names("Goal")[self._spec.metric.goal].lower()

    @property
    def state(self) -> str:
        """ACTIVE, PAUSED, STOPPED, CANCELLED or COMPLETED, as it is now."""
        return _wire.enum_names("Study.State")[self._refresh().state]

    @property
    def state_reason(self) -> str:
        """Why it is in that state, for people."""
        return str(self._refresh().state_reason)

    @property
    def spec(self) -> dict[str, Any]:
        """The study file as it is stored, as plain dictionaries and lists."""
        return _wire.plain(self._refresh().spec)

    def __len__(self) -> int:
        message = self._refresh()
        return self._rows(message) - int(message.trials.deleted)

    @staticmethod
    def _rows(message: Any) -> int:
        t = message.trials
        return int(t.pending + t.running + t.complete + t.pruned + t.failed + t.cancelled + t.paused + t.deleted)

    # --- The study ---

    def _control(self, method: str) -> None:
        request = _wire.message("ControlStudyRequest")(name=self._path, request_id=new_id())
        self._call(method, request)

    def pause(self) -> None:
        """Grants no more trials until `resume`."""
        self._control("PauseStudy")

    def resume(self) -> None:
        """Goes on."""
        self._control("ResumeStudy")

    def stop(self) -> None:
        """Ends the study: running trials may finish."""
        self._control("StopStudy")

    def cancel(self) -> None:
        """Ends the study and its running trials."""
        self._control("CancelStudy")

    def delete(self) -> None:
        """Removes the study and its trials for ever."""
        self._control("DeleteStudy")

    def _raise_budget(self, max_trials: int) -> None:
        request = _wire.message("UpdateStudyRequest")(name=self._path, request_id=new_id())
        request.spec.budget.max_trials = max_trials
        request.update_mask.paths.append("budget.max_trials")
        message = self._call("UpdateStudy", request, policy=ASK)
        with self._lock:
            self._take(message)

    def _more_room(self, grow: int) -> bool:
        """Raises the budget of a study that reached it though nobody set one; returns whether there may be more
        trials."""
        message = self._refresh(ASK)
        if grow <= 0 or message.spec.labels.get(UNCAPPED) != "open":
            return False
        rows = self._rows(message)
        if rows < message.spec.budget.max_trials:
            return bool(message.state == _wire.enum("Study.State")["ACTIVE"])
        if message.state_reason not in ("", "max_trials reached"):
            return False
        self._raise_budget(rows + grow)
        return True

    def _make_room(self, n_trials: int) -> None:
        """Raises the budget so that `n_trials` more trials fit, unless somebody set it."""
        message = self._refresh()
        if message.spec.labels.get(UNCAPPED) != "open":
            return
        needed = self._rows(message) - message.trials.pending + n_trials
        ended = message.state in (_wire.enum("Study.State")["STOPPED"], _wire.enum("Study.State")["CANCELLED"])
        fresh = self._rows(message) == 0
        if not ended and (message.spec.budget.max_trials < needed or fresh):
            self._raise_budget(needed)

    def update(
        self,
        *,
        space: SpaceLike = None,
        max_trials: Optional[int] = None,
        max_parallel: Optional[int] = None,
        patience: Optional[int] = None,
        target_value: Optional[float] = None,
        weight: Optional[float] = None,
        display_name: Optional[str] = None,
        description: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Changes what may change: the budget, wider ranges, more labels behind the old ones, and what people read.

        `max_trials` is the study's cap from then on. Raises BadField naming what can't be changed, StudyFinished where
        the study was stopped or cancelled, LimitExceeded beyond 20 changes of ranges.

            study.update(space={"x": luthier.Float(-20, 20)}, max_trials=200)
        """
        request = _wire.message("UpdateStudyRequest")(name=self._path, request_id=new_id())
        spec, paths = request.spec, request.update_mask.paths
        budget = {
            "max_trials": max_trials,
            "max_parallel": max_parallel,
            "patience": patience,
            "target_value": target_value,
        }
        for field, number in budget.items():
            if number is not None:
                setattr(spec.budget, field, number)
                paths.append("budget." + field)
        for field, value in {"weight": weight, "display_name": display_name, "description": description}.items():
            if value is not None:
                setattr(spec, field, value)
                paths.append(field)
        if space is not None:
            spec.space.extend(to_specs(space))
            paths.append("space")
        uncapped = self._refresh().spec.labels.get(UNCAPPED)
        if labels is not None or (max_trials is not None and uncapped):
            for key, text in (self._spec.labels if labels is None else labels).items():
                spec.labels[key] = text
            if max_trials is not None:
                spec.labels.pop(UNCAPPED, None)
            elif uncapped:
                spec.labels[UNCAPPED] = uncapped
            paths.append("labels")
        message = self._call("UpdateStudy", request)
        with self._lock:
            self._take(message)

    # --- Its trials, by number ---

    def set_attributes(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Adds notes to a trial: texts of at most 64 KiB, other values as JSON; "" removes one."""
        request = _wire.message("SetAttributesRequest")(name=self._trial_path(number))
        for key, text in attributes.items():
            request.attributes[key] = _results.note(text)
        self._call("SetAttributes", request)

    def retry(self, numbers: Sequence[int] = ()) -> list[int]:
        """Tries trials again that failed; all of them where none is named. Returns the numbers of the new trials."""
        request = _wire.message("RetryTrialsRequest")(
            parent=self._path, numbers=list(numbers), all_failed=not numbers, request_id=new_id()
        )
        return [t.number for t in self._call("RetryTrials", request).trials]

    def delete_trial(self, number: int) -> None:
        """Takes a trial that has ended out of the study: its result no longer counts."""
        request = _wire.message("DeleteTrialRequest")(name=self._trial_path(number))
        self._call("DeleteTrial", request)

    def explain(self, number: int) -> dict[str, Any]:
        """Returns why a trial's setting was tried: designer, origin, what the model predicted. Raises NotFound."""
        request = _wire.message("GetTrialRequest")(name=self._trial_path(number))
        return _results.explain(self._space, self._call("GetTrial", request))

    # --- What came of it ---

    def importance(self, metric: Optional[str] = None) -> dict[str, float]:
        """Returns the share of the metric's variance that each parameter explains, largest first. Raises TooFewResults
        with fewer than ten COMPLETE trials."""
        request = _wire.message("GetImportanceRequest")(name=self._path, metric=metric or "")
        reply = self._call("GetImportance", request, seconds=60.0)
        names = {p.legal: p.name for p in self._space.parameters}
        return {names.get(s.parameters[0], s.parameters[0]): s.share for s in reply.parameters}

    def watch(self, *, after_seq: int = 0, until_finished: bool = True) -> Iterator[Event]:
        """Yields the study's events in order, each once: first those stored, then those to come, across restarts of the
        coordinator. Ends after the event that finishes the study and its last trial, or never.

            for event in study.watch():
                print(event.type, event.trial, event.value)
        """
        request = _wire.message("WatchStudyRequest")(
            name=self._path, after_seq=after_seq, until_finished=until_finished
        )
        types = _wire.enum_names("Event.Type")
        quiet, retry = 0.0, Retry(ASK)
        while True:
            try:
                for e in self._client.stream("StudyService", "WatchStudy", request):
                    quiet, retry = 0.0, Retry(ASK)
                    if e.seq <= request.after_seq:
                        continue  # What came before the connection broke may come again.
                    request.after_seq = e.seq
                    yield Event(
                        seq=e.seq,
                        time=e.time.seconds + 1e-9 * e.time.nanos,
                        type=types.get(e.type, str(e.type)),
                        trial=e.trial,
                        attempt=e.attempt,
                        actor=e.actor,
                        detail=e.detail,
                        value=e.value if e.HasField("value") else None,
                    )
                if until_finished:
                    return
            except LuthierError as error:
                wait = retry.wait_after(error.code, error.reason, error.retry_delay, quiet)
                if wait is None:
                    raise
                quiet += wait
                time.sleep(wait)
