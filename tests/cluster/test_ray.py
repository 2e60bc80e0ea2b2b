"""Workers on a real Ray of several nodes: started, killed, lost with their node, idle and ended. The figures are printed (pytest -s)."""

from __future__ import annotations

import json
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
        nodes.append(cluster.add_node(**dict(zip(("num_cpus", "num_gpus"), map(int, line.split())))))
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
        """Adds a node with so many processors, and GPUs: "4 2", or kills the newest: "lose"."""
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
        for fleet in json.loads(ray.luthier("worker", "status", "--on", "ray", "-o", "json")):  # Of a test that failed.
            if not fleet["over"]:
                ray.run("ray", "job", "stop", fleet["name"])
            ray.run("ray", "job", "delete", fleet["name"])


def up(ray: Ray, team: Team, study: str, workers: int, *flags: str) -> str:
    root = ("--", "--run-as", "0") if os.geteuid() == 0 else ()
    return ray.luthier("worker", "up", "--on", "ray", "-n", str(workers), *(("--study", study) if study else ()), "--server",
                       team.coordinator.address, "--token-file", str(team.token_file), *flags, *root)


def hosts(team: Team) -> dict[int, list[int]]:
    """The fleet's workers by the process that started them."""
    by_host: dict[int, list[int]] = {}
    for pid in team.workers():
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        by_host.setdefault(parent, []).append(pid)
    return by_host


def sizes(team: Team) -> list[int]:
    """How many workers each process of Ray has started."""
    return sorted(len(workers) for workers in hosts(team).values())


def down(ray: Ray, team: Team, *study: str) -> None:
    """Ends the only fleet."""
    there = bool(team.workers())
    said = ray.luthier("worker", "down", "--on", "ray", *study)
    assert " end now, within the --drain-timeout" in said or not there
    waited(lambda: not team.workers(), "the workers' end")
    assert "no workers" in ray.luthier("worker", "status", "--on", "ray")


def test_a_fleet_works_through_a_lost_node_and_a_killed_coordinator(ray: Ray, team: Team) -> None:
    trials = 400
    team.create("demo", trials, 3)
    ray.tell(str(LOST))
    said = up(ray, team, "demo", WORKERS)
    print(f"\nray: all {WORKERS} lease {team.await_running('demo', WORKERS):.1f} s after `up`")

    assert sizes(team) == [LOST, WORKERS - LOST], "one process of Ray on each node"

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
    down(ray, team, "--study", "demo")
    ray.tell("lose")


def test_an_idle_fleet_leaves(ray: Ray, team: Team) -> None:
    up(ray, team, "", 4, "--exit-when-idle", "3")
    waited(lambda: len(team.workers()) == 4, "the fleet")
    gone = waited(lambda: not team.workers(), "the idle fleet's end")
    print(f"\nray: a fleet that may be idle for 3 s is gone after {gone:.1f} s")
    down(ray, team)


def test_down_ends_a_fleet_and_its_trials_go_back(ray: Ray, team: Team) -> None:
    team.create("long", 100, 600)
    up(ray, team, "long", 4, "--drain-timeout", "0", "--stop-grace", "2")
    team.await_running("long", 4)
    down(ray, team, "--study", "long")
    waited(lambda: team.counts("long").pending == 4, "the trials to be given back")


def test_a_killed_worker_and_a_killed_host_are_replaced(ray: Ray, team: Team) -> None:
    team.create("long", 100, 600)
    ray.tell("2")
    up(ray, team, "long", WORKERS - LOST + 2, "--drain-timeout", "0", "--stop-grace", "2")
    waited(lambda: sizes(team) == [2, WORKERS - LOST], "a host on each node")
    small, large = sorted(hosts(team).items(), key=lambda host: len(host[1]))

    os.kill(large[1][0], signal.SIGKILL)
    waited(lambda: large[1][0] not in team.workers() and sizes(team) == [2, WORKERS - LOST], "another worker")
    assert set(hosts(team)) == {small[0], large[0]}, "by the same hosts"

    os.kill(small[0], signal.SIGKILL)
    waited(lambda: not set(small[1]) & set(team.workers()) and sizes(team) == [2, WORKERS - LOST], "another host with as many workers")
    assert large[0] in hosts(team) and small[0] not in hosts(team)
    down(ray, team, "--study", "long")
    ray.tell("lose")


def test_workers_without_room_wait_and_take_what_comes(ray: Ray, team: Team) -> None:
    # Each of them needs three processors of one node: five fit into sixteen, and none into what is left.
    up(ray, team, "", 8, "--slots", "3")
    waited(lambda: sizes(team) == [5], "as many as there is room for")
    waited(lambda: "3 workers wait for a node with room: each needs {'CPU': 3}" in ray.luthier("worker", "logs", "--on", "ray"), "word of the others")
    assert sizes(team) == [5]
    ray.tell("4")
    waited(lambda: sizes(team) == [1, 5], "the one for which the new node has room")
    down(ray, team)
    ray.tell("lose")


def test_who_is_done_leaves_nobody_waiting(ray: Ray, team: Team) -> None:
    up(ray, team, "", WORKERS - LOST + 8, "--exit-when-idle", "1")
    waited(lambda: '"over": true' in ray.luthier("worker", "status", "--on", "ray", "-o", "json"), "the job's end")
    down(ray, team)


def test_a_study_that_is_done_before_its_fleet_is_there_ends_it(ray: Ray, team: Team) -> None:
    team.create("one", 1, 0)
    root = ("--run-as", "0") if os.geteuid() == 0 else ()
    attack.run("luthier-worker", "--server", team.coordinator.address, "--token-file", str(team.token_file), "--study", "one",
               "--exit-when-done", *root)
    up(ray, team, "one", 3)
    waited(lambda: '"over": true' in ray.luthier("worker", "status", "--on", "ray", "-o", "json"), "the job's end")
    down(ray, team, "--study", "one")


def test_each_worker_has_gpus_of_its_own(ray: Ray, team: Team) -> None:
    def visible(pid: int) -> str:
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        return next(value for name, _, value in (v.partition("=") for v in variables) if name == "CUDA_VISIBLE_DEVICES")

    ray.tell("4 4")
    up(ray, team, "", 3, "--gpus", "2")
    waited(lambda: len(team.workers()) == 2, "the two for whom there are GPUs")
    assert sorted(visible(pid) for pid in team.workers()) == ["0,1", "2,3"]
    down(ray, team)
    ray.tell("lose")
