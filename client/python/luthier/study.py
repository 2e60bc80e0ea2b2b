"""Studies: asked and told, optimized, and their trials."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, SupportsFloat, Union

from luthier import _wire
from luthier._arguments import flag, mapping, number, sequence, text, whole
from luthier._asking import Asking, Run, Trial
from luthier._changed import look_at
from luthier._client import Client, new_id
from luthier._fingerprint import fingerprint
from luthier._foreign import grow_by_trials, rows_of
from luthier._frozen import FrozenTrial
from luthier._gradient import GradientCheck, check_gradient
from luthier._granted import Asked
from luthier._notebook import show
from luthier._notes import note as note_of
from luthier._plots import Pictures, Plots
from luthier._processes import optimize_in_processes, pickled
from luthier._progress import Progress
from luthier._stored import UNCAPPED, Stored
from luthier._threads import alone, in_threads
from luthier.errors import StudyFinished, StudyPaused
from luthier.table import to_import

_log = logging.getLogger("luthier")
IfChanged = Literal["continue", "fresh", "raise"]
PAUSED_BY_USER = "paused by a user"
_BATCH = 1000  # Trials in one import,
_BATCH_BYTES = 3 << 20  # and their bytes.
_MOST_JOBS = 1000

# An objective returns anything that is a number, or metrics by name or in their order; maybe with a gradient.
_Measured = Union[SupportsFloat, Mapping[str, Any]]
_Several = Union[_Measured, Sequence[SupportsFloat]]
Result = Union[_Several, tuple[_Several, Optional[Mapping[str, Any]]]]
Objective = Callable[[Trial], Result]


def to_callbacks(callbacks: Any, progress: Any) -> list[Any]:
    """Returns all functions that hear of trials, which get the study and the trial. TypeError."""
    every = sequence("callbacks", callbacks)
    if any(not callable(one) for one in [*every, *([] if progress is None else [progress])]):
        raise TypeError("callbacks and progress are functions")
    return every + ([] if progress is None else [lambda _, trial: progress(trial)])


def to_catch(catch: Any) -> tuple[type[BaseException], ...]:
    """Returns exceptions as a tuple. TypeError."""
    kinds = [catch] if isinstance(catch, type) else sequence("catch", catch)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"catch has {kind!r}: it has classes of exceptions")
    return tuple(kinds)


def _because(message: Any) -> str:
    return f" ({message.state_reason})" if message.state_reason else ""


class Study(Asking, Stored):
    """A study of the service. Any thread may use it; nothing of its trials is kept here.

        study = luthier.study("ridge", {"l2": luthier.Float(1e-8, 1e4, log=True)}, algorithm="fobo")
        study.optimize(lambda trial: (loss(trial["l2"]), {"l2": slope(trial["l2"])}), n_trials=20)
        print(study.best_value, study.best_params)

    Every call may raise LuthierError; classes of luthier.errors say why.
    """

    def __init__(self, client: Client, message: Any) -> None:
        super().__init__(client, message)
        self._asked = Asked(self)
        self._runs: list[Run] = []  # Calls of `optimize` that run.

    # --- Optimize ---

    def optimize(
        self,
        fn: Objective,
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        *,
        processes: Optional[int] = None,
        catch: Union[type[BaseException], tuple[type[BaseException], ...]] = (),
        callbacks: Iterable[Callable[[Study, FrozenTrial], None]] = (),
        progress: Optional[Callable[[FrozenTrial], None]] = None,
        show_progress_bar: Optional[bool] = None,
        if_changed: Optional[IfChanged] = None,
    ) -> Study:
        """Runs `fn` on `n_trials` more trials, in `n_jobs` threads (-1: one a core) or in `processes` of their own.

        `fn` gets a Trial and returns the value, (value, {parameter: derivative}), or a dictionary of metrics. With
        `timeout` no trial begins after so many seconds. With neither, it goes on until the study's budget is spent. The
        study's own `max_trials` wins over `n_trials`.

        An exception of `fn` fails the trial and goes on to the caller unless it is in `catch`. A result that is none
        (None, a text, a gradient of unknown names) fails the trial as BAD_OUTPUT, with a warning, and the study goes
        on. TrialPruned prunes the trial, Retry puts it back, Ctrl-C and SIGTERM give it back with its newest
        checkpoint. C code that keeps the interpreter's lock for a lease's whole time to live starves heartbeats;
        `processes` do not mind. Returns the study.

        The log `luthier` has a line at the start and one a trial, at INFO. A line that is written over shows them on
        terminals and in notebooks; `show_progress_bar` is True for it elsewhere, too, and False for none.

        Where `fn` was edited since the study's last trials, the log warns: trials of the former text stay in the study,
        but `best_trial`, `best_value` and `best_params` leave them out. `if_changed="continue"` lets them count,
        "fresh" goes on in a study of its own, NAME-2, which this object then is, and "raise" raises ObjectiveChanged.

        Raises StudyPaused where the study is paused, StudyFinished where it was stopped or cancelled. The log warns
        where its end comes before `n_trials`.
        """
        if not callable(fn):
            raise TypeError(f"the objective is {fn!r}: it is a function of a trial")
        n_trials = None if n_trials is None else whole("n_trials", n_trials)
        if n_trials is not None and n_trials < 0:
            raise ValueError(f"n_trials is {n_trials}: it is at least 0, or None to go on to the end of the study")
        if n_trials == 0:
            return self
        timeout = None if timeout is None else number("timeout", timeout)
        catches, every = to_catch(catch), to_callbacks(callbacks, progress)
        n_jobs = whole("n_jobs", n_jobs)
        if n_jobs == 0 or not -1 <= n_jobs <= _MOST_JOBS:
            raise ValueError(f"n_jobs is {n_jobs}: it is from 1 to {_MOST_JOBS}, or -1 for one a core")
        processes = None if processes is None else whole("processes", processes)
        if processes is not None and not 0 < processes <= _MOST_JOBS:
            raise ValueError(f"processes is {processes}: it is from 1 to {_MOST_JOBS}")
        if processes is not None and every:
            raise ValueError("callbacks and progress are called in this process: use n_jobs=, or follow study.watch()")
        shown = None if show_progress_bar is None else flag("show_progress_bar", show_progress_bar)
        objective = fingerprint(fn)
        cargo = b""
        if processes is not None:
            cargo = pickled((fn, catches, objective))  # Before anything is changed: it may not travel.
        lines = self._begin(objective, n_trials, timeout, if_changed, shown)
        if lines is None:
            return self
        try:
            if processes is not None:
                optimize_in_processes(self, cargo, n_trials, timeout, processes, lines)
                return self
            run = Run(self, fn, n_trials, timeout, catches, every, objective, lines)
            self._runs.append(run)
            try:
                if n_jobs == 1:
                    alone(run)
                else:
                    in_threads(run, n_jobs)
            finally:
                self._runs.remove(run)
        finally:
            lines.end()
        self._say_why_it_ended(n_trials, run.left)
        return self

    def _begin(
        self,
        objective: str,
        n_trials: Optional[int],
        timeout: Optional[float],
        if_changed: Optional[IfChanged],
        show: Optional[bool],
    ) -> Optional[Progress]:
        """Makes room for trials and says what is about to happen; returns None where the study is complete. Raises
        StudyPaused, StudyFinished, ObjectiveChanged."""
        if if_changed not in (None, "continue", "fresh", "raise"):
            raise ValueError(f"if_changed is {if_changed!r}: it is 'continue', 'fresh' or 'raise'")
        self._refresh()
        self._check_that_it_runs()
        if objective and if_changed in ("fresh", "raise"):
            look_at(self, objective, if_changed)
        if self._is_complete(n_trials is not None or timeout is not None):
            _log.warning("study %s is complete, so no trial is run: %s", self.name, self._end_of(self._message))
            return None
        if objective and if_changed in (None, "continue"):
            look_at(self, objective, if_changed)
        if n_trials is not None:
            self._make_room(n_trials)
        message = self._message
        rows, pending = self._rows(message), int(message.trials.pending)
        left = max(0, int(message.spec.budget.max_trials) - rows) + pending
        capped = message.spec.labels.get(UNCAPPED) != "open"
        more = left if n_trials is None else min(n_trials, left) if capped else n_trials
        until = f"within {timeout:g} s" if timeout is not None else ""
        lines = Progress(self, show)
        lines.begin(rows - int(message.trials.deleted), None if timeout is not None and n_trials is None else more, until)
        return lines

    def _is_complete(self, grows: bool) -> bool:
        """Whether the study takes no more trials. `grows`: the call raises a budget that nobody set."""
        message = self._message
        if _wire.enum_names("Study.State")[message.state] != "COMPLETED":
            return False
        uncapped = message.spec.labels.get(UNCAPPED) == "open"
        return not (grows and uncapped and message.state_reason in ("", "max_trials reached"))

    def _check_that_it_runs(self) -> None:
        message = self._message
        state = _wire.enum_names("Study.State")[message.state]
        if state == "PAUSED":
            raise StudyPaused(
                f"study {self.name} is paused: {message.state_reason}; study.resume() or `luthier study resume "
                f"{self._full_name}` lets it go on"
            )
        if state in ("STOPPED", "CANCELLED"):
            raise StudyFinished(
                f"study {self.name} was {state.lower()}{_because(message)}, so it takes no more trials; its results can "
                "go on in another one: luthier.study(NAME, ...).add_trials(study.trials)"
            )

    def _end_of(self, message: Any) -> str:
        reason = str(message.state_reason) or "its end is reached"
        if reason == "max_trials reached":
            way = "n_trials=" if message.spec.labels.get(UNCAPPED) == "open" else "study.update(max_trials=...)"
            return f"{reason} ({message.spec.budget.max_trials}); {way} gives it more"
        return reason

    def _say_why_it_ended(self, wanted: Optional[int], left: Optional[int]) -> None:
        """Says in the log why a call ended before it had run so many trials."""
        if not left or wanted is None:
            return
        message = self._refresh()
        state = _wire.enum_names("Study.State")[message.state]
        if state in ("STOPPED", "CANCELLED"):
            why = f"it was {state.lower()}{_because(message)}"
        elif state == "COMPLETED":
            why = self._end_of(message)
        else:
            return  # The time was over.
        _log.warning("study %s ended after %d of %d trials: %s", self.name, wanted - left, wanted, why)

    # --- Trials ---

    def enqueue(self, params: Mapping[str, Any], attributes: Optional[Mapping[str, Any]] = None) -> FrozenTrial:
        """Adds a setting of the user's, which is tried before any suggestion. What it leaves out takes its default.
        Raises BadField for values outside the space, LimitExceeded where the budget has no room. In an open space values
        wait for a trial that asks for them; what it does not ask for, or what its ranges lack, is named in a warning of
        the log when the trial ends, and by `explain`."""
        request = _wire.message("EnqueueTrialsRequest")(parent=self._path, request_id=new_id())
        trial = request.trials.add()
        message = self._refresh()
        self._space.encode(params, trial.parameters)
        unknown = sorted(name for name in params if name not in self._space.by_name)
        if self._open and self._space.parameters and unknown:
            _log.warning(
                "the setting that is added to study %s has %s, which no trial has asked for yet; they have asked for %s",
                self.name, ", ".join(map(repr, unknown)), ", ".join(map(repr, sorted(self._space.by_name))),
            )  # fmt: skip
        for key, note in mapping("attributes", attributes or {}, '{"note": "mine"}').items():
            trial.attributes[text("a key of attributes", key)] = note_of(note)
        if message.spec.labels.get(UNCAPPED) == "open" and self._rows(message) >= message.spec.budget.max_trials:
            self._more_room(1)
        return self._frozen(self._call("EnqueueTrials", request).trials[0])

    enqueue_trial = enqueue

    def add_trials(self, trials: Iterable[Union[FrozenTrial, Mapping[str, Any]]], *, source: str = "") -> list[int]:
        """Adds results from elsewhere: FrozenTrials, also of other studies, or dictionaries with params, value or
        metrics, state (COMPLETE, PRUNED or FAILED), gradient, attributes. A thousand go in at once, all or none.
        An open space gets the parameters of FrozenTrials that it lacks. Returns their numbers. Raises BadField naming
        what is wrong, Reproducible where the study takes none.

            study.add_trials([{"params": {"x": 0.1}, "value": 3.2}])
        """
        rows = sequence("trials", trials)
        grow_by_trials(self, rows)
        return self._import([to_import(self, trial) for trial in rows], source)

    def _import(self, rows: Sequence[Any], source: str) -> list[int]:
        numbers: list[int] = []
        while rows:
            size = count = 0
            while count < min(len(rows), _BATCH) and (count == 0 or size + rows[count].ByteSize() < _BATCH_BYTES):
                size += rows[count].ByteSize()
                count += 1
            request = _wire.message("ImportTrialsRequest")(
                parent=self._path, request_id=new_id(), source=source, trials=rows[:count]
            )
            numbers += list(self._call("ImportTrials", request, seconds=60.0).numbers)
            rows = rows[count:]
        return numbers

    def import_trials(self, source: Any, *, study_name: Optional[str] = None) -> list[int]:
        """Adds the results of a file or of another tool, and returns their numbers.

        `source` is a .csv file (a column for each parameter and one for the metric), a .jsonl file as `export` and
        `luthier study export` write it, a data frame, an Optuna study, an Optuna storage (an object, a URL or a
        journal's file; `study_name` says which study), a search of scikit-learn that was fitted, or its `cv_results_`.
        An open space gets the parameters that it lacks. Raises ValueError and BadField naming what is wrong.

            study.import_trials("sqlite:///example.db", study_name="mnist")
        """
        self._refresh()
        rows, name = rows_of(self, source, study_name)
        return self._import(rows, name)

    def add_trial(self, trial: Union[FrozenTrial, Mapping[str, Any]]) -> int:
        """Adds one result from elsewhere; returns its number."""
        return self.add_trials([trial])[0]

    def cancel_trial(self, number: int) -> None:
        """Cancels an open trial: its value, should one come, is not taken."""
        request = _wire.message("CancelTrialRequest")(name=self._trial_path(number))
        self._call("CancelTrial", request)
        trial = self._asked.open.get(number)
        if trial is not None:
            self._asked.forget(trial)

    def check_gradient(self, fn: Objective, params: Mapping[str, Any], step: float = 1e-4) -> GradientCheck:
        """Compares the gradient that `fn` returns at `params` with differences of its values, as
        luthier.check_gradient. No trial is stored."""
        return check_gradient(fn, params, metric=self.metric, step=step)

    @property
    def plot(self) -> Plots:
        """Figures of the study: `study.plot.history()`, which a notebook shows, and `.save("history.svg")`."""
        return Plots(self)

    def show(self) -> Pictures:
        """Returns the history, the slices and the parallel coordinates of the study, for a notebook."""
        return Pictures([self.plot.history(), self.plot.slice(), self.plot.parallel()])

    def _repr_html_(self) -> str:
        return show(self)
