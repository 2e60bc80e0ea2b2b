"""Nothing of a run outlives it: not a worker that is killed, not those that look after the run, not its own end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack import BIN, Coordinator, run, wait_for
from workers import PLAIN, Study, children, keeper_of, start_worker, supervisor_of

# A group, a session and a daemon of its own, all deaf to SIGTERM; then a word to say that they are there.
FAMILY = r"""
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
subprocess.Popen(["sleep", "901"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        subprocess.Popen(["sleep", "902"], start_new_session=True)
        time.sleep(900)
    os._exit(0)
time.sleep(0.2)
open("ready", "a").write(str(os.getpid()) + "\n")
"""
STAYS = FAMILY + "time.sleep(900)\n"
ENDS = FAMILY + 'print(json.dumps({"loss": 1}))\n'
COUNT = 5  # Processes of a family that stays.
# Forks on and on, each time into a session of its own, so that it has no process id for long.
RUNS_AWAY = r"""
import os, signal, time
end = time.monotonic() + 15  # Of where the test fails.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hops = os.open("hops", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end and os.fork() == 0:
        os.setsid()
        os.write(hops, b".")
    os._exit(0)
open("ready", "a").write("x\n")
signal.pause()
"""
SECONDS = 2.0


@pytest.fixture()
def server(tmp_path: Path) -> Iterator[str]:
    with Coordinator(tmp_path) as made:
        yield made.own_socket


@pytest.fixture()
def study(server: str, tmp_path: Path) -> Iterator[Study]:
    made = Study(tmp_path, STAYS, trials=1000).create(server)
    yield made
    made.end_processes()


def await_family(study: Study, count: int = COUNT) -> None:
    wait_for(lambda: (study.folder / "ready").exists() and len(study.processes()) >= count, "the run's processes")


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def assert_gone(study: Study, why: str) -> None:
    began = time.monotonic()
    while left := study.processes():
        assert time.monotonic() - began < SECONDS, f"{why}: alive after {SECONDS} s: {left}"
        time.sleep(0.02)
    (study.folder / "ready").unlink()


def test_a_worker_that_is_killed_leaves_nothing(study: Study) -> None:
    for i in range(int(os.environ.get("LUTHIER_ATTACK_KILLS", "3"))):
        worker = start_worker(study.server, study.folder, "--name", f"w{i}")
        await_family(study)
        worker.kill()
        worker.wait()
        assert_gone(study, f"kill {i + 1}")


@pytest.mark.parametrize("whom", ["keeper", "supervisor", "worker and keeper", "worker and supervisor"])
def test_whoever_else_is_killed_the_others_end_the_run(study: Study, whom: str) -> None:
    worker = start_worker(study.server, study.folder, "--name", "w")
    await_family(study)
    pids = {"worker": worker.pid, "keeper": keeper_of(worker.pid), "supervisor": supervisor_of(worker.pid)}
    first = set(study.processes())
    for name in whom.split(" and "):
        with contextlib.suppress(ProcessLookupError):  # A supervisor ends by itself once its worker is gone.
            os.kill(pids[name], signal.SIGKILL)
    began = time.monotonic()
    while left := first & set(study.processes()):
        assert time.monotonic() - began < SECONDS, f"{whom}: alive after {SECONDS} s: {left}"
        time.sleep(0.02)
    if "worker" in whom:
        worker.wait()
        return
    # The worker goes on with the next attempt, under a new one of whom was killed.
    wait_for(lambda: len(set(study.processes()) - first) >= COUNT, "the next attempt")
    attempts = study.trial()["attempts"]
    assert "killed" in attempts[0]["failure"]["message"], attempts[0]
    assert attempts[0]["failure"]["kind"] == "INFRA"
    worker.kill()
    worker.wait()
    (study.folder / "ready").touch()
    assert_gone(study, "the worker's own end")


def test_stopped_keepers_and_supervisors_end_the_run_all_the_same(study: Study) -> None:
    for whom in ({"keeper"}, {"supervisor"}, {"keeper", "supervisor"}):
        worker = start_worker(study.server, study.folder, "--name", "w" + str(len(whom)) + min(whom))
        await_family(study)
        pids = {"keeper": keeper_of(worker.pid), "supervisor": supervisor_of(worker.pid)}
        for name in sorted(whom):
            os.kill(pids[name], signal.SIGSTOP)
        if whom == {"supervisor"}:
            wait_for(lambda: state_of(pids["supervisor"]) != "T", "the supervisor to be continued")
        worker.kill()
        worker.wait()
        assert_gone(study, f"stopped: {whom}")
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()), "their own end")


def test_who_forks_faster_than_one_can_look_is_caught(server: str, tmp_path: Path) -> None:
    study = Study(tmp_path, RUNS_AWAY, name="away").create(server)
    hops = tmp_path / "hops"
    worker = start_worker(server, tmp_path)
    wait_for(lambda: hops.exists() and hops.stat().st_size > 100, "the first hops")
    worker.kill()
    worker.wait()
    time.sleep(SECONDS)
    reached = hops.stat().st_size
    time.sleep(0.3)
    assert hops.stat().st_size == reached, "a process that forks on and on lives on"
    assert not study.processes()


def test_the_end_of_a_program_is_the_end_of_what_it_started(server: str, tmp_path: Path) -> None:
    study = Study(tmp_path, ENDS, trials=2, name="ends").create(server)
    worker = start_worker(server, tmp_path, "--study", "ends", "--exit-when-done")
    assert worker.wait(60) == 0, (tmp_path / "worker.log").read_text()
    assert not study.processes(), "when the worker has ended, and so the last run"
    assert study.get()["trials"]["complete"] == 2


def test_a_drain_a_timeout_and_a_second_signal_leave_nothing(study: Study) -> None:
    worker = start_worker(study.server, study.folder, "--drain-timeout", "0")
    await_family(study)
    family = children(keeper_of(worker.pid))
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    worker.send_signal(signal.SIGTERM)  # Within a second it is the same one.
    time.sleep(1.2)
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 128 + signal.SIGTERM
    assert_gone(study, f"a second signal ({family})")


def test_luthier_run_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    study = Study(tmp_path, STAYS, name="own")
    process = subprocess.Popen([str(BIN / "luthier"), "run", str(study.file), "--workers", "1"], cwd=tmp_path,
                               env=dict(PLAIN), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_family(study)
        process.kill()
        process.wait()
        assert_gone(study, "luthier run")
    finally:
        study.end_processes()


def test_keeper_and_supervisor_hold_nothing_of_the_workers(study: Study) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    worker = start_worker(study.server, study.folder, pass_fds=[write])
    os.close(write)
    await_family(study)
    for pid in (keeper_of(worker.pid), supervisor_of(worker.pid)):
        open_files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert not any(str(study.folder) in name or "pipe:" in name for name in open_files), open_files
        assert os.getsid(pid) != os.getsid(worker.pid)
    os.kill(worker.pid, signal.SIGSTOP)  # So that it is neither of them that keeps the pipe open.
    worker.kill()
    worker.wait()
    assert os.read(read, 1) == b""
    os.close(read)
    assert_gone(study, "the end")
    assert run("luthier", "study", "get", "s", "--server", study.server).returncode == 0
