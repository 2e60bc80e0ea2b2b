"""What is stored of a study: its trials, its events, and what its model expects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union, overload

from luthier import _wire, table
from luthier._arguments import mapping, sequence, text, whole
from luthier._client import new_id
from luthier._fingerprint import objective_of
from luthier._frozen import FrozenTrial, TrialState, explain, freeze
from luthier._handle import OBJECTIVES, Handle
from luthier._notes import note as note_of
from luthier._retry import ASK, ORDINARY, Policy, Retry
from luthier.errors import LuthierError

_PAGE = 1000  # Trials, and settings, in one call.


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


class Records(Handle):
    """A study of the service, with what is stored of it. Every call may raise LuthierError."""

    # --- Trials ---

    def _frozen(self, trial: Any) -> FrozenTrial:
        return freeze(self._space, self.metric, trial)

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
        `state`, `worker`, `designer`, `params.NAME`, `metrics.NAME` and `attributes.KEY`. Raises BadField naming what
        is wrong with them.

            study.get_trials(filter="state = COMPLETE AND params.lr > 1e-3", order_by="metrics.loss", limit=10)
        """
        messages = list(self._messages(states, filter=filter, order_by=order_by, limit=limit))
        self._refresh()  # After the trials: an open space has all of their parameters then.
        return [self._listed(message) for message in messages]

    def _listed(self, message: Any) -> FrozenTrial:
        """Returns a trial of a list, which asks for its curve when that is looked at."""
        trial = self._frozen(message)
        trial._with(trial.__dict__["_domains"], lambda: self.trial(trial.number).intermediate_values)
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
        """The best COMPLETE trial; of a study whose objective was edited, of the objective's last version. Raises
        ValueError while there is none."""
        best = self._best(self._refresh())
        return self.trial(best if isinstance(best, int) else best.number)

    def _best(self, message: Any) -> Any:
        """Returns the number of the best trial, or its message where trials of other objectives are left out."""
        counted = message.spec.labels.get(OBJECTIVES, "").split()
        if not message.best_trial:
            raise ValueError(f"no trial of {self.name} is complete yet")
        if not counted:
            return int(message.best_trial)
        order = f"metrics.{self.metric}" + (" desc" if self.direction == "maximize" else "")
        for trial in self._messages(["COMPLETE"], order_by=order):
            if (objective_of(trial.attempts[-1].worker) if trial.attempts else "") in ("", *counted):
                return trial
        raise ValueError(f"no trial of {self.name} is complete yet since its objective was edited")

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
        """Returns the trials as a pandas data frame: number, state, value, params_*, metrics_*, attrs_* of the named
        `attributes`, started, ended, seconds, attempts, worker, designer. Needs pandas."""
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
        of the model that did, None where none did, and `surprise` how many of its standard deviations the result lies
        above it.
        """
        request = _wire.message("ExplainTrialRequest")(name=self._trial_path(number))
        reply = self._call("ExplainTrial", request, seconds=60.0)
        out = explain(self._space, reply.trial)
        out["sentences"] = list(reply.sentences)
        out["predicted"] = _prediction(reply.predicted) if reply.HasField("predicted") else None
        out["surprise"] = reply.surprise if reply.HasField("surprise") else None
        return out

    # --- What the model says ---

    def importance(self, metric: Optional[str] = None) -> dict[str, float]:
        """Returns the share of the metric's variance that each parameter explains, largest first. Raises TooFewResults
        with fewer than ten COMPLETE trials."""
        request = _wire.message("GetImportanceRequest")(name=self._path, metric=text("metric", metric or ""))
        reply = self._call("GetImportance", request, seconds=60.0)
        names = {p.legal: p.name for p in self._space.parameters}
        return {names.get(s.parameters[0], s.parameters[0]): s.share for s in reply.parameters}

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

    # --- Events ---

    def watch(self, *, after_seq: int = 0, until_finished: bool = True) -> Iterator[Event]:
        """Yields the study's events in order, each once: first those stored, then those to come, across restarts of the
        coordinator. Ends after the event that finishes the study and its last trial, or never.

            for event in study.watch():
                print(event.type, event.trial, event.value)
        """
        request = _wire.message("WatchStudyRequest")(
            name=self._path, after_seq=after_seq, until_finished=until_finished
        )
        quiet, retry = 0.0, Retry(ASK)
        while True:
            try:
                for e in self._client.stream("StudyService", "WatchStudy", request):
                    quiet, retry = 0.0, Retry(ASK)
                    if e.seq <= request.after_seq:
                        continue  # What came before the connection broke may come again.
                    request.after_seq = e.seq
                    yield to_event(e)
                if until_finished:
                    return
            except LuthierError as error:
                wait = retry.wait_after(error.code, error.reason, error.retry_delay, quiet)
                if wait is None:
                    raise
                quiet += wait
                time.sleep(wait)


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
