"""What the tests with real engines share: a coordinator with a study of many short trials, and what became of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

import attack

STUDY = """
space: [{name: x, float: {min: 0, max: 1}}]
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: %d}
lease: {ttl: 10s}
objective: {command: {argv: [sh, -c, 'sleep %s; echo "{{\\"loss\\": {x}}}"']}}
"""


class Team:
    """A coordinator that asks for tokens, and a worker's token in a file that `user` alone may read."""

    def __init__(self, folder: Path, coordinator: attack.Coordinator, user: int | None = None) -> None:
        self.folder, self.coordinator = folder, coordinator
        self.token = coordinator.make_token("fleet", "worker")
        self.token_file = folder / "worker.token"
        self.token_file.write_text(self.token + "\n")
        self.token_file.chmod(0o600)
        if user is not None:
            os.chown(self.token_file, user, -1)
        self.caller = attack.Caller(coordinator.own_socket)

    def create(self, name: str, trials: int, seconds: float) -> None:
        """Makes a study of commands that sleep."""
        file = self.folder / f"{name}.yaml"
        file.write_text(STUDY % (trials, seconds))
        attack.run("luthier", "study", "create", "--file", str(file), "--server", self.coordinator.own_socket)

    def counts(self, name: str) -> Any:
        """How many trials of the study are in each state."""
        return self._study(name).trials

    def _study(self, name: str) -> Any:
        end = time.monotonic() + 60
        while True:  # The coordinator may just have been killed.
            try:
                return self.caller.call("StudyService/GetStudy", name=attack.name_of(name))
            except grpc.RpcError:
                assert time.monotonic() < end
                time.sleep(0.02)

    def await_running(self, name: str, workers: int, seconds: float = 120.0) -> float:
        """Waits until so many trials run at once; returns the seconds that it took."""
        return waited(lambda: self.counts(name).running >= workers, f"{workers} trials at once", seconds)

    def await_end(self, name: str, seconds: float = 300.0) -> None:
        """Waits until the study is complete."""
        completed = 5  # Study.COMPLETED
        attack.wait_for(lambda: self._study(name).state == completed, f"the end of {name}", seconds)

    def assert_each_once(self, name: str, trials: int) -> dict[str, int]:
        """No trial was lost, and none was completed twice. Returns how attempts ended."""
        from luthier.v1 import trial_pb2

        rows = self.caller.trials(name)
        assert len(rows) == trials
        outcomes: dict[str, int] = {}
        for row in rows:
            assert row.state == trial_pb2.Trial.COMPLETE, row
            ended = [trial_pb2.Attempt.Outcome.Name(attempt.outcome) for attempt in row.attempts]
            assert ended.count("COMPLETE") == 1 and ended[-1] == "COMPLETE", ended
            for outcome in ended:
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
        return outcomes

    def workers(self) -> list[int]:
        """The processes of its workers."""
        return [pid for pid, line in command_lines().items()
                if line.split(" ")[0].endswith("luthier-worker") and f" {self.coordinator.address} " in line]

    def kill_workers(self, count: int) -> None:
        """Ends so many of its workers by SIGKILL."""
        for pid in self.workers()[:count]:
            os.kill(pid, signal.SIGKILL)

    def assert_no_token(self, *texts: str) -> None:
        """The token is in none of the texts, and on no process's command line."""
        for text in (*texts, *command_lines().values()):
            assert self.token not in text


def waited(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> float:
    """Waits for the condition; returns the seconds that it took."""
    began = time.monotonic()
    attack.wait_for(condition, what, seconds)
    return time.monotonic() - began


def command_lines() -> dict[int, str]:
    """The command lines of all processes of this machine."""
    lines = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                lines[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    return lines


def runs(words: list[str], environment: dict[str, str], prefix: tuple[str, ...] = (), code: int = 0,
         seconds: float = 180.0) -> str:
    """Runs a program to its end; returns what it printed."""
    result = subprocess.run([*prefix, *words], capture_output=True, text=True, env=environment, timeout=seconds, cwd="/")
    assert result.returncode == code, f"{words} ended with {result.returncode}:\n{result.stdout}{result.stderr}"
    return result.stdout + result.stderr
