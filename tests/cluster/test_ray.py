"""Workers on a real Ray of one node: started, killed, ended. The figures are printed (pytest -s)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import attack
from fleet import Team, runs, waited

WORKERS = 20


class Ray:
    """The engine: one node on loopback, a process with children that end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.environment = {"PATH": f"{Path(str(shutil.which('ray'))).parent}:{os.environ['PATH']}", "HOME": str(folder),
                            "XDG_STATE_HOME": str(folder / "state"), "RAY_ADDRESS": f"http://127.0.0.1:{port}",
                            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        with (folder / "head.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["ray", "start", "--head", "--block", f"--port={free_port()}", "--node-ip-address=127.0.0.1",
                 "--dashboard-host=127.0.0.1", f"--dashboard-port={port}", f"--num-cpus={WORKERS}", f"--temp-dir={folder}/r",
                 "--object-store-memory=100000000", "--disable-usage-stats"],
                env={name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"}, stdout=log, stderr=log,
                start_new_session=True)

    def stop(self) -> None:
        """Ends the node and its processes."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a program with the variables of a user of this Ray."""
        return runs(list(words), self.environment, (), code)

    def luthier(self, *words: str, code: int = 0) -> str:
        """Runs the command line."""
        return self.run(str(attack.BIN / "luthier"), *words, code=code)

    def up(self) -> bool:
        """Whether jobs can be submitted."""
        return subprocess.run(["ray", "job", "list"], env=self.environment, capture_output=True, timeout=120).returncode == 0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def ray() -> Iterator[Ray]:
    if shutil.which("ray") is None:
        pytest.skip("Ray is not in PATH: pip install 'ray[default]'")
    folder = Path(tempfile.mkdtemp(prefix="lray-"))
    engine = Ray(folder)
    try:
        attack.wait_for(engine.up, "Ray's dashboard", 300)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture()
def team(ray: Ray, tmp_path: Path) -> Iterator[Team]:
    with attack.Coordinator(tmp_path) as coordinator:
        yield Team(tmp_path, coordinator)


def test_a_fleet_works_through_killed_workers_and_a_killed_coordinator(ray: Ray, team: Team) -> None:
    trials = 200
    team.create("demo", trials, 1)
    root = ("--", "--run-as", "0") if os.geteuid() == 0 else ()
    up = ("worker", "up", "--on", "ray", "-n", str(WORKERS), "--study", "demo", "--server", team.coordinator.address, "--token-file",
          str(team.token_file), *root)
    said = ray.luthier(*up)
    print(f"\nray: all {WORKERS} lease {team.await_running('demo', WORKERS):.1f} s after `up`")
    assert "which were there" in ray.luthier(*up)
    team.assert_no_token(said, ray.luthier("worker", "logs", "--on", "ray", "--study", "demo"), ray.run("ray", "job", "list"))
    team.kill_workers(4)
    waited(lambda: len(team.workers()) <= WORKERS - 4, "their end")
    back = waited(lambda: len(team.workers()) >= WORKERS, "the killed ones' places")
    print(f"ray: {WORKERS} workers run {back:.1f} s after 4 were killed")
    team.coordinator.kill()
    team.coordinator.listen = team.coordinator.address
    team.coordinator.start()
    team.await_end("demo")
    print("ray: attempts ended so:", team.assert_each_once("demo", trials))
    gone = waited(lambda: not team.workers(), "the fleet's end")
    print(f"ray: no worker is left {gone:.1f} s after the study's end")
    waited(lambda: '"over": true' in ray.luthier("worker", "status", "--on", "ray", "-o", "json"), "the job's end")


def test_down_ends_a_fleet_and_its_trials_go_back(ray: Ray, team: Team) -> None:
    team.create("long", 100, 600)
    root = ("--run-as", "0") if os.geteuid() == 0 else ()
    ray.luthier("worker", "up", "--on", "ray", "-n", "4", "--study", "long", "--server", team.coordinator.address, "--token-file",
                str(team.token_file), "--drain-timeout", "0", "--stop-grace", "2", "--", *root)
    team.await_running("long", 4)
    ray.luthier("worker", "down", "--on", "ray", "--study", "long")
    waited(lambda: not team.workers(), "the workers' end")
    waited(lambda: team.counts("long").pending == 4, "the trials to be given back")
    assert "no workers" in ray.luthier("worker", "status", "--on", "ray")
