"""Workers on a real Kubernetes of one node: started, preempted, drained, killed, idle and ended, and each command of the
guide. The figures are printed (pytest -s). Images are of this machine's programs (tools/cluster/kubernetes/image.py)."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attack
from fleet import Team, runs, waited

TOOL = attack.ROOT / "tools/cluster/kubernetes.sh"
GATEWAY = "198.18.140.1"
OURS = "app.kubernetes.io/managed-by=luthier"
WORKERS = 20
CPUS = WORKERS + 4
IMAGE = "docker.io/test/luthier-worker:1"
GUIDE = attack.ROOT / "docs/guide/kubernetes.md"
SHELL = ("/bin/sh", "/usr/bin/sleep", "/usr/bin/cat", "/usr/bin/cp", "/usr/bin/mv", "/usr/bin/cut", "/usr/bin/grep", "/usr/bin/find")


def worker_image() -> list[str]:
    """What deploy/worker.Dockerfile makes, as far as a worker needs it, in words of image.py."""
    home = "/var/lib/luthier-worker"
    return ["--user", "10001", "--folders", home, "srv/luthier", "--environment", f"HOME={home}", f"XDG_STATE_HOME={home}", "--files",
            *SHELL, f"{attack.BIN}/luthier-worker=/usr/local/bin/luthier-worker",
            "--entrypoint", "luthier-worker", "--data-root", "/srv/luthier"]


def server_image() -> list[str]:
    """The same of deploy/server.Dockerfile."""
    programs = "/usr/local/bin/programs/luthier-programs"
    return ["--user", "10001", "--folders", "data", "--environment", "LUTHIER_DATA=/data", "LUTHIER_LISTEN=0.0.0.0:7790",
            "LUTHIER_SERVER=unix:/data/socket", "--files", *SHELL, f"{attack.BIN}/luthier-programs={programs}",
            f"{attack.ROOT}/deploy/serve.sh=/usr/local/share/luthier/serve.sh",
            "--links", f"usr/local/bin/luthierd={programs}", f"usr/local/bin/luthier={programs}", "--entrypoint", "luthierd"]


class Socket(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


class Kubernetes:
    """The engine, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        self.prefix = (str(TOOL), "run", str(folder / "k8s"))

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a program on the cluster's network."""
        return runs(list(words), self.environment, self.prefix, code)

    def luthier(self, *words: str, code: int = 0) -> str:
        """Runs the command line there."""
        return self.run(str(attack.BIN / "luthier"), *words, code=code)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Runs kubectl, with `given` as its standard input."""
        result = subprocess.run([*self.prefix, "kubectl", *words], capture_output=True, text=True, env=self.environment, input=given,
                                timeout=120)
        assert result.returncode == 0, f"kubectl {words}: {result.stdout}{result.stderr}"
        return result.stdout

    def listed(self, what: str, selector: str = OURS) -> list[Any]:
        """What the API server lists: "api/v1", "pods". Through a proxy, as a kubectl for each look would take the machine."""
        group, _, kind = what.rpartition("/")
        time.sleep(0.1)
        connection = Socket(self.folder / "proxy.sock")
        connection.request("GET", f"/{group}/namespaces/default/{kind}?labelSelector={urllib.parse.quote(selector)}")
        items: list[Any] = json.loads(connection.getresponse().read())["items"]
        connection.close()
        return items

    def pods(self, selector: str = OURS) -> list[Any]:
        """The pods of fleets."""
        return self.listed("api/v1/pods", selector)

    def running(self) -> list[str]:
        """The names of the fleets' pods that run and are not on their way out."""
        return [pod["metadata"]["name"] for pod in self.pods()
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def left(self) -> list[str]:
        """What is left of fleets in the cluster."""
        return [found["metadata"]["name"] for what in ("api/v1/pods", "apis/batch/v1/jobs", "api/v1/secrets") for found in self.listed(what)]

    def job(self) -> Any:
        """The Job of the only fleet."""
        return self.listed("apis/batch/v1/jobs")[0]

    def over(self) -> bool:
        """Whether that Job has ended."""
        return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in self.job()["status"].get("conditions", []))

    def image(self, name: str, *words: str) -> None:
        """Makes an image and lets pods use it."""
        made = self.folder / "image.tar"
        subprocess.run(["/usr/bin/python3", str(attack.ROOT / "tools/cluster/kubernetes/image.py"), str(made), name, *words], check=True,
                       timeout=120)
        subprocess.run([str(TOOL), "image", str(self.folder / "k8s"), str(made)], check=True, timeout=120, stdout=subprocess.DEVNULL)
        made.unlink()


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[Kubernetes]:
    folder = Path(tempfile.mkdtemp(prefix="luthier-k8s-"))
    folder.chmod(0o755)
    try:
        began = time.monotonic()
        started = subprocess.run([str(TOOL), "up", str(folder / "k8s"), str(CPUS)], capture_output=True, text=True, timeout=180)
        if started.returncode == 77:
            pytest.skip(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        print(f"\nkubernetes: a node is ready {time.monotonic() - began:.1f} s after its start")
        engine = Kubernetes(folder)
        engine.image(IMAGE, *worker_image())
        with subprocess.Popen([*engine.prefix, "kubectl", "proxy", f"--unix-socket={folder}/proxy.sock"], stdout=subprocess.DEVNULL) as proxy:
            attack.wait_for((folder / "proxy.sock").exists, "the proxy")
            yield engine
            proxy.terminate()
    finally:
        subprocess.run([str(TOOL), "down", str(folder / "k8s")], check=True, timeout=120)
        shutil.rmtree(folder)


@pytest.fixture()
def team(kubernetes: Kubernetes, tmp_path: Path) -> Iterator[Team]:
    certificates = tmp_path / "pki"
    attack.run("luthier", "admin", "pki", "init", "--out", certificates)
    attack.run("luthier", "admin", "pki", "issue", "--out", certificates, "--server", GATEWAY)
    pid = (kubernetes.folder / "k8s/pid").read_text().strip()
    with attack.Coordinator(tmp_path, listen=f"{GATEWAY}:0", tls=certificates,
                            prefix=("nsenter", f"--net=/proc/{pid}/ns/net")) as coordinator:
        yield Team(tmp_path, coordinator)
        kubernetes.kubectl("delete", "jobs,secrets", "-l", OURS, "--wait=false")
        kubernetes.kubectl("delete", "pods", "-l", OURS, "--grace-period=0", "--force")
        waited(lambda: kubernetes.left() == [], "the end of what a test left")


def up(kubernetes: Kubernetes, team: Team, study: str, *flags: str, workers: int = WORKERS, image: str = IMAGE, code: int = 0) -> str:
    return kubernetes.luthier("worker", "up", "--on", "k8s", "-n", str(workers), "--image", image, "--server", team.coordinator.address,
                              "--tls-ca", str(team.coordinator.tls / "ca.pem"), "--token-file", str(team.token_file),
                              *(("--study", study) if study else ()), *flags, code=code)


def status(kubernetes: Kubernetes) -> list[Any]:
    said: list[Any] = json.loads(kubernetes.luthier("worker", "status", "--on", "k8s", "-o", "json"))
    return said


def test_a_fleet_works_through_preemption_and_a_killed_coordinator(kubernetes: Kubernetes, team: Team) -> None:
    trials = 400
    team.create("demo", trials, 2)
    said = up(kubernetes, team, "demo")
    print(f"\nkubernetes: all {WORKERS} lease {team.await_running('demo', WORKERS):.1f} s after `up`")
    assert "which were there" in up(kubernetes, team, "demo")
    waited(lambda: len(kubernetes.running()) == WORKERS, "what the cluster says of it")
    assert len(kubernetes.pods()) == WORKERS, "`up` twice is `up` once"
    logs = kubernetes.luthier("worker", "logs", "--on", "k8s", "--study", "demo")
    assert "worker_start" in logs
    team.assert_no_token(said, logs, kubernetes.kubectl("get", "jobs,pods", "-o", "yaml"), kubernetes.luthier("worker", "status", "--on", "k8s"))

    # The scheduler preempts a fifth for pods of a higher class, which want 8 processors of the 4 that are free.
    kubernetes.kubectl("create", "priorityclass", "urgent", "--value=1000")
    kubernetes.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "urgent"},
        "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {
            "restartPolicy": "Never", "priorityClassName": "urgent", "terminationGracePeriodSeconds": 0, "containers": [
                {"name": "c", "image": IMAGE, "command": ["sleep", "600"], "resources": {"requests": {"cpu": "4"}}}]}}}}))
    waited(lambda: len(kubernetes.running()) <= WORKERS - 4, "preemption")
    waited(lambda: sum(pod["status"]["phase"] == "Running" for pod in kubernetes.pods("job-name=urgent")) == 2, "the urgent pods")
    kubernetes.kubectl("delete", "job", "urgent")
    back = waited(lambda: len(kubernetes.running()) == WORKERS, "the whole fleet")
    print(f"kubernetes: {WORKERS} pods run {back:.1f} s after there is room")

    team.coordinator.kill()
    team.coordinator.listen = team.coordinator.address
    team.coordinator.start()
    before = team.counts("demo")
    again = waited(lambda: team.counts("demo").complete >= before.complete + WORKERS // 2, "half of the fleet")
    print(f"kubernetes: half of the fleet has completed a trial {again:.1f} s after the coordinator's restart")

    team.await_end("demo")
    print("kubernetes: attempts ended so:", team.assert_each_once("demo", trials))
    gone = waited(lambda: not team.workers(), "the fleet's end")
    print(f"kubernetes: no worker is left {gone:.1f} s after the study's end")
    waited(kubernetes.over, "the Job's end")
    assert status(kubernetes)[0]["note"] == "nothing was left to do"
    kubernetes.luthier("worker", "down", "--on", "k8s", "--study", "demo")
    assert kubernetes.left() == []


def test_a_drained_node_gets_its_fleet_back_and_down_leaves_nothing(kubernetes: Kubernetes, team: Team) -> None:
    team.create("long", 100, 600)
    up(kubernetes, team, "long", "--drain-timeout", "0", "--stop-grace", "2")
    team.await_running("long", WORKERS)
    kubernetes.kubectl("drain", "node", "--pod-selector=luthier-fleet", "--delete-emptydir-data", "--force", "--timeout=60s")
    waited(lambda: not team.workers(), "the workers' end")
    kubernetes.kubectl("uncordon", "node")
    back = waited(lambda: len(kubernetes.running()) == WORKERS, "the whole fleet")
    print(f"\nkubernetes: {WORKERS} pods run {back:.1f} s after the end of a drain of the node")
    team.await_running("long", WORKERS)
    kubernetes.luthier("worker", "down", "--on", "k8s", "--study", "long")
    assert kubernetes.left() == [] and team.workers() == []
    released = 5
    outcomes = [attempt.outcome for row in team.caller.trials("long") for attempt in row.attempts]
    print(f"kubernetes: {outcomes.count(released)} of {len(outcomes)} attempts were given back at the drain and by `down`")
    assert outcomes == 2 * WORKERS * [released]


def test_an_idle_fleet_leaves_and_is_complete(kubernetes: Kubernetes, team: Team) -> None:
    up(kubernetes, team, "", "--exit-when-idle", "3")
    waited(lambda: len(team.workers()) == WORKERS, "the fleet")
    gone = waited(lambda: not team.workers(), "the idle fleet's end")
    print(f"\nkubernetes: a fleet that may be idle for 3 s is gone after {gone:.1f} s")
    waited(kubernetes.over, "the Job's end")
    kubernetes.luthier("worker", "down", "--on", "k8s")
    assert kubernetes.left() == []


def test_what_the_cluster_refuses_is_said_in_its_words(kubernetes: Kubernetes, team: Team) -> None:
    team.create("one", 1, 0)

    def note(pattern: str, *flags: str, workers: int = 1, image: str = IMAGE) -> None:
        up(kubernetes, team, "one", *flags, workers=workers, image=image)
        said = attack.wait_for(lambda: next((s for s in status(kubernetes) if re.search(pattern, s["note"])), None), pattern)
        print(f"\nkubernetes: {said['note'][:160]}")
        kubernetes.luthier("worker", "down", "--on", "k8s", "--study", "one")
        assert kubernetes.left() == []

    note("^(ErrImagePull|ImagePullBackOff): ", image="docker.io/test/absent:1")
    kubernetes.kubectl("create", "quota", "few", "--hard=pods=0")
    note("exceeded quota: few")
    kubernetes.kubectl("delete", "quota", "few")
    note("^Unschedulable: .*Insufficient cpu", "--slots", "64")
    note("exit code 2 ", "--", "--no-such-flag")
    note("nothing was left to do", workers=3)  # It ends while they start.

    refused = up(kubernetes, team, "one", workers=0, code=2) + up(kubernetes, team, "one", workers=100000, code=2)
    assert refused.count("--workers") >= 2
    assert "--pool" in up(kubernetes, team, "", "--pool", "a" * 300, code=2)
    assert "--pool" in up(kubernetes, team, "", "--pool", "a; touch pwned", code=2)
    away = kubernetes.folder / "away"
    away.write_text((kubernetes.folder / "k8s/kubeconfig").read_text().replace(":6443", ":1"))
    for words in (("status",), ("logs",), ("down",), ("up", "-n", "1", "--image", IMAGE, "--server", "c:1", "--accept-plaintext")):
        said = kubernetes.run("env", f"KUBECONFIG={away}", str(attack.BIN / "luthier"), "worker", words[0], "--on", "k8s", *words[1:], code=1)
        assert "refused" in said
    assert kubernetes.left() == []


def test_the_longest_names_are_names_of_the_cluster(kubernetes: Kubernetes, team: Team) -> None:
    up(kubernetes, team, "", "--pool", "p" * 62 + "_", "--exit-when-idle", "0.1", workers=1)
    waited(kubernetes.over, "the Job's end")
    assert status(kubernetes)[0]["works_for"] == "pool " + "p" * 62 + "_"


# --- The guide ---


def boxes() -> list[str]:
    """The boxes of commands of the guide."""
    return re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def types(kubernetes: Kubernetes, box: str) -> str:
    """Types a box of commands in, in a copy of the checkout's deploy."""
    path = f"{attack.BIN}:{attack.ROOT}/build/cluster/bin:{os.environ['PATH']}"
    return kubernetes.run("env", f"PATH={path}", "bash", "-euo", "pipefail", "-c", f"cd {kubernetes.folder}\n{box}")


def make_volume(kubernetes: Kubernetes) -> None:
    """A volume for who asks for one: pods of user 10001 may write there."""
    folder = kubernetes.folder / "volume"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    kubernetes.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)}}}))


def test_each_command_of_the_guide_works(kubernetes: Kubernetes, tmp_path: Path) -> None:
    worker_up, dry_run, rendered, secret = boxes()
    certificates = tmp_path / "pki"
    attack.run("luthier", "admin", "pki", "init", "--out", certificates)
    attack.run("luthier", "admin", "pki", "issue", "--out", certificates, "--server", "coordinator")
    shutil.copy(certificates / "ca.pem", kubernetes.folder / "ca.pem")
    kubernetes.image("registry.example/luthier-worker:1", *worker_image())
    # The coordinator that it speaks of is outside of the cluster, which has a name for it.
    kubernetes.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "coordinator"}, "spec": {"clusterIP": "None"}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "coordinator"},
         "subsets": [{"addresses": [{"ip": GATEWAY}]}]}]}))
    pid = (kubernetes.folder / "k8s/pid").read_text().strip()
    with attack.Coordinator(tmp_path, listen=f"{GATEWAY}:7790", tls=certificates,
                            prefix=("nsenter", f"--net=/proc/{pid}/ns/net")) as coordinator:
        team = Team(kubernetes.folder, coordinator)
        assert team.token_file == kubernetes.folder / "worker.token"
        up_command, *rest = worker_up.strip().splitlines()
        said = types(kubernetes, up_command)
        waited(lambda: len(kubernetes.running()) == 20, "the guide's fleet")
        said += types(kubernetes, "\n".join(rest) + "\n" + dry_run)
        assert "worker_start" in said, "the logs of pods"
        team.assert_no_token(said)
        assert kubernetes.left() == []

    for name, words in (("worker", worker_image()), ("server", server_image())):
        kubernetes.image(f"docker.io/library/luthier-{name}:1", *words)
    shutil.copytree(attack.ROOT / "deploy", kubernetes.folder / "deploy")
    make_volume(kubernetes)
    assert types(kubernetes, rendered).count("kind: StatefulSet") == 2
    types(kubernetes, secret)
    kubernetes.kubectl("rollout", "status", "deployment/luthier-worker", "--timeout=120s")
    (kubernetes.folder / "deployed.yaml").write_text(
        "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: MINIMIZE}\nalgorithm: {random: {}}\n"
        "budget: {max_trials: 8}\nobjective: {command: {argv: [sh, -c, 'echo \"{{\\\"loss\\\": {x}}}\"']}}\n")
    types(kubernetes, "kubectl exec -i luthier-0 -- luthier study create --file - --name deployed < deployed.yaml")
    attack.wait_for(lambda: '"COMPLETED"' in types(kubernetes, "kubectl exec luthier-0 -- luthier study get deployed -o json"), "the study's end")
    address = kubernetes.kubectl("get", "pod", "luthier-0", "-o", "jsonpath={.status.podIP}")
    scale = json.loads(kubernetes.run("/usr/bin/python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())",
                                      f"http://{address}:7791/scale?pool=default"))
    assert scale["slots"] == 0 and scale["wanted_slots"] == 0
    kubernetes.kubectl("delete", "-k", str(kubernetes.folder / "deploy/k8s/workers-deployment"), "--wait=false")
