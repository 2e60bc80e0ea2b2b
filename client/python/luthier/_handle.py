"""What a study is, and how it is controlled: the part of Study that knows of no trials."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Optional

from luthier import _wire
from luthier._arguments import count as count_of, number, text, texts, whole
from luthier._client import Client, connect, new_id
from luthier._retry import ASK, ORDINARY, Policy
from luthier.errors import BadField, Violation
from luthier.space import Space, SpaceLike, to_specs

UNCAPPED = "luthier.budget"  # Label of a study whose max_trials nobody set: `optimize` raises it.
OBJECTIVES = "luthier.objectives"  # Label of a study whose objective was edited: fingerprints of those that count.
_OWN = "luthier."  # What the labels begin with that are this package's.


class Handle:
    """A study of the service: its name, state and controls. Every call may raise LuthierError."""

    def __init__(self, client: Client, message: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._take(message)

    def __repr__(self) -> str:
        return f"<luthier.Study {self._full_name!r}>"

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        """A copy, also in another process, is the same study by its name."""
        where = (self._client._server, None if self._client._local is None else self._client._local.directory)
        return _again, (type(self), self._path, *where, self._client.accept_plaintext)

    def _take(self, message: Any) -> None:
        self._message = message
        self._spec = message.spec
        self._open: bool = message.spec.open_space
        self._space = Space(message.spec.space)

    def _call(self, name: str, request: Any, seconds: float = 30.0, policy: Policy = ORDINARY) -> Any:
        try:
            return self._client.call("StudyService", name, request, seconds=seconds, policy=policy)
        except BadField as error:
            raise self._in_users_words(error) from None

    def _in_users_words(self, error: BadField) -> BadField:
        """Returns an error with the parameters' own names in place of those that the service has for them."""
        names = {p.legal: p.name for p in self._space.parameters if p.legal != p.name}

        def own(text: str) -> str:
            for legal, name in names.items():
                text = text.replace(legal, name)
            return text

        violations = tuple(Violation(own(v.field), own(v.description)) for v in error.violations)
        return BadField(own(str(error)), violations=violations, retry_delay=error.retry_delay, code=error.code)

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
        return f"{self._path}/trials/{whole('the number of a trial', number)}"

    @property
    def name(self) -> str:
        """The study's id."""
        return self._path.rsplit("/", 1)[1]

    @property
    def project(self) -> str:
        """The project that the study belongs to: "default" unless it was made in another."""
        return self._path.split("/")[1]

    @property
    def _full_name(self) -> str:
        return self.name if self.project == "default" else f"{self.project}/{self.name}"

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

    def _set_label(self, key: str, word: str) -> None:
        """Sets a label; an empty word removes it."""
        request = _wire.message("UpdateStudyRequest")(name=self._path, request_id=new_id())
        for other, text_of in self._refresh().spec.labels.items():
            request.spec.labels[other] = text_of
        request.spec.labels[key] = word
        if not word:
            del request.spec.labels[key]
        request.update_mask.paths.append("labels")
        message = self._call("UpdateStudy", request)
        with self._lock:
            self._take(message)

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
        for field, count in budget.items():
            if count is not None:
                setattr(spec.budget, field, (number if field == "target_value" else count_of)(field, count))
                paths.append("budget." + field)
        if weight is not None:
            spec.weight = number("weight", weight)
            paths.append("weight")
        for field, word in {"display_name": display_name, "description": description}.items():
            if word is not None:
                setattr(spec, field, text(field, word))
                paths.append(field)
        if space is not None:
            spec.space.extend(to_specs(space))
            paths.append("space")
        own = {key: word for key, word in self._refresh().spec.labels.items() if key.startswith(_OWN)}
        if labels is not None or (max_trials is not None and UNCAPPED in own):
            given = dict(self._spec.labels) if labels is None else texts("labels", labels, '{"team": "vision"}')
            for key, word in {**given, **own}.items():
                spec.labels[key] = word
            if max_trials is not None:
                spec.labels.pop(UNCAPPED, None)
            paths.append("labels")
        message = self._call("UpdateStudy", request)
        with self._lock:
            self._take(message)


def _again(
    kind: Any, path: str, server: Optional[str], db: Optional[str], accept_plaintext: bool = False
) -> Any:
    """Returns the study of this full name. Raises NotFound."""
    client = connect(server, db, accept_plaintext)
    return kind(client, client.call("StudyService", "GetStudy", _wire.message("GetStudyRequest")(name=path)))
