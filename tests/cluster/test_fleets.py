"""`luthier worker up|status|logs|down` with engines that only pretend: what is handed to them, and every wrong input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import attack

GOLDEN = Path(__file__).resolve().parent / "golden"
TOKEN = "lut_0123456789abcdef_" + "7" * 43  # It looks like one; it is none.
EVERYTHING = ("--server", "coordinator.example:7790", "--pool", "gpu", "--study", "vision/resnet", "--gpus", "2",
              "--exit-when-idle", "10m", "--drain-timeout", "1m", "--stop-grace", "90s", "-n", "20",
              "--", "--checkpoint-dir", "/scratch/it's $(here)")


class Machine:
    """A machine of a user ada, whose PATH has only the engines' clients that a test writes, and a shell's own programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.environment = {"HOME": str(folder / "home"), "PATH": f"{self.bin}", "TMPDIR": str(folder)}
        (folder / "home").mkdir()

    def client(self, name: str, script: str) -> None:
        """Writes an engine's client: a script in which $FAKE is a folder of its own. Calls are kept."""
        path = self.bin / name
        path.write_text(f"#!/bin/bash\nPATH=/usr/bin:/bin\nFAKE={self.folder}\n"
                        f"printf '%s\\n' \"{name} $*\" >> {self.calls}\n{script}\n")
        path.chmod(0o755)

    def luthier(self, *words: str, code: int = 0, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        result = subprocess.run([str(attack.BIN / "luthier"), *words], capture_output=True, text=True, input=given, timeout=60,
                                env={**self.environment, **environment}, cwd=self.folder)
        assert result.returncode == code, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture()
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def secrets(machine: Machine) -> tuple[str, ...]:
    """Flags with a token in a file, and a certificate."""
    token = machine.folder / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    (machine.folder / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    return ("--token-file", str(token), "--tls-ca", str(machine.folder / "ca.pem"))


@pytest.mark.parametrize("engine", ["local", "slurm", "k8s", "ray"])
def test_what_is_handed_to_each_engine_is_what_is_kept(machine: Machine, engine: str) -> None:
    image = ("--image", "registry.example/team/worker:7") if engine == "k8s" else ()
    printed = machine.luthier("worker", "up", "--on", engine, "--dry-run", *image, *secrets(machine), *EVERYTHING).stdout
    assert TOKEN not in printed
    assert not (machine.folder / "home/.local").exists(), "a dry run changes nothing"
    assert machine.called() == []
    printed = printed.replace(str(machine.folder), "/ada").replace(str(attack.BIN.resolve()), "/opt/luthier/bin")
    printed = printed.replace(str(attack.BIN), "/opt/luthier/bin")
    printed = re.sub('(settings(=|: "))[0-9a-f]{12}', r"\1FINGERPRINT", printed)  # Of names of files, among others.
    kept = GOLDEN / f"{engine}.txt"
    if os.environ.get("LUTHIER_UPDATE_GOLDEN"):
        kept.write_text(printed)
    assert printed == kept.read_text(), f"if {kept} is to change: LUTHIER_UPDATE_GOLDEN=1"


# --- Slurm ---


def slurm(machine: Machine) -> None:
    machine.client("squeue", "cat $FAKE/squeue 2>/dev/null || true")
    machine.client("sbatch", 'cat > $FAKE/script; echo 17')
    machine.client("scancel", 'rm -f $FAKE/squeue')
    machine.client("scontrol", "true")


def comment(machine: Machine) -> str:
    found = re.search('#SBATCH --comment="(.*)"', (machine.folder / "script").read_text())
    assert found is not None
    return found[1]


UP = ("worker", "up", "--on", "slurm", "--server", "10.0.0.7:7790")


def test_up_twice_is_up_once_and_another_number_is_a_change(machine: Machine) -> None:
    slurm(machine)
    assert "3 workers of pool default on slurm, job 17" in machine.luthier(*UP, "-n", "3").stdout
    name = re.search("#SBATCH --job-name=(.*)", (machine.folder / "script").read_text())
    assert name is not None
    running = "".join(f"17|{name[1]}|RUNNING|None|{comment(machine)}\n" for _ in range(3))
    (machine.folder / "squeue").write_text(running + f"17|{name[1]}|PENDING|JobArrayTaskLimit|{comment(machine)}\n"
                                           "9|other|RUNNING|None|(null)\n")
    assert "3 workers of pool default on slurm, which were there" in machine.luthier(*UP, "-n", "3").stdout
    assert sum(call.startswith("sbatch") for call in machine.called()) == 1
    assert "5 workers of pool default on slurm, before 3" in machine.luthier(*UP, "-n", "5").stdout
    assert any("ArrayTaskThrottle=5" in call and "n=5" in call for call in machine.called())
    other = machine.luthier(*UP, "-n", "3", "--slots", "2", code=1)
    assert "were started with other settings; end them first: luthier worker down --on slurm" in other.stderr
    state = json.loads(machine.luthier("worker", "status", "--on", "slurm", "-o", "json").stdout)
    assert [(s["works_for"], s["workers"], s["running"], s["waiting"]) for s in state] == [("pool default", 3, 3, 0)]
    assert "have ended" in machine.luthier("worker", "down", "--on", "slurm").stdout
    assert "there are no workers of pool default on slurm" in machine.luthier("worker", "down", "--on", "slurm", code=5).stderr


def test_a_fleet_of_several_projects_is_one_fleet(machine: Machine) -> None:
    slurm(machine)
    of = ("--project", "vision,speech")
    assert "3 workers of pool default of project vision,speech on slurm" in machine.luthier(*UP, "-n", "3", *of).stdout
    assert "'--project' 'vision,speech'" in (machine.folder / "script").read_text()
    name = re.findall("#SBATCH --job-name=(.*)", (machine.folder / "script").read_text())[0]
    (machine.folder / "squeue").write_text(f"17|{name}|RUNNING|None|{comment(machine)}\n")
    assert "which were there" in machine.luthier(*UP, "-n", "3", *of).stdout
    assert "have ended" in machine.luthier("worker", "down", "--on", "slurm", *of).stdout


def test_a_shrinking_fleet_sends_its_last_workers_away(machine: Machine) -> None:
    slurm(machine)
    machine.luthier(*UP, "-n", "3")
    name = "luthier-default-"
    text = (machine.folder / "script").read_text()
    name = re.findall("#SBATCH --job-name=(.*)", text)[0]
    (machine.folder / "squeue").write_text("".join(f"17|{name}|RUNNING|None|{comment(machine)}\n" for _ in range(3)))
    machine.client("squeue", 'case "$*" in *--format=%K*) printf "4\\n11\\n7\\n" ;; *) cat $FAKE/squeue ;; esac')
    machine.luthier(*UP, "-n", "1")
    assert machine.called()[-1] == "scancel --batch --signal=TERM 17_7 17_11"


def script_with(machine: Machine, worker: str, *flags: str) -> subprocess.Popen[str]:
    """Starts the batch script that `up` makes, with a program that only pretends to be the worker."""
    slurm(machine)
    machine.luthier(*UP, "-n", "3", *flags)
    text = (machine.folder / "script").read_text()
    program = machine.folder / "worker"
    program.write_text(f"#!/bin/bash\nprintf '%s\\n' \"$@\" > {machine.folder}/flags\n{worker}\n")
    program.chmod(0o755)
    text = re.sub(r"command=\('[^']*'", f"command=('{program}'", text)
    (machine.folder / "script").write_text(text)
    environment = {"PATH": f"{machine.bin}:/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4"}
    return subprocess.Popen(["/bin/bash", str(machine.folder / "script")], env=environment, text=True)


@pytest.mark.parametrize(("code", "cancels"), [(0, True), (2, True), (4, True), (78, True), (75, False)])
def test_the_script_ends_its_array_when_nothing_is_left_to_do(machine: Machine, code: int, cancels: bool) -> None:
    assert script_with(machine, f"exit {code}").wait(timeout=30) == code
    assert ("scancel --state=PENDING 17" in machine.called()) is cancels


def test_the_script_passes_the_signal_on_and_waits_for_its_worker(machine: Machine) -> None:
    script = script_with(machine, f"trap 'sleep .3; exit 75' TERM; touch {machine.folder}/begun; while :; do sleep .05; done")
    attack.wait_for((machine.folder / "begun").exists, "the worker")
    script.send_signal(signal.SIGTERM)
    assert script.wait(timeout=30) == 75


def test_words_reach_the_worker_as_they_are(machine: Machine) -> None:
    odd = ["--env-allow", "a b", "--env-allow", "$(touch pwned) `id` 'x' \"y\" \\ ; & | * ? #"]
    assert script_with(machine, "exit 75", "--", *odd).wait(timeout=30) == 75
    words = (machine.folder / "flags").read_text().splitlines()
    assert words[-6:-2] == odd
    assert words[-2] == "--name" and re.fullmatch(r"luthier-default-[0-9a-f]{8}\.4", words[-1])


def test_a_token_that_is_in_no_file_gets_one_for_its_user_alone(machine: Machine) -> None:
    slurm(machine)
    for how in ({"LUTHIER_TOKEN": TOKEN}, {"given": TOKEN + "\n"}):
        flags = ("--token-file", "-") if "given" in how else ()
        machine.client("sbatch", 'cat > $FAKE/script; env > $FAKE/variables; echo 17')
        result = machine.luthier(*UP, "-n", "3", "--accept-plaintext", *flags, **how)
        files = list((machine.folder / "home").rglob("token"))
        assert len(files) == 1 and files[0].read_text().strip() == TOKEN and files[0].stat().st_mode & 0o777 == 0o600
        for place in (result.stdout, result.stderr, (machine.folder / "script").read_text(),
                      (machine.folder / "variables").read_text(), "\n".join(machine.called())):
            assert TOKEN not in place
        files[0].unlink()


# --- Kubernetes ---


def kubernetes(machine: Machine, jobs: str = '{"items": []}', pods: str = '{"items": []}', events: str = "{}") -> None:
    for name, text in (("jobs", jobs), ("pods", pods), ("events", events)):
        (machine.folder / name).write_text(text)
    machine.client("kubectl", 'case "$1 $2" in "get jobs"|"get pods"|"get events") cat "$FAKE/$2" ;;'
                   ' "apply "*) cat >> $FAKE/applied; echo --- >> $FAKE/applied ;; esac')


K8S = ("worker", "up", "--on", "k8s", "--server", "coordinator:7790", "--image", "w:1")


def test_the_token_goes_by_a_secret_alone(machine: Machine) -> None:
    kubernetes(machine)
    machine.luthier(*K8S, "-n", "2", *secrets(machine))
    secret, job, rest = (machine.folder / "applied").read_text().split("---\n")
    assert rest == "" and "kind: Secret" in secret and "kind: Job" in job
    assert TOKEN not in secret + job + "\n".join(machine.called()), "it is there in base64 only"
    name = re.findall("  name: (luthier-.*)", job)[0]
    assert f"secretName: {name}," in job and f"  name: {name}\n" in secret


def test_status_says_in_the_clusters_words_why_pods_wait(machine: Machine) -> None:
    kubernetes(machine)
    machine.luthier(*K8S, "-n", "3")
    job = (machine.folder / "applied").read_text()
    name = re.findall("  name: (luthier-.*)", job)[0]
    settings, works_for = re.findall('luthier/settings: "(.*)"', job)[0], re.findall('luthier/works-for: "(.*)"', job)[0]

    def there(*pods: dict[str, object], events: str = "{}", conditions: list[dict[str, str]] | None = None) -> dict[str, object]:
        described = {"metadata": {"name": name, "annotations": {"luthier/settings": settings, "luthier/works-for": works_for}},
                     "spec": {"parallelism": 3}, "status": {"conditions": conditions or []}}
        items = [{"metadata": {"labels": {"luthier-fleet": name}}, "status": pod} for pod in pods]
        kubernetes(machine, json.dumps({"items": [described]}), json.dumps({"items": items}), events)
        state: dict[str, object] = json.loads(machine.luthier("worker", "status", "--on", "k8s", "-o", "json").stdout)[0]
        return state

    running: dict[str, object] = {"phase": "Running"}
    absent: dict[str, object] = {"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image w:1"}}}]}
    state = there(running, running, absent)
    assert (state["running"], state["waiting"], state["note"]) == (2, 1, "ImagePullBackOff: Back-off pulling image w:1")
    full: dict[str, object] = {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/4 nodes are available"}]}
    assert there(running, running, full)["note"] == "Unschedulable: 0/4 nodes are available"
    quota = json.dumps({"items": [{"message": "pods is forbidden: exceeded quota: two"}]})
    state = there(running, running, events=quota)
    assert (state["waiting"], state["note"]) == (1, "pods is forbidden: exceeded quota: two")
    state = there(conditions=[{"type": "Complete", "status": "True"}])
    assert (state["over"], state["note"]) == (True, "nothing was left to do")
    machine.luthier(*K8S, "-n", "3")
    assert any(call.startswith("kubectl delete jobs,secrets") for call in machine.called()), "it is started anew"


# --- Ray ---


def test_what_ray_keeps_of_a_deleted_job_does_not_stop_another(machine: Machine) -> None:
    machine.client("ray", '''case "$2" in
  submit) if [ -e $FAKE/rest ]; then echo "ValueError: Job with submission_id luthier-x already exists. Please use a different" >&2; exit 1; fi ;;
  delete) rm $FAKE/rest ;;
esac''')
    up = ("worker", "up", "--on", "ray", "--server", "10.0.0.7:7790", "-n", "3")
    (machine.folder / "rest").touch()
    assert "3 workers of pool default on ray, job luthier-default-" in machine.luthier(*up).stdout
    assert [call.split()[2] for call in machine.called()] == ["list", "submit", "delete", "submit"]
    machine.client("ray", '''case "$2" in
  submit) echo "ValueError: Job with submission_id luthier-x already exists. Please use a different" >&2; exit 1 ;;
  delete) echo "it runs" >&2; exit 1 ;;
esac''')
    assert "already exists" in machine.luthier(*up, code=1).stderr


def test_a_ray_that_is_away_is_told_without_a_traceback(machine: Machine) -> None:
    machine.client("ray", """printf '%s\n' 'Traceback (most recent call last):' '  File "sdk.py", line 300, in connect' '    raise Error(' \\
  'RuntimeError: 500: Traceback (most recent call last):' '  File "sdk.py", line 301' 'ConnectionError: Failed to connect to Ray.' >&2; exit 1""")
    said = machine.luthier("worker", "status", "--on", "ray", code=1).stderr
    assert said == ("luthier: ray job ended with exit code 1: ConnectionError: Failed to connect to Ray.\n"
                    "is RAY_ADDRESS the cluster's dashboard, as http://head:8265?\n")


# --- This machine ---


def test_workers_that_end_at_once_are_an_error_and_leave_nothing(machine: Machine) -> None:
    with attack.Coordinator(machine.folder, "--auth", "off") as coordinator:
        up = ("worker", "up", "--on", "local", "--server", coordinator.address, "-n", "2", "--study", "s")
        root = ("--", "--run-as", "0") if os.geteuid() == 0 else ()
        wrong = machine.luthier(*up, "--", "--no-such-flag", code=1)
        assert "workers ended as soon as they had begun" in wrong.stderr and "no-such-flag" in wrong.stderr
        assert json.loads(machine.luthier("worker", "status", "--on", "local", "-o", "json").stdout) == []
        assert "behind --: luthier worker up --on local" in wrong.stderr
        one = tuple("1" if word == "2" else word for word in up)
        right = machine.luthier(*one, *root)
        try:
            assert "to end them: luthier worker down --on local --study s" in right.stderr
            logs = machine.luthier("worker", "logs", "--on", "local", "--study", "s").stdout
            assert "no-such-flag" not in logs and "2.log" not in logs, "logs of workers that failed before"
        finally:
            machine.luthier("worker", "down", "--on", "local", "--study", "s")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to say as whom commands run")
def test_root_is_told_where_the_user_of_commands_is_named(machine: Machine) -> None:
    up = ("worker", "up", "--on", "local", "--server", "127.0.0.1:1", "-n", "1")
    for words in (up, (*up, "--dry-run")):
        assert "write `-- --run-as USER` at the end" in machine.luthier(*words, code=2).stderr
    for given in (("--run-as", "0"), ("--commands-from", "none")):
        assert " ".join(f"'{word}'" for word in given) in machine.luthier(*up, "--dry-run", "--", *given).stdout


def test_local_workers_outlive_the_command_and_end_by_another(machine: Machine) -> None:
    with attack.Coordinator(machine.folder, "--auth", "off") as coordinator:
        up = ("worker", "up", "--on", "local", "--server", coordinator.address, "--drain-timeout", "0")
        root = ("--", "--run-as", "0") if os.geteuid() == 0 else ()
        try:
            machine.luthier(*up, "-n", "3", *root)

            def running() -> int:
                state = json.loads(machine.luthier("worker", "status", "--on", "local", "-o", "json").stdout)
                return sum(s["running"] for s in state if str(s["works_for"]) == "pool default")

            assert running() == 3
            assert "which were there" in machine.luthier(*up, "-n", "3", *root).stdout
            machine.luthier(*up, "-n", "4", *root)
            assert running() == 4
            machine.luthier(*up, "-n", "2", *root)
            attack.wait_for(lambda: running() == 2, "two workers to leave")
            attack.wait_for(lambda: "worker_start" in machine.luthier("worker", "logs", "--on", "local").stdout, "their logs")
        finally:
            machine.luthier("worker", "down", "--on", "local")
        assert running() == 0


# --- Wrong inputs ---


@pytest.mark.parametrize(("words", "said"), [
    (("-n", "0"), "--workers"),
    (("-n", "100000"), "--workers"),
    (("-n", "2000"), "Slurm's arrays have at most 1000 tasks"),
    (("-n", "3", "--pool", "a; rm -rf /"), "--pool"),
    (("-n", "3", "--pool", "a" * 300), "--pool"),
    (("-n", "3", "--study", "$(id)"), "STUDY"),
    (("-n", "3", "--project", "vision;id"), "--project"),
    (("-n", "3", "--project", "vision,"), "--project"),
    (("-n", "3", "--project", "vision,speech", "--study", "s"), "--project: several do not go together with --study"),
    (("-n", "3", "--tls-ca", "/no/ca.pem"), '--tls-ca: "/no/ca.pem": No such file'),
    (("-n", "3", "--image", "w:1"), "--image: is for k8s"),
    (("-n", "3", "--gpus", "2", "--slots", "3"), "--slots"),
    (("-n", "3", "--stop-grace", "long"), "--stop-grace: 'long' is not a duration"),
    (("-n", "3", "--", "--name", "me"), "--name: is set by `worker up` itself"),
    (("-n", "3", "--", "a\n#SBATCH --uid=0"), "line break"),
])
def test_wrong_words_are_refused_before_anything_is_called(machine: Machine, words: tuple[str, ...], said: str) -> None:
    slurm(machine)
    result = machine.luthier(*UP, *words, code=2)
    assert said in result.stderr
    assert machine.called() == []


@pytest.mark.parametrize("engine", ["slurm", "k8s", "ray"])
def test_workers_elsewhere_need_a_coordinator_that_they_reach(machine: Machine, engine: str) -> None:
    image = ("--image", "w:1") if engine == "k8s" else ()
    up = ("worker", "up", "--on", engine, "-n", "3", *image)
    assert "--server: is missing" in machine.luthier(*up, code=2).stderr
    assert "is a socket of this machine" in machine.luthier(*up, "--server", "unix:/tmp/s", code=2).stderr
    token = ("--token-file", secrets(machine)[1])
    assert "--tls-ca FILE" in machine.luthier(*up, "--server", "10.0.0.7:7790", *token, code=2).stderr


def test_an_image_is_needed_for_pods_and_loopback_is_not_theirs(machine: Machine) -> None:
    assert "--image: is missing" in machine.luthier("worker", "up", "--on", "k8s", "-n", "1", "--server", "a:1", code=2).stderr
    assert "is this machine alone" in machine.luthier(*K8S[:4], "-n", "1", "--server", "127.0.0.1:1", "--image", "w", code=2).stderr


@pytest.mark.parametrize(("engine", "program"), [("slurm", "squeue"), ("k8s", "kubectl"), ("ray", "ray")])
def test_a_missing_client_is_named(machine: Machine, engine: str, program: str) -> None:
    image = ("--image", "w:1") if engine == "k8s" else ()
    result = machine.luthier("worker", "up", "--on", engine, "-n", "1", "--server", "a:1", *image, code=1)
    assert f"there is no program {program} in PATH" in result.stderr


def test_an_engine_that_refuses_is_quoted(machine: Machine) -> None:
    slurm(machine)
    machine.client("sbatch", "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1")
    assert "sbatch --parsable ended with exit code 1: sbatch: error: QOSMax" in machine.luthier(*UP, "-n", "3", code=1).stderr
    machine.client("kubectl", "echo 'The connection to the server 10.0.0.1:6443 was refused' >&2; exit 1")
    assert "The connection to the server 10.0.0.1:6443 was refused" in machine.luthier(*K8S, "-n", "1", code=1).stderr


def test_names_of_300_letters_and_signs_make_labels(machine: Machine) -> None:
    slurm(machine)
    study = "a" * 60 + "_.-"
    machine.luthier(*UP, "-n", "3", "--pool", "p" * 60, "--study", f"{'v' * 60}/{study}")
    name = re.findall("#SBATCH --job-name=(.*)", (machine.folder / "script").read_text())[0]
    assert re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 47


def test_the_verbs_take_no_longer_than_their_engine(machine: Machine) -> None:
    machine.client("squeue", "sleep .1; exit 1")
    began = time.monotonic()
    machine.luthier("worker", "status", "--on", "slurm", code=1)
    assert time.monotonic() - began < 30


# --- The guides ---


def commands_of(page: str) -> list[str]:
    """The commands of a guide, each with the variables that were set before it."""
    text = (attack.ROOT / "docs/guide" / f"{page}.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines() if line]
    return [line for line in lines if "deploy/k8s" not in line]  # Those are for kubectl alone: tests/deploy/k8s_test.sh.


@pytest.mark.parametrize("page", ["slurm", "kubernetes", "ray"])
def test_each_command_of_a_guide_runs(machine: Machine, page: str) -> None:
    home = machine.folder / "home"
    (home / "worker.token").write_text(TOKEN + "\n")
    (home / "worker.token").chmod(0o600)
    (home / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    machine.client("sbatch", '''cat > $FAKE/script; echo 17
echo worker_start > "$(sed -n 's/#SBATCH --output=\\(.*\\)%A_%a.log/\\1/p' $FAKE/script)1.log"''')
    machine.client("squeue", '''[ -e $FAKE/script ] || exit 0
case "$*" in *--name=*) exit 0 ;; esac
sed -n 's/#SBATCH --job-name=//p' $FAKE/script | tr '\n' '|' | sed 's/^/17|/; s/$/RUNNING|None|/'
sed -n 's/#SBATCH --comment="\\(.*\\)"/\\1/p' $FAKE/script''')
    machine.client("scancel", "rm -f $FAKE/script")
    machine.client("kubectl", '''case "$1 $2" in
  "apply --server-side") cat > $FAKE/job ;;
  "delete jobs,secrets") rm -f $FAKE/job ;;
  "get jobs") if [ -e $FAKE/job ]; then name=$(sed -n 's/^  name: //p' $FAKE/job); echo "{\\"items\\": [{\\"metadata\\": {\\"name\\": \\"$name\\"}}]}"
    else echo '{}'; fi ;;
  "get pods"|"get events") echo '{}' ;;
esac''')
    machine.client("ray", '''case "$2" in
  submit) while [ "$1" != --submission-id ]; do shift; done; echo "$2" > $FAKE/job; shift; shift; echo "$2" > $FAKE/label ;;
  list) [ ! -e $FAKE/job ] || echo "[JobDetails(submission_id='$(cat $FAKE/job)', status=<JobStatus.RUNNING: 'RUNNING'>, metadata={$(sed 's/"/'\\''/g; s/[{}]//g' $FAKE/label)})]" ;;
  delete) rm -f $FAKE/job ;;
esac''')
    shell = ["/bin/bash", "-eo", "pipefail", "-c"]
    ran = commands_of(page)
    assert len(ran) >= 4
    script = "\n".join(ran)
    result = subprocess.run([*shell, script], capture_output=True, text=True, timeout=120, cwd=machine.folder,
                            env={**machine.environment, "PATH": f"{machine.bin}:{attack.BIN}:/usr/bin:/bin"})
    assert result.returncode == 0, f"{script}\n{result.stdout}{result.stderr}"
    assert TOKEN not in result.stdout + result.stderr
    assert not (machine.folder / "pwned").exists()
