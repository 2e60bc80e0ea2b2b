"""Which coordinator to talk to: that of a data directory, joined where one serves it, else started as a child."""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Optional

from luthier._ownership import trouble
from luthier._retry import Budget
from luthier._security import Metadata, addresses, check_plaintext, metadata
from luthier.errors import LuthierError, Unavailable

_DEFAULT = "luthier.db.d"
_PATH_LIMIT = 100  # Bytes of a socket's path.
_START_SECONDS = 30.0
_LEVEL = "LUTHIER_PROCESSOR"  # The variable by which the wheel's programs are chosen.
_IN_USE = "is in use"  # Words of a coordinator whose directory another one is starting on.
_KILLED = "it was killed before it served"  # Another program did so: it is started again.


def default_directory() -> str:
    """Returns the directory that is meant where none is named. Raises Unavailable where another user could answer in
    its place."""
    why = trouble(_DEFAULT)
    if why is None:
        return _DEFAULT
    raise Unavailable(
        f"neither server= nor db= is given, and the database of this folder is not taken unasked: {why}; write "
        f"db={_DEFAULT!r} (LUTHIER_DB) if it is to be this one, else name another"
    )


def environment(local: Optional[LocalServer]) -> dict[str, str]:
    """Returns this program's environment for one that it starts; without the tokens and certificates for other
    coordinators where that one calls a directory's, which needs none."""
    others = ("LUTHIER_TOKEN", "LUTHIER_TLS_", "LUTHIER_ACCEPT_PLAINTEXT") if local is not None else ()
    return {key: value for key, value in os.environ.items() if not key.startswith(others)}


def program(name: str) -> str:
    """Returns the path of `luthierd`, `luthier-worker` or `luthier`: from $LUTHIER_BIN_DIR, this package, or $PATH."""
    for place in (os.environ.get("LUTHIER_BIN_DIR"), str(Path(__file__).with_name("_bin"))):
        if place and os.access(os.path.join(place, name), os.X_OK):
            return os.path.join(place, name)
    # The console script of this package is not the program itself: it would look for it here again.
    for place in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        path = os.path.join(place, name)
        if os.path.isfile(path) and os.access(path, os.X_OK) and not _is_script(path):
            return path
    raise Unavailable(
        f"{name} is not installed: this package carries the programs on Linux x86-64 and aarch64 only. Install them and set "
        "LUTHIER_BIN_DIR or PATH, or name a coordinator with server= or LUTHIER_SERVER"
    )


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


class Place:
    """Where a coordinator is, and what calls to it carry: of a server, or of a data directory."""

    orphaned: bool = False  # True in a fork of a process with channels, if gRPC does not support forks.

    def __init__(self, server: Optional[str], local: Optional[LocalServer], accept_plaintext: bool = False) -> None:
        self.server: Optional[str] = server
        self.local: Optional[LocalServer] = local
        self.accept_plaintext: bool = accept_plaintext  # For processes that are to have the same connection.
        self.metadata: Metadata = metadata() if local is None else ()
        if server is not None:
            check_plaintext(server, self.metadata, accept_plaintext)
        self.budget: Budget = Budget()
        self._addresses: list[str] = [] if server is None else addresses(server)
        self._turn = 0  # Index of the address that answered last.
        self._turns = threading.Lock()

    @property
    def several(self) -> bool:
        """True if the coordinator has several addresses, of which the one that answered last is used."""
        return len(self._addresses) > 1

    @property
    def count(self) -> int:
        """Number of addresses."""
        return len(self._addresses)

    def address(self) -> str:
        """Returns the address to connect to; as `target`, but for one of several."""
        return self._addresses[self._turn] if self.several else self.target()

    def pass_on(self, failed: str) -> None:
        """Notes that an address does not answer: it is the next one's turn, where nobody has noted that before."""
        with self._turns:
            if self.several and self._addresses[self._turn] == failed:
                self._turn = (self._turn + 1) % len(self._addresses)

    @property
    def has_token(self) -> bool:
        """True if calls carry a token, which may be for another project than the default one."""
        return bool(self.metadata)

    def target(self) -> str:
        """Returns the coordinator's address, or all of several; one of our own is started where nobody serves its
        directory."""
        if self.local is not None:
            return self.local.target()
        assert self.server is not None
        return self.server

    def check_process(self) -> None:
        """Raises Unavailable in a forked process whose calls would wait for ever."""
        if self.orphaned:
            raise Unavailable(
                "this process was forked from one that had a connection, and gRPC does not serve it: start it by "
                '`optimize(processes=...)` or multiprocessing\'s "spawn", with Python 3.10 or newer, or with '
                "GRPC_ENABLE_FORK_SUPPORT=1"
            )


def elsewhere(failure: LuthierError) -> bool:
    """Tells if another address may do better: nobody answered, or a coordinator that begins or ends did."""
    return failure.code == "UNAVAILABLE" and failure.reason in ("", "DRAINING", "STARTING")


class Tried:
    """The addresses that one call has tried, each once before it waits."""

    def __init__(self, place: Place) -> None:
        self._count = place.count
        self._errors: list[str] = []

    def another(self, address: str, failure: LuthierError) -> bool:
        """Notes a failure; tells if there is an address that was not tried yet."""
        self._errors.append(f"{address}: {failure}")
        return len(self._errors) < self._count

    def failure(self, failure: LuthierError) -> LuthierError:
        """Returns the error of all addresses, and begins anew. What a coordinator said stays as it is."""
        errors, self._errors = self._errors, []
        if failure.reason:
            return failure
        said = f"no coordinator answers at any of {len(errors)} addresses: " + "; ".join(errors)
        return Unavailable(said, reason="", code=failure.code)


class LocalServer:
    """The coordinator of a data directory. It ends with this process if this process started it."""

    def __init__(self, directory: str) -> None:
        self.directory: str = os.path.abspath(directory)
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._short: Optional[str] = None  # A short way to the directory.

    def target(self) -> str:
        """Returns the address of a coordinator that answers, and starts one where there is none. Raises Unavailable."""
        with self._lock:
            deadline = time.monotonic() + _START_SECONDS
            while True:
                if _answers(self._socket()):
                    return "unix:" + self._socket()
                said = self._start(deadline)
                if said is None:
                    return "unix:" + self._socket()
                if not (_IN_USE in said or said == _KILLED) or time.monotonic() > deadline:
                    raise Unavailable(f"no coordinator starts on {self.directory}: {said}")
                time.sleep(0.05)

    def gone(self) -> bool:
        """Whether this process has a coordinator whose directory was removed: what it stores, nobody will find."""
        return self._process is not None and not os.path.exists(os.path.join(self.directory, "socket"))

    def _socket(self) -> str:
        path = os.path.join(self.directory, "socket")
        if len(os.fsencode(path)) <= _PATH_LIMIT:
            return path
        if self._short is None:
            self._short = tempfile.mkdtemp(prefix="luthier-")
            atexit.register(_remove, self._short, os.getpid())
            os.symlink(self.directory, os.path.join(self._short, "d"))
        return os.path.join(self._short, "d", "socket")

    def _start(self, deadline: float) -> Optional[str]:
        """Starts a coordinator and waits until it serves; returns what it said where it does not."""
        path = os.path.join(self.directory, "luthierd.log")
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            log = open(path, "ab")
        except OSError as error:
            raise Unavailable(
                f"no data can be kept in {self.directory}: {error.strerror}; name another directory (db=, LUTHIER_DB) "
                "or a server (server=, LUTHIER_SERVER)"
            ) from error
        with log:
            begin = log.tell()
            process = subprocess.Popen(
                [program("luthierd"), "--listen", "unix:" + self._socket(), "--data-dir", self.directory]
                + ["--exit-with-stdin", "--log-level", "warning"],
                stdin=subprocess.PIPE,  # It ends when this end is closed, by us or by our death.
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the program, not for its coordinator.
                env={key: value for key, value in os.environ.items() if key == _LEVEL or not key.startswith("LUTHIER_")},
            )
        if _says_serving(process, deadline):
            self._process = process
            return None
        timely = time.monotonic() < deadline  # Then it ended by itself, or was killed.
        process.kill()
        killed = process.wait() == -signal.SIGKILL and timely
        with open(path, "rb") as log_of_it:
            log_of_it.seek(begin)
            said = log_of_it.read().decode(errors="replace").strip()[-2000:]
        return said or (_KILLED if killed else "it says nothing")

    def close(self) -> None:
        """Stops the coordinator, if it is our own."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def after_fork(self) -> None:
        """In a forked child: lets go of the parent's coordinator, which would else live as long as the child."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0  # It is no child of this process: nothing waits for it.


def _says_serving(process: subprocess.Popen[bytes], deadline: float) -> bool:
    assert process.stdout is not None
    said = b""
    while b"serving" not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        some = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not some:
            return False
        said += some
    return True


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        try:
            s.connect(path)
        except OSError:
            return False
        return True
