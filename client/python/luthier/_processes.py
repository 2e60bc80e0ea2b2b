"""Processes that run an objective beside this one: they end with it, and it sends their heartbeats.

An objective that keeps the interpreter's lock starves every thread of its process, the one of heartbeats, too. The
parent only waits, so its thread runs. A process tells its leases in lines of JSON on a socket, and hears there what the
service wants of them. When it dies, the parent lets its leases go.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from luthier import _wire
from luthier._client import Client, Heartbeats
from luthier._progress import Follower, Progress

if TYPE_CHECKING:
    from luthier.study import Study


def optimize_in_processes(
    study: Study, cargo: bytes, n_trials: Optional[int], timeout: Optional[float], processes: int, lines: Progress
) -> None:
    """Runs an objective that is `pickled` in so many Python processes of their own, which end with this one. Raises
    StudyPaused."""
    follower = Follower(study, lines)
    local = study._client.local
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
                children.append(start([*command, "--trials", str(n), "--beats", str(fd)], fd))
                relays[-1].begin()
            elif n != 0:
                children.append(start([*command, "--trials", str(n)]))

        def let_go() -> bool:
            """Beats no more for processes that have ended, though children of theirs may have the socket."""
            for child, relay in zip(children, relays):
                if child.poll() is not None:
                    relay.close()
            follower.look()
            return False

        try:
            run_all(children, echo=True, until=let_go)
        finally:
            for relay in relays:
                relay.close()
    follower.look(now=True)
    study._refresh()
    if _wire.enum_names("Study.State")[study._message.state] == "PAUSED":
        study._check_that_it_runs()


def start(
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


def run_all(
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


# --- Heartbeats ---


class Told(Heartbeats):
    """Stands for the heartbeats of a process whose parent sends them; `fd` is the socket to the parent."""

    def __init__(self, client: Client, fd: int) -> None:
        super().__init__(client)
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._hearers: dict[str, Callable[[str], None]] = {}
        threading.Thread(target=self._hear, name="luthier-directives", daemon=True).start()

    def add(self, worker: str, token: bytes, ttl: float, tell: Callable[[str], None]) -> None:
        """Has a lease kept until `remove`; `tell` hears every directive but CONTINUE."""
        with self._lock:
            self._hearers[token.hex()] = tell
            self._say({"add": token.hex(), "worker": worker, "ttl": ttl})

    def remove(self, token: bytes) -> None:
        """Lets a lease go."""
        with self._lock:
            if self._hearers.pop(token.hex(), None) is not None:
                self._say({"remove": token.hex()})

    def _say(self, what: dict[str, Any]) -> None:
        try:
            self._socket.sendall((json.dumps(what) + "\n").encode())
        except OSError:
            pass  # The parent is gone, and this process is being ended.

    def _hear(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                said = json.loads(line)
                with self._lock:
                    tell = self._hearers.get(said["token"])
                if tell is not None:
                    tell(said["directive"])


class Relay:
    """The parent's end for one process: what it holds is kept alive by `beats`. `fileno` is for the process."""

    def __init__(self, beats: Heartbeats) -> None:
        self._beats = beats
        self._ours, self._theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._held: set[bytes] = set()
        self._closed = False

    def fileno(self) -> int:
        """The descriptor that the process inherits."""
        return self._theirs.fileno()

    def begin(self) -> None:
        """Listens, once the process has its end."""
        self._theirs.close()
        threading.Thread(target=self._listen, name="luthier-relay", daemon=True).start()

    def _listen(self) -> None:
        try:
            with self._ours.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except (OSError, ValueError):
            pass  # It was killed in the middle of a line, or this end is closed.
        self.close()

    def _take(self, said: dict[str, Any]) -> None:
        with self._lock:
            if "remove" in said:
                token = bytes.fromhex(said["remove"])
                self._held.discard(token)
                self._beats.remove(token)
            elif not self._closed:
                token = bytes.fromhex(said["add"])
                self._held.add(token)
                self._beats.add(said["worker"], token, said["ttl"], lambda directive: self._tell(token, directive))

    def _tell(self, token: bytes, directive: str) -> None:
        if directive != "CONTINUE":
            try:
                line = json.dumps({"token": token.hex(), "directive": directive}) + "\n"
                self._ours.send(line.encode(), socket.MSG_DONTWAIT)
            except OSError:
                pass  # It has ended, or has heard enough: the next beat says it again.

    def close(self) -> None:
        """Lets go what the process held; it has ended."""
        with self._lock:
            self._closed = True
            held, self._held = self._held, set()
        for token in held:
            self._beats.remove(token)
        try:
            self._ours.shutdown(socket.SHUT_RDWR)  # Ends `_listen`, also where a child of the process has its end.
        except OSError:
            pass
