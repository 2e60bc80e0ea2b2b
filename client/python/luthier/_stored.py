"""A study as the service stores it: what it is, how it is controlled, and its trials, without asking for any."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Optional, Union, overload

from luthier import _wire, table
from luthier._arguments import count as count_of, flag, mapping, number, sequence, text, texts, whole
from luthier._client import Client, connect, new_id
from luthier._fingerprint import objective_of
from luthier._frozen import FrozenTrial, TrialState, explain, freeze
from luthier._goals import bounds_of, metrics_of, objectives_of
from luthier._notes import note as note_of
from luthier._retry import ASK, ORDINARY, Policy
from luthier.errors import BadField, Violation
from luthier.space import Space, SpaceLike, to_specs

UNCAPPED = "luthier.budget"  # Label of a study whose max_trials nobody set: `optimize` raises it.
OBJECTIVES = "luthier.objectives"  # Label of a study whose objective was edited: fingerprints of those that count.
_OWN = "luthier."  # Prefix of this package's own labels.
_PAGE = 1000  # Trials, and settings, in one call.
_FEW = 50  # Number of trials up to which each is asked for by itself.


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


@dataclass(frozen=True)
class Prediction:
    """What the study's model expects of a setting, in units of the metric. `sd` is the standard deviation of what the
    model does not know; the noise of a single trial comes on top. `p_success` is the probability that a trial does not
    fail, None where none has failed."""

    mean: float
    sd: float
    p_success: Optional[float] = None


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """Returns a text with the parameters' own names in place of those that the service has for them."""
    for legal, name in names.items():
        if legal != name:
            text = text.replace(legal, name)
    return text


class Importance(dict[str, float]):
    """Shares of the metric's variance by the names of parameters, largest first, and how far to trust them: `intervals`,
    `predicted` and `warnings`. str() has all of it, for people."""

    def __init__(self, reply: Any, names: Mapping[str, str]) -> None:
        shares = [(names.get(s.parameters[0], s.parameters[0]), s) for s in reply.parameters]
        super().__init__((name, s.share) for name, s in shares)
        # From the 5 % quantile of each share over resampled trials to the 95 % quantile.
        self.intervals: dict[str, tuple[float, float]] = {name: (s.low, s.high) for name, s in shares}
        # The share of the variance of unseen trials that the model behind the shares predicts: below about 0.3 the
        # shares say little, for trials are too few, too noisy, or too much alike.
        self.predicted: float = reply.predicted
        self.trials: int = reply.trials
        self.left_out: int = reply.left_out
        # Sentences on why the shares say less than they seem to, the weightiest first; empty: nothing was found.
        self.warnings: tuple[str, ...] = tuple(_with_names(text, names) for text in reply.warnings)

    def __str__(self) -> str:
        """The shares with their intervals, a line for each, and what speaks against trusting them."""
        width = max(map(len, self), default=0)
        lines = [
            f"{name:<{width}}  {100 * share:5.1f} %  ({100 * low:.1f} to {100 * high:.1f})"
            for (name, share), (low, high) in zip(self.items(), self.intervals.values())
        ]
        lines.append(f"from {self.trials} trials; unseen ones are predicted to {100 * max(0.0, self.predicted):.0f} %")
        return "\n".join(lines + [f"warning: {text}" for text in self.warnings])


class Stored:
    """A study of the service, with what is stored of it. Every call may raise LuthierError."""

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
        where = (self._client.server, None if self._client.local is None else self._client.local.directory)
        return _again, (type(self), self._path, *where, self._client.accept_plaintext)

    def _take(self, message: Any) -> None:
        self._message = message
        self._spec = message.spec
        self._open: bool = message.spec.open_space
        self._space = Space(message.spec.space, [m.name for m in message.spec.metrics])

    def _call(self, name: str, request: Any, seconds: float = 30.0, policy: Policy = ORDINARY) -> Any:
        try:
            return self._client.call("StudyService", name, request, seconds=seconds, policy=policy)
        except BadField as error:
            raise self._in_users_words(error) from None

    def _in_users_words(self, error: BadField) -> BadField:
        """Returns an error with the parameters' own names in place of those that the service has for them."""
        names = {p.legal: p.name for p in self._space.parameters if p.legal != p.name}

        def own(text: str) -> str:
            return _with_names(text, names)

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
                self._space = self._space.with_parameters([p.spec for p in self._space.parameters] + [spec])

    def _learn_all(self, specs: Any) -> None:
        """Takes note of an open space that has grown."""
        if len(specs) > len(self._space.parameters):
            with self._lock:
                self._space = self._space.with_parameters(specs)

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
    def url(self) -> Optional[str]:
        """Where a browser shows the study: at the page of its coordinator; None where that has none.

        The coordinator of a directory (`db=`) opens a page for this machine, if need be, which ends with it. That
        address has an admin's token, which ends within twelve hours: do not pass it on."""
        if self._client.local is None:
            return self._page()
        request = _wire.message("OpenPageRequest")()
        page = self._client.call("AdminService", "OpenPage", request)
        return self._at_page(page.url, page.token)

    def _page(self) -> Optional[str]:
        """Returns where the study's page is, without a token; None where there is none."""
        info = self._client.call("WorkerService", "GetServerInfo", _wire.message("GetServerInfoRequest")())
        return self._at_page(info.page_url) if info.page_url else None

    def _at_page(self, url: str, token: str = "") -> str:
        return f"{url}/#{'token=' + token + '&' if token else ''}/studies/{self.project}/{self.name}"

    @property
    def created(self) -> str:
        """When it was made: tells it from an earlier study of the same name."""
        return f"{self._message.create_time.seconds}.{self._message.create_time.nanos:09d}"

    @property
    def owner(self) -> str:
        """Name of the token that made it, who may change and delete it; "" if it was made without one."""
        return str(self._message.owner)

    @property
    def metric(self) -> str:
        """The metric that is optimized; of several the first."""
        return next(iter(objectives_of(self._spec)))

    @property
    def direction(self) -> str:
        """Either "minimize" or "maximize", of the first objective."""
        return next(iter(objectives_of(self._spec).values()))

    @property
    def goals(self) -> dict[str, str]:
        """The objectives with "minimize" or "maximize" each, in the order in which the study has them."""
        return objectives_of(self._spec)

    @property
    def constraints(self) -> dict[str, dict[str, float]]:
        """The bounds on what trials measure, by the names of metrics: {"latency_ms": {"at_most": 20.0}}."""
        return bounds_of(self._spec)

    @property
    def _metrics(self) -> list[str]:
        """Names of all metrics that a result must have."""
        return [str(m.name) for m in metrics_of(self._spec)]

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
        """Removes the study and its trials. For seven days `luthier.undelete` brings them back."""
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

    def _is_held_by(self, held: Sized) -> bool:
        """Returns whether the budget is spent, and no trial is open but those that are `held` here."""
        message = self._refresh(ASK)
        counts = message.trials
        if self._rows(message) < message.spec.budget.max_trials or counts.pending or counts.paused:
            return False
        return 0 < int(counts.running) <= len(held)

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
        until_answered: Optional[bool] = None,
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
        if until_answered is not None:
            spec.budget.until_answered = flag("until_answered", until_answered)
            paths.append("budget.until_answered")
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

    # --- Trials ---

    def _frozen(self, trial: Any) -> FrozenTrial:
        return freeze(self._space, list(self.goals), trial)

    def get_trials(
        self,
        states: Iterable[Union[str, TrialState]] = (),
        *,
        filter: str = "",
        order_by: str = "",
        limit: Optional[int] = None,
    ) -> list[FrozenTrial]:
        """Returns all trials, or those in some states, in order of number; the first `limit` of them.

        `filter` and `order_by` are read by the service, in the words of `luthier trial list`. Fields are `number`,
        `state`, `worker`, `designer`, `feasible`, `params.NAME`, `metrics.NAME` and `attributes.KEY`. Labels stand there
        as in the study's file, where "1" is the number, too: the text is `params.c = "\\"1\\""`. Raises BadField
        naming what is wrong with them.

            study.get_trials(filter="state = COMPLETE AND params.lr > 1e-3", order_by="metrics.loss", limit=10)
        """
        messages = list(self._messages(states, filter=filter, order_by=order_by, limit=limit))
        self._refresh()  # After the trials: an open space has all of their parameters then.
        return [self._listed(message) for message in messages]

    def _listed(self, message: Any) -> FrozenTrial:
        """Returns a trial of a list, which asks for its curve when that is looked at."""
        trial = self._frozen(message)
        trial._with(trial.__dict__["_domains"], lambda: self.trial(trial.number))
        return trial

    def _messages(
        self,
        states: Iterable[Union[str, TrialState]] = (),
        *,
        filter: str = "",
        order_by: str = "",
        limit: Optional[int] = None,
    ) -> Iterator[Any]:
        request = _wire.message("ListTrialsRequest")(
            parent=self._path,
            states=_numbers_of(states),
            filter=text("filter", filter),
            order_by=text("order_by", order_by),
        )
        left = None if limit is None else whole("limit", limit)
        while left is None or left > 0:
            request.page_size = _PAGE if left is None else min(_PAGE, left)
            page = self._call("ListTrials", request, seconds=60.0)
            yield from page.trials
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
            left = None if left is None else left - len(page.trials)

    def _has_trials(self, states: Iterable[str], filter: str) -> bool:
        return any(True for _ in self._messages(states, filter=filter, limit=1))

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order of number."""
        return self.get_trials()

    def trial(self, number: int) -> FrozenTrial:
        """Returns one trial, with its learning curve. Raises NotFound."""
        return self._trial(number, ORDINARY)

    def _trial(self, number: int, policy: Policy) -> FrozenTrial:
        message = self._message_of(number, policy)
        if any(legal not in self._space.by_legal for legal in message.parameters.fields):
            self._refresh(policy)  # Another process made the space grow.
        return self._frozen(message)

    def _message_of(self, number: int, policy: Policy = ORDINARY) -> Any:
        request = _wire.message("GetTrialRequest")(name=self._trial_path(number), with_measurements=True)
        return self._call("GetTrial", request, policy=policy)

    @property
    def best_trial(self) -> FrozenTrial:
        """The best COMPLETE trial within the constraints; of a study whose objective was edited, of the objective's last
        version. Raises ValueError while there is none, and for several objectives, which have a `front`."""
        best = self._best(self._refresh())
        return self.trial(best if isinstance(best, int) else best.number)

    @property
    def recommended_trial(self) -> FrozenTrial:
        """The trial to take. Where results are noisy, as is stated or was found out, and the algorithm is auto or bo, it is
        the one whose setting is expected to be the best: the best value is luck in part. Else it is `best_trial`. Raises
        ValueError as that does."""
        request = _wire.message("GetStudyRequest")(name=self._path, recommendation=True)
        message = self._call("GetStudy", request)
        if message.recommended_trial and not message.spec.labels.get(OBJECTIVES, ""):
            return self.trial(message.recommended_trial)
        return self.best_trial

    def _best(self, message: Any) -> Any:
        """Returns the number of the best trial, or its message where trials of other objectives are left out."""
        counted = message.spec.labels.get(OBJECTIVES, "").split()
        if len(self.goals) > 1:
            raise ValueError(f"{self.name} has several objectives, so no trial is the best: look at study.front")
        if message.least_violating_trial:
            least = message.least_violating_trial
            raise ValueError(f"no trial of {self.name} meets the constraints; trial {least} violates them least")
        if not message.best_trial:
            raise ValueError(f"no trial of {self.name} is complete yet")
        if not counted:
            return int(message.best_trial)
        order = f"metrics.{self.metric}" + (" desc" if self.direction == "maximize" else "")
        for trial in self._messages(["COMPLETE"], order_by=order):
            if trial.HasField("feasible") and not trial.feasible:
                continue
            if (objective_of(trial.attempts[-1].worker) if trial.attempts else "") in ("", *counted):
                return trial
        raise ValueError(f"no trial of {self.name} is complete yet since its objective was edited")

    @property
    def front(self) -> list[FrozenTrial]:
        """The trials within the constraints of which none is at least as good as another in all goals, the best of the
        first goal first. With one goal this is the best trial alone. Raises ValueError where more than 5,000 are.

            for trial in study.front:
                print(trial.params, trial.values)
        """
        message = self._refresh()
        if len(self.goals) == 1:
            return [self.best_trial] if message.best_trial else []
        if message.front_overflowed:
            raise ValueError(f"more than 5,000 trials are on the front of {self.name}: add constraints")
        if len(message.front) <= _FEW:
            return [self.trial(number) for number in message.front]
        trials = {trial.number: trial for trial in self.get_trials(["COMPLETE"])}
        return [trials[number] for number in message.front if number in trials]

    @property
    def hypervolume(self) -> Optional[float]:
        """With several goals, what the front dominates beyond the reference point. Where each goal has a `reference`,
        in the product of the metrics' units, so that it never falls; else a share, from 0 to 1, of the box from there
        to the best value of each goal. None while no trial is beyond the point."""
        message = self._refresh()
        return float(message.hypervolume) if message.HasField("hypervolume") else None

    @property
    def best_value(self) -> float:
        """The best value of the metric. Raises ValueError while there is none."""
        return self._best_result(self._refresh())[1]

    def _best_result(self, message: Any) -> tuple[int, float]:
        """Returns number and value of the best trial. Raises ValueError while there is none."""
        best = self._best(message)
        if isinstance(best, int):
            return best, float(message.best_value)
        return int(best.number), float(best.final_measurement.metrics[self.metric])

    @property
    def best_params(self) -> dict[str, Any]:
        """The setting of the best trial. Raises ValueError while there is none."""
        return self.best_trial.params

    def trials_dataframe(self, *, attributes: Iterable[str] = ()) -> Any:
        """Returns the trials as a pandas data frame: number, state, value, params_*, metrics_*, feasible (with constraints),
        attrs_* of the named `attributes`, started, ended, seconds, attempts, worker, designer. Needs pandas."""
        return table.data_frame(self, attributes)

    def export(self, path: str, *, curves: bool = False) -> None:
        """Writes all trials to a file, in the form that its name says.

        `.jsonl` loses nothing and goes back in by `import_trials` and `luthier study import`; with `curves` it has the
        learning curves, which takes a call for each trial. `.csv` is for spreadsheets, `.parquet` needs pyarrow.
        """
        table.export(self, path, curves=curves)

    # --- A trial, by its number ---

    def set_attributes(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Adds notes to a trial: texts of at most 64 KiB, other values as JSON; "" removes one."""
        request = _wire.message("SetAttributesRequest")(name=self._trial_path(number))
        for key, note in mapping("attributes", attributes, '{"note": "the first"}').items():
            request.attributes[text("a key of attributes", key)] = note_of(note)
        self._call("SetAttributes", request)

    def retry(self, numbers: Sequence[int] = ()) -> list[int]:
        """Tries trials again that failed; all of them where none is named, a thousand at most. Returns the numbers of
        the new trials."""
        request = _wire.message("RetryTrialsRequest")(
            parent=self._path,
            numbers=[whole("the number of a trial", n) for n in sequence("numbers", numbers)],
            all_failed=not numbers,
            request_id=new_id(),
        )
        return [t.number for t in self._call("RetryTrials", request).trials]

    def delete_trial(self, number: int) -> None:
        """Takes a trial that has ended out of the study: its result no longer counts."""
        request = _wire.message("DeleteTrialRequest")(name=self._trial_path(number))
        self._call("DeleteTrial", request)

    def stop_trial(self, number: int) -> None:
        """Ends a trial early and keeps its value: whoever runs it hears that `should_stop()` is true, and the trial
        becomes PRUNED with the value that it then ends with, else the last one that it reported. No effect on a trial
        that has ended. `cancel_trial` takes no value. Raises NotFound, NotGranted where it waits for a worker."""
        request = _wire.message("StopTrialRequest")(name=self._trial_path(number))
        self._call("StopTrial", request)

    def explain(self, number: int) -> dict[str, Any]:
        """Returns why a trial's setting was tried and what came of it. Raises NotFound.

        `sentences` are for people; `designer`, `origin` and `details` say who chose it; `predicted` is the Prediction
        of the model that did, None where none did, and `surprise` how many standard deviations, its own and the noise's
        together, the result lies above it. In a study with several metrics `expectations` has for each, by name, the Prediction of its model and
        the probability that it keeps its constraint; None where there is none.
        """
        request = _wire.message("ExplainTrialRequest")(name=self._trial_path(number))
        reply = self._call("ExplainTrial", request, seconds=60.0)
        out = explain(self._space, reply.trial)
        out["sentences"] = list(reply.sentences)
        out["predicted"] = _prediction(reply.predicted) if reply.HasField("predicted") else None
        out["surprise"] = reply.surprise if reply.HasField("surprise") else None
        out["expectations"] = {
            one.metric: (
                _prediction(one.predicted) if one.HasField("predicted") else None,
                one.bounds_kept if one.HasField("bounds_kept") else None,
            )
            for one in reply.expectations
        }
        return out

    # --- What the model says ---

    def importance(self, metric: Optional[str] = None) -> Importance:
        """Returns the share of the metric's variance that each parameter explains, largest first, with the interval of
        each, and with `warnings` where the shares say less than they seem to. Raises TooFewResults with fewer than ten
        COMPLETE trials."""
        request = _wire.message("GetImportanceRequest")(name=self._path, metric=text("metric", metric or ""))
        reply = self._call("GetImportance", request, seconds=60.0)
        names = {p.legal: p.name for p in self._space.parameters}
        return Importance(reply, names)

    @overload
    def predict(self, settings: Mapping[str, Any], *, at_seq: int = 0) -> Prediction: ...

    @overload
    def predict(self, settings: Sequence[Mapping[str, Any]], *, at_seq: int = 0) -> list[Prediction]: ...

    def predict(
        self, settings: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]], *, at_seq: int = 0
    ) -> Union[Prediction, list[Prediction]]:
        """Returns what the study's model expects of a setting, or of each of a list of settings, which need values for
        all parameters that are active in them. `at_seq` asks the model as it was right after that event. Raises NoModel
        where the algorithm has none, TooFewResults, BadField naming what is wrong with a setting.

            study.predict({"lr": 0.01, "layers": 3}).mean
        """
        at_seq = whole("at_seq", at_seq)
        if isinstance(settings, Mapping):
            return self._predict([settings], at_seq)[0]
        return self._predict(sequence("settings", settings), at_seq)

    def _predict(self, settings: Sequence[Mapping[str, Any]], at_seq: int) -> list[Prediction]:
        out: list[Prediction] = []
        for begin in range(0, len(settings), _PAGE):
            request = _wire.message("PredictRequest")(name=self._path, at_seq=at_seq)
            for setting in settings[begin : begin + _PAGE]:
                self._space.encode(setting, request.settings.add())
            reply = self._call("Predict", request, seconds=60.0)
            out += [_prediction(one) for one in reply.predictions]
            at_seq = at_seq or reply.seq  # All of them by the same model.
        return out


def _again(
    kind: Any, path: str, server: Optional[str], db: Optional[str], accept_plaintext: bool = False
) -> Any:
    """Returns the study of this full name. Raises NotFound."""
    client = connect(server, db, accept_plaintext)
    return kind(client, client.call("StudyService", "GetStudy", _wire.message("GetStudyRequest")(name=path)))


def to_event(e: Any) -> Event:
    """Returns an Event message as users see it."""
    return Event(
        seq=e.seq,
        time=e.time.seconds + 1e-9 * e.time.nanos,
        type=_wire.enum_names("Event.Type").get(e.type, str(e.type)),
        trial=e.trial,
        attempt=e.attempt,
        actor=e.actor,
        detail=e.detail,
        value=e.value if e.HasField("value") else None,
    )


def _numbers_of(states: Iterable[Union[str, TrialState]]) -> list[int]:
    """Returns states as the service numbers them. ValueError names one that there is not."""
    known = _wire.enum("Trial.State")
    out: list[int] = []
    for state in [states] if isinstance(states, str) else sequence("states", states):
        name = str(getattr(state, "value", state)).upper()
        name = TrialState.__members__[name].value if name in TrialState.__members__ else name
        if name not in known or name.endswith("UNSPECIFIED"):
            raise ValueError(f"{state!r} is no state of a trial: {', '.join(sorted({s.value for s in TrialState}))}")
        out.append(known[name])
    return out


def _prediction(message: Any) -> Prediction:
    p = message.p_success if message.HasField("p_success") else None
    return Prediction(mean=message.mean, sd=message.sd, p_success=p)
