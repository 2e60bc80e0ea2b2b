"""`python -m luthier.run module:function`: runs an objective on one trial, as a command of `luthier-worker`.

The setting comes in a file, reports go out on one descriptor and the worker's word comes in on another; the worker
holds the lease. No connection is made here, so the function may fork."""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import json
import math
import os
import pickle
import sys
from collections.abc import Mapping
from typing import Any, Callable, Optional

from luthier._arguments import representation, whole
from luthier._create import load as load_study
from luthier._asking import Run
from luthier._processes import Told
from luthier._results import Notes, gradients_of, metrics_of, of_several, ordered_gradient, split, to_number
from luthier._threads import alone
from luthier.errors import Retry, StudyPaused, TrialPruned
from luthier.space import Space, decode_label, legal_name, to_specs


class RunTrial:
    """The trial of this process. As luthier.Trial, but for open spaces, `name` and `explain`. `domains` is the space of
    the objective's decorator; empty where it has none, and parameters have the service's names then."""

    def __init__(self, domains: Mapping[str, Any]) -> None:
        self._domains = dict(domains)
        names = {legal_name(name): name for name in self._domains}
        with open(os.environ["LUTHIER_PARAMETERS_FILE"], encoding="utf-8") as file:
            raw = json.load(file)
        self._legal = {name: legal for legal, name in names.items()}
        self.params: dict[str, Any] = {
            names.get(p, p): decode_label(v) if isinstance(v, str) else v for p, v in raw.items()
        }
        self.number: int = int(os.environ["LUTHIER_TRIAL"])
        self.attempt: int = int(os.environ["LUTHIER_ATTEMPT"])
        self.seed: int = int(os.environ["LUTHIER_SEED"])
        self.checkpoint: Optional[str] = os.environ.get("LUTHIER_CHECKPOINT") or None
        target = os.environ.get("LUTHIER_TARGET_STEP")
        self.target_step: Optional[int] = int(target) if target else None
        self.start_step: int = int(os.environ.get("LUTHIER_CHECKPOINT_STEP", "0"))
        tolerance = os.environ.get("LUTHIER_TOLERANCE")
        self.tolerance: Optional[float] = float(tolerance) if tolerance else None
        self.wants_gradient: bool = os.environ.get("LUTHIER_GRADIENT", "full") != "none"
        self._results = os.fdopen(int(os.environ.get("LUTHIER_RESULT_FD", "3")), "w", buffering=1)
        self._replies = int(os.environ.get("LUTHIER_REPLY_FD", "4"))
        os.set_blocking(self._replies, False)
        self._heard = b""
        self._step = 0
        self._last: Optional[dict[str, Any]] = None
        self._malformed: Optional[Exception] = None  # The error of the newest report, if it was malformed.
        self._noted: set[str] = set()

    @functools.cached_property
    def _space(self) -> Optional[Space]:
        """The space, which only gradients need."""
        return Space(to_specs(self._domains)) if self._domains else None

    @functools.cached_property
    def direction(self) -> Optional[dict[str, float]]:
        """Along which a slope of the metric is asked for, by parameters' names; None: none is."""
        path = os.environ.get("LUTHIER_DIRECTION_FILE")
        if path is None or self._space is None:
            return None
        with open(path, encoding="utf-8") as file:
            return dict(zip(self._space.coordinates(), json.load(file)))

    @property
    def suggested(self) -> dict[str, Any]:
        """The whole setting."""
        return self.params

    def __getitem__(self, name: str) -> Any:
        if name not in self.params:
            raise KeyError(f"trial {self.number} has no parameter {name!r}; it has {sorted(self.params)}")
        return self.params[name]

    def __contains__(self, name: str) -> bool:
        return name in self.params

    def suggest_float(self, name: str, low: float, high: float, **options: Any) -> float:
        """Returns the value of a parameter of the study's space."""
        del low, high, options
        return float(self[name])

    def suggest_int(self, name: str, low: int, high: int, **options: Any) -> int:
        """Returns the value of a parameter of the study's space."""
        del low, high, options
        return int(self[name])

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """Returns the value of a parameter of the study's space."""
        del choices
        return self[name]

    def report(
        self,
        value: Any = None,
        step: Optional[int] = None,
        *,
        metrics: Optional[Mapping[str, float]] = None,
        gradient: Optional[Mapping[str, Any]] = None,
        gradients: Optional[Mapping[str, Any]] = None,
        checkpoint: Optional[str] = None,
    ) -> str:
        """Reports a point of the learning curve. Returns CONTINUE, STOP, FINISH or PAUSE."""
        try:
            self._step = self._step + 1 if step is None else whole("step", step)
            line = self._line(value, metrics, gradients_of(gradient, gradients))
        except (TypeError, ValueError) as error:
            self._last, self._malformed = None, error
            raise
        self._malformed = None
        line["step"] = self._step
        if checkpoint is not None:
            line["checkpoint"] = str(checkpoint)
            self.checkpoint = str(checkpoint)
        self._last = line
        self._send(line)
        self._hear()
        if b"finish" in self._heard:
            return "FINISH"
        return "STOP" if self.should_stop() else "PAUSE" if self.should_pause() else "CONTINUE"

    def _line(self, value: Any, metrics: Any, gradient: Any) -> dict[str, Any]:
        """Returns the line of a result. TypeError and ValueError say what is wrong with it."""
        value, gradient = split(value, gradient)
        every: dict[str, Any] = dict(metrics or {})
        if isinstance(value, Mapping):
            every.update(value)
        elif value is not None:
            every[_metric()] = value
        notes: Notes = {}
        line: dict[str, Any] = {"metrics": metrics_of((_metric(),), every, notes)}
        for name, why in notes.items():
            if name not in self._noted:
                self._noted.add(name)
                print(f"left out: {why}", file=sys.stderr, flush=True)
        if gradient and of_several(gradient):
            line["gradients"] = {name: self._gradient(one) for name, one in gradient.items() if one}
        elif gradient:
            line["gradient"] = self._gradient(gradient)
        return line

    def _gradient(self, gradient: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a gradient as a line has it."""
        unknown = sorted(set(gradient) - set(self.params))
        if unknown:
            raise ValueError(f"the gradient names {unknown}; the trial has {sorted(self.params)}")
        values = ordered_gradient(self._space, gradient) if self._space is not None else None
        if values is not None:
            return {"full": values}
        return {"by_name": {self._legal.get(name, name): to_number(name, x) for name, x in gradient.items()}}

    def _send(self, line: Mapping[str, Any]) -> None:
        self._results.write(json.dumps(line) + "\n")

    def _hear(self) -> None:
        try:
            while True:
                some = os.read(self._replies, 4096)
                if not some:
                    return
                self._heard += some
        except BlockingIOError:
            return

    def should_stop(self) -> bool:
        """Whether training is to end: raise TrialPruned then."""
        self._hear()
        return b"stop" in self._heard or b"finish" in self._heard

    should_prune = should_stop

    def should_pause(self) -> bool:
        """Whether the target is reached: save a checkpoint, report it, and return."""
        self._hear()
        return b"pause" in self._heard or (self.target_step is not None and self._step >= self.target_step)

    def set_attribute(self, key: str, value: Any) -> None:
        """Prints the note: the attempt's output keeps it."""
        encoding = sys.stdout.encoding or "utf-8"
        shown = value if isinstance(value, str) else representation(value)
        print(f"{key}: {shown}".encode(encoding, "backslashreplace").decode(encoding), flush=True)

    set_user_attr = set_attribute


def _metric() -> str:
    return os.environ.get("LUTHIER_METRIC", "value")


def load(reference: str) -> Callable[[Any], Any]:
    """Returns the function "module:function" or "/path/file.py:function". ValueError, ImportError, AttributeError."""
    module_name, _, name = reference.rpartition(":")
    if not module_name or not name:
        raise ValueError(f"{reference!r} is not module:function")
    if module_name.endswith(".py") or "/" in module_name:
        spec = importlib.util.spec_from_file_location("luthier_objective", module_name)
        if spec is None or spec.loader is None:
            raise ImportError(f"{module_name} can't be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules["luthier_objective"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    found: Callable[[Any], Any] = getattr(module, name)
    return found


def _malformed(trial: RunTrial, error: Exception) -> int:
    """Says what is wrong with the newest result, as a line that is none: the trial fails as BAD_OUTPUT."""
    print(error, file=sys.stderr)
    trial._results.write(" ".join(str(error).split()) + "\n")
    return 1


def run(reference: str) -> int:
    """Runs an objective on the trial of this process. Returns the exit code."""
    fn = load(reference)
    trial = RunTrial(getattr(fn, "options", {}).get("space") or {})
    try:
        result = fn(trial)
    except TrialPruned:
        if trial._malformed is not None:
            return _malformed(trial, trial._malformed)
        nothing = {"metrics": {_metric(): math.nan}}  # Sent if nothing was reported before.
        trial._send({**(trial._last or nothing), "pruned": True, "final": True})
        return 0
    except Retry as error:
        print(error, file=sys.stderr)
        return 75  # EX_TEMPFAIL
    except (TypeError, ValueError) as error:
        if error is not trial._malformed:
            raise
        return _malformed(trial, error)
    try:
        line = trial._line(result, None, None)
        if _metric() not in line["metrics"]:
            raise ValueError(f"the objective returned {result!r}, without a value of {_metric()}")
    except (TypeError, ValueError) as error:
        return _malformed(trial, error)
    line["final"] = True
    if trial._step:
        line["step"] = trial._step
        if trial.checkpoint is not None:
            line["checkpoint"] = trial.checkpoint
    trial._send(line)
    return 0


def _child(arguments: argparse.Namespace) -> int:
    """A process of `optimize(processes=...)`."""
    with open(arguments.child, "rb") as file:
        fn, catch, objective = pickle.load(file)
    study = load_study(
        arguments.study, server=arguments.server, db=arguments.db, accept_plaintext=arguments.accept_plaintext
    )
    if arguments.beats is not None:
        study._client.beats = Told(study._client, arguments.beats)
    count = arguments.trials if arguments.trials >= 0 else None
    try:
        alone(Run(study, fn, count, arguments.timeout or None, catch, (), objective))
    except StudyPaused:
        pass  # The parent raises it.
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m luthier.run", description="Runs an objective on one trial of luthier-worker."
    )
    parser.add_argument("reference", nargs="?", help="module:function or /path/file.py:function")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--db", help=argparse.SUPPRESS)
    parser.add_argument("--accept-plaintext", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--study", help=argparse.SUPPRESS)
    parser.add_argument("--beats", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--timeout", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return _child(arguments)
    if not arguments.reference:
        parser.error("name the objective: module:function")
    if "LUTHIER_PARAMETERS_FILE" not in os.environ:
        parser.error("this runs within a trial: luthier-worker sets LUTHIER_PARAMETERS_FILE and more")
    return run(arguments.reference)


if __name__ == "__main__":
    sys.exit(main())
