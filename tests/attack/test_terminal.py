"""A command reaches no terminal: not that of whoever started the worker, by no descriptor, and it gains no rights."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack import BIN, Coordinator, wait_for
from workers import IS_ROOT, PLAIN, Study, worker_command

# Types into whatever it can open, and tells what it found.
TYPES = r"""
import ctypes, errno, fcntl, json, os, sys, termios
typed, terminals = 0, 0
def attack(fd):
    global typed
    for byte in b"touch injected\n":
        fcntl.ioctl(fd, termios.TIOCSTI, bytes([byte]))
        typed += 1
try:
    os.open("/dev/tty", os.O_RDWR)
    no_terminal = 0
except OSError as error:
    no_terminal = int(error.errno == errno.ENXIO)
for fd in list(range(1024)):
    try:
        terminals += os.isatty(fd)
        attack(fd)
    except OSError:
        pass
for path in [os.environ["TERMINAL"], "/dev/console", "/dev/tty0", "/dev/tty1"]:
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDONLY):
        try:
            attack(os.open(path, flags | os.O_NONBLOCK))
        except OSError:
            pass
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"loss": 0, "typed": typed, "terminals": terminals, "no_terminal": no_terminal,
                  "own_session": int(os.getsid(0) == os.getpid()), "no_new_rights": int(status["NoNewPrivs"]),
                  "session": os.getsid(0)}))
"""
WAITS = r"""
import json, os, signal, sys, time
def end(*_):
    open("told", "w").write("SIGTERM")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open("ready", "w").write(str(os.getpid()))
time.sleep(900)
"""


class Terminal:
    """A terminal, of which we hold both ends, and a process that it controls."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.name = os.ttyname(self.slave)
        self.said = b""
        self.pid = -1

    def start(self, command: list[str], folder: Path) -> None:
        """Starts the process, in the foreground."""
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2, 9):  # 9: as careless programs leave one open.
                os.dup2(self.slave, fd, inheritable=True)
            os.chdir(folder)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Whoever runs the tests may ignore it, as nohup does.
            os.execve(command[0], command, PLAIN)

    def wait(self, seconds: float = 60) -> int:
        """Its exit code; reads what it says meanwhile."""
        end = time.monotonic() + seconds
        while True:
            if select.select([self.master], [], [], 0.05)[0]:
                self.said += os.read(self.master, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = -1
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, self.said.decode(errors="replace")

    def waiting_input(self) -> int:
        """Bytes of whole lines that somebody typed and nobody read."""
        return int(struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0])

    def close(self) -> None:
        """Hangs up, and ends the process where a test has failed."""
        if self.pid > 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture()
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture()
def folder() -> Iterator[Path]:
    """A folder that any user may enter and write to, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="luthier-attack-") as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.fixture()
def server(tmp_path: Path) -> Iterator[str]:
    with Coordinator(tmp_path) as made:
        yield made.own_socket


def expect_nothing_reached(metrics: dict[str, float], terminal: Terminal) -> None:
    assert metrics["typed"] == 0, "characters were typed into a terminal"
    assert metrics["terminals"] == 0, "a descriptor of a terminal was inherited"
    assert metrics["no_terminal"] == 1, "/dev/tty could be opened, or failed otherwise than with ENXIO"
    assert metrics["own_session"] == 1
    assert metrics["no_new_rights"] == 1
    assert b"injected" not in terminal.said
    assert terminal.waiting_input() == 0


def test_a_command_types_nothing_into_the_terminal_of_the_worker(server: str, folder: Path,
                                                                  terminal: Terminal) -> None:
    # Root's own commands may do what they like to root's terminal, so root runs them as another.
    user = ["--run-as", "nobody"] if IS_ROOT else []
    study = Study(folder, TYPES, environment={"TERMINAL": terminal.name}).create(server)
    terminal.start(worker_command(server, folder, "--study", "s", "--exit-when-done", *user), folder)
    assert terminal.wait() == 0, terminal.said
    trial = study.await_state("COMPLETE")
    expect_nothing_reached(trial["metrics"], terminal)


@pytest.mark.skipif(IS_ROOT, reason="what root runs for itself may open every terminal")
def test_nor_into_that_of_luthier_run(folder: Path, terminal: Terminal) -> None:
    study = Study(folder, TYPES, environment={"TERMINAL": terminal.name})
    terminal.start([str(BIN / "luthier"), "run", str(study.file), "--workers", "1", "-o", "json"], folder)
    assert terminal.wait() == 0, terminal.said
    said = terminal.said.decode()
    result = json.loads(said[said.index("{"):])
    expect_nothing_reached(result["best_trial"]["metrics"], terminal)


def test_ctrl_c_ends_the_run_orderly_though_it_is_in_another_session(server: str, folder: Path,
                                                                     terminal: Terminal) -> None:
    study = Study(folder, WAITS).create(server)
    terminal.start(worker_command(server, folder, "--drain-timeout", "0"), folder)
    wait_for(lambda: (folder / "ready").exists(), "the program")
    os.write(terminal.master, b"\x03")
    assert terminal.wait() == 0, terminal.said
    assert (folder / "told").read_text() == "SIGTERM"
    assert not study.processes()
    trial = study.trial()
    assert trial["state"] not in ("RUNNING", "FAILED"), "it was given back"


def test_a_terminal_that_hangs_up_takes_worker_and_run_with_it(server: str, folder: Path) -> None:
    study = Study(folder, WAITS).create(server)
    terminal = Terminal()
    terminal.start(worker_command(server, folder), folder)
    wait_for(lambda: (folder / "ready").exists(), "the program")
    worker = terminal.pid
    terminal.pid = -1
    terminal.close()
    os.waitpid(worker, 0)
    end = time.monotonic() + 2
    while study.processes():
        assert time.monotonic() < end, study.processes()
        time.sleep(0.02)
