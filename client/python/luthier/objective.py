"""Objectives as commands: a function with what its study is made of, which workers run."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

from luthier import _wire
from luthier._arguments import flag, whole
from luthier._create import make, study_id
from luthier._fingerprint import fingerprint, new_worker
from luthier._goals import Goal
from luthier._processes import run_all, start
from luthier._progress import Follower
from luthier._server import environment, program
from luthier.errors import StudyPaused
from luthier.study import PAUSED_BY_USER, IfChanged, Study


class Tunable:
    """A function that trains, with what `luthier.objective` was told. Calling it calls the function."""

    def __init__(self, fn: Callable[[Any], Any], options: Mapping[str, Any]) -> None:
        self._fn = fn
        self.__wrapped__: Callable[[Any], Any] = fn
        self.options: dict[str, Any] = dict(options)
        self.__name__: str = getattr(fn, "__name__", "objective")
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    def __call__(self, trial: Any) -> Any:
        return self._fn(trial)

    @property
    def reference(self) -> str:
        """The name by which a worker imports it: "module:function"."""
        if self.__module__ == "__main__":
            path = getattr(sys.modules["__main__"], "__file__", None)
            if path is None:
                raise ValueError("a function of a notebook has no file that workers could import: put it into a module")
            return f"{os.path.abspath(path)}:{self.__name__}"
        return f"{self.__module__}:{self.__name__}"

    def study(self, name: Optional[str] = None, **where: Any) -> Study:
        """Makes the study, whose trials run `python -m luthier.run` at any worker that may."""
        options = {**self.options, **where}
        given = options.pop("name", None)
        command: dict[str, Any] = {"argv": [options.pop("python", sys.executable), "-m", "luthier.run", self.reference]}
        for key in ("timeout", "memory_limit_mb"):
            if key in options:
                command[key] = options.pop(key)
        if "timeout" in command:
            command["timeout"] = f"{float(command['timeout']):.9g}s"
        return make(name or given or study_id(self.__name__), objective={"command": command}, **options)

    def tune(
        self,
        n_trials: Optional[int] = None,
        *,
        processes: int = 1,
        gpus: Union[int, str, None] = None,
        name: Optional[str] = None,
        show_progress_bar: Optional[bool] = None,
        if_changed: Optional[IfChanged] = None,
        **where: Any,
    ) -> Study:
        """Runs `n_trials` more trials here, `processes` at a time, by the C++ worker: a child that crashes, hangs or
        keeps the interpreter's lock costs its own trial alone. Without `n_trials`, or where it ends sooner, the study is
        run to its end. `gpus` are "all", how many, or which ("0,2"): each trial sees one of them alone, and there are as
        many processes as GPUs. What is shown and what `if_changed` means is as in `Study.optimize`. Returns the study.

        Raises StudyPaused where the service paused the study, because three trials failed alike or 20 in a row; the
        same call resumes it. StudyPaused, too, where somebody paused it, and StudyFinished where it was stopped or
        cancelled. ValueError where `n_trials` is below 1.
        """
        n_trials = None if n_trials is None else whole("n_trials", n_trials)
        if n_trials is not None and n_trials <= 0:
            raise ValueError(f"n_trials is {n_trials}; give at least 1, or None to go on to the end of the study")
        show = None if show_progress_bar is None else flag("show_progress_bar", show_progress_bar)
        study = self.study(name, **where)
        if study.state == "PAUSED" and study.state_reason != PAUSED_BY_USER:
            study.resume()
        objective = fingerprint(self._fn)
        lines = study._begin(objective, n_trials, None, if_changed, show)
        if lines is None:
            return study
        follower = Follower(study, lines)
        with tempfile.TemporaryDirectory(prefix="luthier-tune-") as spool:
            command = [program("luthier-worker"), "--server", study._client.target(), "--study", study._path]
            command += ["--gpus", str(gpus)] if gpus is not None else ["--slots", str(processes)]
            command += ["--name", new_worker(objective)]
            command += ["--spool", spool, "--exit-when-done", "--env-allow", "*"]
            command += ["--accept-plaintext"] if study._client.accept_plaintext else []
            if n_trials is not None:
                command += ["--max-trials", str(n_trials)]
            if os.geteuid() == 0:  # The function is the user's own, so root's is root's.
                command += ["--run-as", "0"]

            def paused() -> bool:
                return bool(study._refresh().state == _wire.enum("Study.State")["PAUSED"])

            def over() -> bool:
                follower.look()
                return paused()

            worker = start(command, environment=environment(study._client.local))
            try:
                run_all([worker], echo=False, until=over)
                follower.look(now=True)
            finally:
                lines.end()
        if paused():
            raise StudyPaused(f"study {study.name} is paused: {study._message.state_reason}")
        return study


def objective(*, goal: Goal = "minimize", **options: Any) -> Callable[[Callable[[Any], Any]], Tunable]:
    """Decorates a function that trains, with the study's options: space, metric, goal, goals, constraints,
    parameter_constraints, algorithm, resource, max_trials, timeout, memory_limit_mb. Its `tune` runs it here; workers
    elsewhere run it wherever its module can be imported."""
    if options.get("space") is None:
        raise ValueError("objective() needs space=: the workers of a study get whole settings")
    return lambda fn: Tunable(fn, {"goal": goal, **options})
