"""Workers, studies whose trials run a command, and the processes that those leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attack import BIN, run, wait_for

IS_ROOT = os.geteuid() == 0
# Of the user of tests: what the tests rely on, and nothing more.
PLAIN = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent"}


class Study:
    """A study at the socket of a data directory, whose trials run a Python program. Its processes, and whatever descends
    from them, have a variable that tells them from all others."""

    def __init__(self, folder: Path, script: str, trials: int = 1, name: str = "s", **objective: Any) -> None:
        self.folder, self.name, self.mark = folder, name, f"{uuid.uuid4()}"
        (folder / f"{name}.py").write_text(script)
        environment = {"ATTACK_MARK": self.mark, **objective.pop("environment", {})}
        self.file = folder / f"{name}.yaml"
        self.file.write_text(json.dumps({
            "space": [{"name": "x", "float": {"min": 0, "max": 1}}],
            "metric": {"name": "loss", "goal": "MINIMIZE"},
            "objective": {"command": {"argv": [sys.executable, "-S", str(folder / f"{name}.py")],
                                      "environment": environment, **objective}},
            "budget": {"max_trials": trials}}))
        folder.chmod(0o755)
        self.server = ""

    def create(self, server: str) -> Study:
        """Creates it at a coordinator."""
        self.server = server
        run("luthier", "study", "create", "-f", self.file, "--server", server)
        return self

    def get(self) -> Any:
        """The study as JSON."""
        return json.loads(run("luthier", "study", "get", self.name, "-o", "json", "--server", self.server).stdout)

    def trial(self, number: int = 1) -> Any:
        """A trial as JSON."""
        return json.loads(run("luthier", "trial", "get", self.name, number, "-o", "json", "--server",
                              self.server).stdout)

    def await_state(self, *states: str) -> Any:
        """The first trial, once it is in one of the states."""
        def look() -> Any:
            trial = self.trial() if self.get()["trials"] else {}
            return trial if trial.get("state") in states else None

        return wait_for(look, f"a trial that is {states}")

    def processes(self) -> dict[int, str]:
        """Process ids and names of what carries the mark and is no zombie."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                marked = self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if marked and state not in "ZX":
                    found[int(pid)] = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
        return found

    def end_processes(self) -> None:
        """Takes down what a test that fails has left."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def worker_command(server: str, folder: Path, *flags: Any) -> list[str]:
    """The command line of a worker that keeps everything in `folder`."""
    command = [str(BIN / "luthier-worker"), "--server", server, "--spool", str(folder / "worker/spool"), "--data-root",
               str(folder), *map(str, flags)]
    return command + (["--run-as", "root"] if IS_ROOT and "--run-as" not in command else [])


def start_worker(server: str, folder: Path, *flags: Any, environment: Mapping[str, str] = PLAIN,
                 **options: Any) -> subprocess.Popen[bytes]:
    """Starts a worker with the given environment alone; its log is `folder`/worker.log."""
    with open(folder / "worker.log", "ab") as log:
        return subprocess.Popen(worker_command(server, folder, *flags), env=dict(environment), stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log, cwd=folder, **options)


def children(pid: int) -> dict[int, str]:
    """Direct children and their names."""
    found = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[int(other)] = Path(f"/proc/{other}/comm").read_text().strip()
        except OSError:
            continue
    return found


def keeper_of(worker: int) -> int:
    """The process id of a worker's keeper."""
    return next(pid for pid, name in children(worker).items() if name == "luthier-keeper")


def supervisor_of(worker: int) -> int:
    """The process id of the supervisor of a worker's only run."""
    return next(pid for pid, name in children(keeper_of(worker)).items() if name == "luthier-run")
