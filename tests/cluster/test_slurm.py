"""Workers on a real Slurm of four nodes: started, preempted, killed, idle and ended. The figures are printed (pytest -s)."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import attack
from fleet import Team, runs, waited

TOOL = attack.ROOT / "tools/cluster/slurm.sh"
NODES, CPUS = 4, 5
WORKERS = NODES * CPUS


class Slurm:
    """The engine, and the user whose jobs it runs."""

    def __init__(self, folder: Path) -> None:
        root = os.geteuid() == 0
        self.folder = folder
        self.user = pwd.getpwnam("nobody").pw_uid if root else os.geteuid()
        self.prefix = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups") if root else ()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLURM_CONF": str(folder / "slurm/slurm.conf"),
                            "XDG_STATE_HOME": str(folder / "state")}

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a program as the user."""
        return runs(list(words), self.environment, self.prefix, code)

    def luthier(self, *words: str, code: int = 0) -> str:
        """Runs the command line as the user."""
        return self.run(str(attack.BIN / "luthier"), *words, code=code)

    def tasks(self, state: str) -> int:
        """How many tasks of fleets there are in a state."""
        return self.run("squeue", "--noheader", "-r", f"--states={state}", "--format=%j").count("luthier-")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if shutil.which("slurmctld") is None or shutil.which("slurmd") is None:
        pytest.skip("Slurm is not installed: tools/install_packages.sh cluster")
    folder = Path(tempfile.mkdtemp(prefix="luthier-slurm-"))
    folder.chmod(0o755)
    engine = Slurm(folder)
    os.chown(folder, engine.user, -1)
    subprocess.run([str(TOOL), "up", str(folder / "slurm"), str(NODES), str(CPUS)], check=True, timeout=120)
    try:
        yield engine
    finally:
        subprocess.run([str(TOOL), "down", str(folder / "slurm")], check=True, timeout=120)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture()
def team(slurm: Slurm, tmp_path: Path) -> Iterator[Team]:
    folder = Path(tempfile.mkdtemp(prefix="team-", dir=slurm.folder))
    folder.chmod(0o755)
    with attack.Coordinator(tmp_path) as coordinator:
        yield Team(folder, coordinator, slurm.user)
        slurm.run("scancel", "--me")


def up(slurm: Slurm, team: Team, study: str, *flags: str) -> str:
    return slurm.luthier("worker", "up", "--on", "slurm", "-n", str(WORKERS), "--server", team.coordinator.address, "--token-file",
                         str(team.token_file), *(("--study", study) if study else ()), *flags)


def test_a_fleet_works_through_preemption_and_a_killed_coordinator(slurm: Slurm, team: Team) -> None:
    trials = 400
    team.create("demo", trials, 1)
    said = up(slurm, team, "demo")
    print(f"\nslurm: all {WORKERS} lease {team.await_running('demo', WORKERS):.1f} s after `up`")
    assert "which were there" in up(slurm, team, "demo")
    assert slurm.tasks("RUNNING") == WORKERS
    team.assert_no_token(said, slurm.run("scontrol", "show", "job"), slurm.luthier("worker", "logs", "--on", "slurm", "--study", "demo"))

    # A fifth is preempted by jobs of a higher partition.
    slurm.run("sbatch", "--partition=high", "--array=1-4", "--output=/dev/null", "--wrap=sleep 6")
    waited(lambda: slurm.tasks("RUNNING") <= WORKERS - 4, "preemption")
    waited(lambda: slurm.run("squeue", "--noheader", "--partition=high").strip() == "", "the end of the others")
    back = waited(lambda: slurm.tasks("RUNNING") == WORKERS, "the whole fleet")
    print(f"slurm: {WORKERS} tasks run again {back:.1f} s after there is room")

    # Workers that are killed are replaced.
    team.kill_workers(4)
    waited(lambda: len(team.workers()) <= WORKERS - 4, "their end")
    back = waited(lambda: len(team.workers()) >= WORKERS, "the killed ones' places")
    print(f"slurm: {WORKERS} workers run {back:.1f} s after 4 were killed")

    team.coordinator.kill()
    team.coordinator.listen = team.coordinator.address
    team.coordinator.start()
    before = team.counts("demo")
    again = waited(lambda: team.counts("demo").complete >= before.complete + WORKERS // 2, "half of the fleet")
    print(f"slurm: half of the fleet has completed a trial {again:.1f} s after the coordinator's restart")

    team.await_end("demo")
    print("slurm: attempts ended so:", team.assert_each_once("demo", trials))
    gone = waited(lambda: slurm.run("squeue", "--noheader") == "" and not team.workers(), "the fleet's end")
    print(f"slurm: no task is left {gone:.1f} s after the study's end")


def test_an_idle_fleet_leaves_and_down_ends_one(slurm: Slurm, team: Team) -> None:
    up(slurm, team, "", "--exit-when-idle", "3")
    waited(lambda: slurm.tasks("RUNNING") == WORKERS, "the fleet")
    gone = waited(lambda: slurm.run("squeue", "--noheader") == "", "the idle fleet's end")
    print(f"\nslurm: a fleet that may be idle for 3 s is gone after {gone:.1f} s")
    team.create("long", 100, 600)
    up(slurm, team, "long", "--drain-timeout", "0", "--stop-grace", "5")
    team.await_running("long", WORKERS)
    slurm.luthier("worker", "down", "--on", "slurm", "--study", "long")
    assert slurm.run("squeue", "--noheader") == ""
    assert team.workers() == []
    waited(lambda: team.counts("long").running == 0, "the trials to be given back")
    assert team.counts("long").pending == WORKERS
    assert [attempt.outcome for row in team.caller.trials("long") for attempt in row.attempts] == [5] * WORKERS
