"""Objectives as functions: in processes of their own, and as commands for workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier import _wire
from luthier._arguments import flag, whole
from luthier._beats import Relay
from luthier._fingerprint import fingerprint, worker_of
from luthier._progress import Follower, Progress
from luthier._server import environment, program

if TYPE_CHECKING:
    from luthier.study import IfChanged, Study


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
        from luthier._create import make, study_id

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
        from luthier.errors import StudyPaused
        from luthier.study import _PAUSED_BY_USER

        n_trials = None if n_trials is None else whole("n_trials", n_trials)
        if n_trials is not None and n_trials <= 0:
            raise ValueError(f"n_trials is {n_trials}; give at least 1, or None to go on to the end of the study")
        show = None if show_progress_bar is None else flag("show_progress_bar", show_progress_bar)
        study = self.study(name, **where)
        if study.state == "PAUSED" and study.state_reason != _PAUSED_BY_USER:
            study.resume()
        objective = fingerprint(self._fn)
        lines = study._begin(objective, n_trials, None, if_changed, show)
        if lines is None:
            return study
        follower = Follower(study, lines)
        with tempfile.TemporaryDirectory(prefix="luthier-tune-") as spool:
            command = [program("luthier-worker"), "--server", study._client.target(), "--study", study._path]
            command += ["--gpus", str(gpus)] if gpus is not None else ["--slots", str(processes)]
            command += ["--name", worker_of(uuid.uuid4().hex[:20], objective)]
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

            worker = _start(command, environment=environment(study._client._local))
            try:
                _run_all([worker], echo=False, until=over)
                follower.look(now=True)
            finally:
                lines.end()
        if paused():
            raise StudyPaused(f"study {study.name} is paused: {study._message.state_reason}")
        return study


def objective(**options: Any) -> Callable[[Callable[[Any], Any]], Tunable]:
    """Decorates a function that trains, with the study's options: space, metric, goal, algorithm, resource, max_trials,
    timeout, memory_limit_mb. Its `tune` runs it here; workers elsewhere run it wherever its module can be imported."""
    if options.get("space") is None:
        raise ValueError("objective() needs space=: the workers of a study get whole settings")
    return lambda fn: Tunable(fn, options)


def optimize_in_processes(
    study: Study, cargo: bytes, n_trials: Optional[int], timeout: Optional[float], processes: int, lines: Progress
) -> None:
    """Runs an objective that is `pickled` in so many Python processes of their own, which end with this one. Raises
    StudyPaused."""
    follower = Follower(study, lines)
    local = study._client._local
    where = ["--server", study._client.target()] if local is None else ["--db", local.directory]
    where += ["--accept-plaintext"] if study._client.accept_plaintext else []
    study._client.target()
    counts = [-1] * processes
    if n_trials is not None:
        counts = [n_trials // processes + (1 if i < n_trials % processes else 0) for i in range(processes)]
    with tempfile.TemporaryDirectory(prefix="luthier-fn-") as folder:
        path = os.path.join(folder, "objective")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(cargo)
        command = [sys.executable, "-m", "luthier.run", "--child", path, *where]
        command += ["--study", f"{study.project}/{study.name}", "--timeout", str(timeout or 0)]
        children: list[subprocess.Popen[bytes]] = []
        relays: list[Relay] = []
        for n in counts:
            if n != 0 and os.name == "posix":
                relays.append(Relay(study._client.beats))
                fd = relays[-1].fileno()
                children.append(_start([*command, "--trials", str(n), "--beats", str(fd)], fd))
                relays[-1].begin()
            elif n != 0:
                children.append(_start([*command, "--trials", str(n)]))

        def let_go() -> bool:
            """Beats no more for processes that have ended, though children of theirs may have the socket."""
            for child, relay in zip(children, relays):
                if child.poll() is not None:
                    relay.close()
            follower.look()
            return False

        try:
            _run_all(children, echo=True, until=let_go)
        finally:
            for relay in relays:
                relay.close()
    follower.look(now=True)
    study._refresh()
    if _wire.enum_names("Study.State")[study._message.state] == "PAUSED":
        study._check_that_it_runs()


def _start(
    command: list[str], *descriptors: int, environment: Optional[dict[str, str]] = None
) -> subprocess.Popen[bytes]:
    """Starts a process that is told to end when this one is killed, and inherits the descriptors. `environment`:
    default this program's."""
    if sys.platform == "linux":
        tied = str(Path(__file__).with_name("_tied.py"))
        command = [sys.executable, "-I", "-S", tied, str(os.getpid()), *command]
    return subprocess.Popen(
        command,
        env=_importing(environment or dict(os.environ)),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
    )


def _importing(environment: dict[str, str]) -> dict[str, str]:
    """Returns an environment with this program's import path for those that it starts."""
    return dict(environment, PYTHONPATH=os.pathsep.join([*(p for p in sys.path if p), os.getcwd()]))


def _run_all(
    children: list[subprocess.Popen[bytes]], *, echo: bool, until: Optional[Callable[[], bool]] = None
) -> None:
    """Waits until all have ended; where one fails, or this is interrupted, ends the others. Raises RuntimeError with
    what the one that failed said last. `echo`: what they say on standard error is also ours. `until` is asked twice a
    second; once it is true all are ended, and none has failed."""
    said = [b""] * len(children)

    def read(i: int) -> None:
        pipe = children[i].stderr
        assert pipe is not None
        for line in pipe:
            said[i] = (said[i] + line)[-4000:]
            if echo:
                sys.stderr.write(line.decode(errors="replace"))

    readers = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(len(children))]
    failed: Optional[int] = None
    try:
        for reader in readers:
            reader.start()
        look = time.monotonic() + 0.5
        while failed is None and any(child.poll() is None for child in children):
            failed = next((i for i, child in enumerate(children) if child.poll()), None)
            if until is not None and time.monotonic() >= look:
                look = time.monotonic() + 0.5
                if until():
                    return
            time.sleep(0.02)
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
        for child in children:
            child.wait()
        for reader in readers:
            reader.join(5)  # Something that it left behind may hold its standard error.
    failed = next((i for i, child in enumerate(children) if child.returncode), None) if failed is None else failed
    if failed is not None:
        code, text = children[failed].returncode, said[failed].decode(errors="replace").strip()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise RuntimeError(f"a process of the objective {how}: {text or 'it said nothing'}")


def pickled(what: tuple[Any, Any, str]) -> bytes:
    """Returns an objective, the exceptions that it may raise and its fingerprint as they travel to other processes.
    RuntimeError where they can't."""
    import pickle

    dumps: Callable[[Any], bytes] = pickle.dumps
    try:
        import cloudpickle

        dumps = cloudpickle.dumps
    except ImportError:
        if getattr(what[0], "__module__", "__main__") == "__main__":
            raise RuntimeError(
                "a function of the main program travels to other processes by cloudpickle: pip install cloudpickle, or "
                "put the function into a module"
            ) from None
    try:
        return dumps(what)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise RuntimeError(
            f"the objective can't travel to other processes: {error}; make what it needs inside of it, or put it into "
            "a module"
        ) from error
