"""Workers on a real Ray of several nodes: started, killed, lost with their node, idle and ended. The figures are printed (pytest -s)."""

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
LOST = 4  # Workers of the node that is lost.


# Starts and kills nodes, as it is told: a node is a process of Ray with all that it started.
NODES = """
import sys
from ray.cluster_utils import Cluster

cpus, port = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": int(cpus), "include_dashboard": True, "dashboard_host": "127.0.0.1",
                                                        "dashboard_port": int(port)})
print("done", flush=True)
nodes = []
for line in sys.stdin:
    if line == "lose\\n":
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    else:
        nodes.append(cluster.add_node(num_cpus=int(line)))
    print("done", flush=True)
cluster.shutdown()
"""


class Ray:
    """The engine: nodes on loopback, kept by a process of ours, with which they end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port, programs = free_port(), Path(str(shutil.which("ray"))).parent
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder),
                            "XDG_STATE_HOME": str(folder / "state"), "RAY_ADDRESS": f"http://127.0.0.1:{port}",
                            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
        (folder / "ray").mkdir()
        self.nodes = subprocess.Popen(
            [str(programs / "python3"), "-c", NODES, str(WORKERS - LOST), str(port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"})
        self._await_done()

    def tell(self, word: str) -> None:
        """Adds a node with so many processors, or kills the newest: "lose"."""
        self.nodes.stdin.write(f"{word}\n")
        self.nodes.stdin.flush()
        self._await_done()

    def _await_done(self) -> None:
        while (line := self.nodes.stdout.readline()) != "done\n":
            assert line, "Ray's nodes have ended"

    def stop(self) -> None:
        """Ends the nodes and their processes."""
        self.nodes.stdin.close()
        try:
            self.nodes.wait(60)
        finally:
            if self.nodes.poll() is None:
                os.killpg(self.nodes.pid, signal.SIGKILL)

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a program with the variables of a user of this Ray."""
        return runs(list(words), self.environment, (), code)

    def luthier(self, *words: str, code: int = 0) -> str:
        """Runs the command line."""
        return self.run(str(attack.BIN / "luthier"), *words, code=code)

    def takes_jobs(self) -> bool:
        """True if a job runs to its end: nodes answer before they take jobs."""
        return subprocess.run(["ray", "job", "submit", "--", "true"], env=self.environment, capture_output=True, timeout=120).returncode == 0


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
        attack.wait_for(engine.takes_jobs, "Ray to take jobs", 300)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture()
def team(ray: Ray, tmp_path: Path) -> Iterator[Team]:
    with attack.Coordinator(tmp_path) as coordinator:
        yield Team(tmp_path, coordinator)


def up(ray: Ray, team: Team, study: str, workers: int, *flags: str) -> str:
    root = ("--", "--run-as", "0") if os.geteuid() == 0 else ()
    return ray.luthier("worker", "up", "--on", "ray", "-n", str(workers), *(("--study", study) if study else ()), "--server",
                       team.coordinator.address, "--token-file", str(team.token_file), *flags, *root)


def test_a_fleet_works_through_a_lost_node_and_a_killed_coordinator(ray: Ray, team: Team) -> None:
    trials = 400
    team.create("demo", trials, 3)
    ray.tell(str(LOST))
    said = up(ray, team, "demo", WORKERS)
    print(f"\nray: all {WORKERS} lease {team.await_running('demo', WORKERS):.1f} s after `up`")

    # A node with a fifth of the workers is lost, and there is another one after a while.
    ray.tell("lose")
    waited(lambda: len(team.workers()) <= WORKERS - LOST, "the end of the node's workers")
    ray.tell(str(LOST))
    back = waited(lambda: len(team.workers()) >= WORKERS, "the lost ones' places")
    print(f"ray: {WORKERS} workers run {back:.1f} s after there is another node")

    team.coordinator.kill()
    team.coordinator.listen = team.coordinator.address
    team.coordinator.start()
    before = team.counts("demo")
    again = waited(lambda: team.counts("demo").complete >= before.complete + WORKERS // 2, "half of the fleet")
    print(f"ray: half of the fleet has completed a trial {again:.1f} s after the coordinator's restart")
    assert "which were there" in up(ray, team, "demo", WORKERS)
    team.assert_no_token(said, ray.luthier("worker", "logs", "--on", "ray", "--study", "demo"), ray.run("ray", "job", "list"))
    team.await_end("demo")
    print("ray: attempts ended so:", team.assert_each_once("demo", trials))
    gone = waited(lambda: not team.workers(), "the fleet's end")
    print(f"ray: no worker is left {gone:.1f} s after the study's end")
    waited(lambda: '"over": true' in ray.luthier("worker", "status", "--on", "ray", "-o", "json"), "the job's end")


def test_an_idle_fleet_leaves(ray: Ray, team: Team) -> None:
    up(ray, team, "", 4, "--exit-when-idle", "3")
    waited(lambda: len(team.workers()) == 4, "the fleet")
    gone = waited(lambda: not team.workers(), "the idle fleet's end")
    print(f"\nray: a fleet that may be idle for 3 s is gone after {gone:.1f} s")


def test_down_ends_a_fleet_and_its_trials_go_back(ray: Ray, team: Team) -> None:
    team.create("long", 100, 600)
    up(ray, team, "long", 4, "--drain-timeout", "0", "--stop-grace", "2")
    team.await_running("long", 4)
    ray.luthier("worker", "down", "--on", "ray", "--study", "long")
    waited(lambda: not team.workers(), "the workers' end")
    waited(lambda: team.counts("long").pending == 4, "the trials to be given back")
    assert "no workers" in ray.luthier("worker", "status", "--on", "ray")
