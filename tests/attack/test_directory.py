"""Whoever moves, removes or covers the data directory of a running coordinator gets no acknowledgement afterwards.

A call that begins after the attack must not be answered OK, whatever the machine's speed; and the process ends by
itself with 74, writing or idle.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from attack import BIN, PATIENCE, Caller, Coordinator, run, wait_for

EXIT_STORAGE = 74
SOON = 5.0  # Seconds; 2 on a machine that is not busy.


def copy_over(path: Path) -> None:
    copy = path.with_name("copy-of-it")
    shutil.copyfile(path, copy)
    os.replace(copy, path)


def replace_directory(data: Path) -> None:
    copy = data.with_name("copy")
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("socket"))
    os.rename(data, data.with_name("former"))
    os.rename(copy, data)


def link_in_place(data: Path) -> None:
    os.rename(data, data.with_name("far"))
    data.with_name("other").mkdir()
    os.symlink("other", data)


def replace_socket(data: Path) -> None:
    (data / "socket").unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(data / "socket"))


def shorten(path: Path) -> None:
    # A checkpoint leaves an empty log; the coordinator's clock, which it stores now and then, is its next content.
    wait_for(lambda: path.stat().st_size > 4096, "a page in the log")
    os.truncate(path, path.stat().st_size - 4096)


ATTACKS: dict[str, Callable[[Path], None]] = {
    "directory moved": lambda data: os.rename(data, data.with_name("elsewhere")),
    "directory removed": shutil.rmtree,
    "directory replaced": replace_directory,
    "directory's name given to a link": link_in_place,
    "directory's parent moved": lambda data: os.rename(data.parent, data.parent.with_name("parent-elsewhere")),
    **{f"{name} removed": (lambda data, name=name: os.unlink(data / name))
       for name in ("luthier.db", "luthier.db-wal", "luthier.db-shm", "lock", "acknowledged", "access.db", "access.db-wal")},
    **{f"{name} replaced": (lambda data, name=name: copy_over(data / name))
       for name in ("luthier.db", "luthier.db-wal", "lock", "acknowledged")},
    **{f"{name} cut": (lambda data, name=name: os.truncate(data / name, 0))
       for name in ("luthier.db", "luthier.db-wal", "access.db", "access.db-wal")},
    "luthier.db-wal shortened": lambda data: shorten(data / "luthier.db-wal"),
    "luthier.db-wal overwritten": lambda data: shutil.copyfile(data / "luthier.db", data / "luthier.db-wal"),
    "acknowledged cut": lambda data: os.truncate(data / "acknowledged", 0),
    "acknowledged overwritten": lambda data: (data / "acknowledged").write_text("0" * 38),
    "socket replaced": replace_socket,
}


class Writers:
    """Threads that enqueue trials without a pause, and remember when each acknowledged call had begun."""

    def __init__(self, coordinator: Coordinator, count: int = 3) -> None:
        caller = coordinator.caller(coordinator.admin_token)
        caller.create_study("s", max_trials=1_000_000)
        self.begun: list[float] = []
        self.threads = [threading.Thread(target=self._write, args=(coordinator.caller(coordinator.admin_token),))
                        for _ in range(count)]
        for thread in self.threads:
            thread.start()
        wait_for(lambda: len(self.begun) > 20, "writes that are acknowledged")
        caller.close()

    def _write(self, caller: Caller) -> None:
        while True:
            begun = time.monotonic()
            try:
                caller.suggest("s", worker=f"w{uuid.uuid4().hex}", timeout=PATIENCE)
            except grpc.RpcError:
                caller.close()
                return
            self.begun.append(begun)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


@pytest.fixture()
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder below another, which can be moved, too."""
    made = tmp_path / "p"
    made.mkdir()
    yield made


def ended(coordinator: Coordinator, seconds: float = SOON) -> str:
    """Waits for the end by itself; what it said."""
    assert coordinator.process.wait(seconds) == EXIT_STORAGE
    folder = coordinator.log_file.parent
    log = coordinator.log_file if folder.exists() else folder.with_name("parent-elsewhere") / coordinator.log_file.name
    return log.read_text()


@pytest.mark.parametrize("name", ["directory moved", "directory removed", "luthier.db removed", "lock replaced",
                                  "acknowledged removed", "access.db removed", "luthier.db cut", "luthier.db-wal cut",
                                  "luthier.db-wal shortened", "luthier.db-wal overwritten"])
def test_no_write_is_acknowledged_after_it(home: Path, name: str) -> None:
    with Coordinator(home) as coordinator:
        writers = Writers(coordinator)
        ATTACKS[name](coordinator.data)
        done = time.monotonic()
        said = ended(coordinator)
        writers.join()
        # The watch of the idle ends it where tokens alone are gone.
        late = [begun - done for begun in writers.begun if begun > done + (2.0 if "access" in name else 0.0)]
        assert not late, f"{len(late)} calls that began after it were acknowledged, up to {late[-1]:.3f} s after it"
        assert "storage_failed" in said and "luthierd: " in said, said[-2000:]
        assert "start again" in said or "luthier admin doctor" in said, said[-2000:]


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_idle_coordinator_ends_too(home: Path, name: str) -> None:
    with Coordinator(home) as coordinator:
        ATTACKS[name](coordinator.data)
        said = ended(coordinator)
        assert "while the server ran" in said, said[-2000:]
        file = name.split()[0]
        # While a directory is removed one of its files may be missed first.
        whole = str(coordinator.data) if name == "directory removed" else "data directory"
        one = "." in file or file in ("lock", "socket", "acknowledged")
        assert (f"{coordinator.data}/{file}" if one else whole) in said


@pytest.mark.parametrize("name", ["luthier.db-wal", "luthier.db"])
def test_the_first_write_after_a_cut_is_refused(home: Path, name: str) -> None:
    with Coordinator(home) as coordinator:
        admin = coordinator.caller(coordinator.admin_token)
        admin.create_study("s", max_trials=1)
        os.truncate(coordinator.data / name, 0)
        with pytest.raises(grpc.RpcError):
            admin.create_study("t", max_trials=1)
        assert f"{coordinator.data / name} was cut or overwritten" in ended(coordinator)


def foreign(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1)")


LOST = {
    "missing": (lambda data: (data / "access.db").unlink(), "access.db is missing, but admin.token is there"),
    "empty": (lambda data: os.truncate(data / "access.db", 0), "access.db is empty, but admin.token is there"),
    "another program's": (lambda data: foreign(data / "access.db"), "access.db is a database of another program"),
    "that of studies": (lambda data: shutil.copyfile(data / "luthier.db", data / "access.db"),
                        "access.db is a database of studies, not of tokens"),
    "tokens for studies": (lambda data: shutil.copyfile(data / "access.db", data / "luthier.db"),
                           "luthier.db is a database of tokens"),
}


@pytest.mark.parametrize("name", list(LOST))
def test_a_start_does_not_hide_that_a_database_is_gone(home: Path, name: str) -> None:
    lose, said = LOST[name]
    with Coordinator(home) as coordinator:
        admin = coordinator.caller(coordinator.admin_token)
        admin.create_study("s", max_trials=1)
        admin.call("AdminService/CreateProject", id="vision")
        assert coordinator.stop() == 0
        lose(coordinator.data)
        before = {path.name: path.read_bytes() for path in coordinator.data.glob("*.db")}
        again = run("luthierd", "--listen", "127.0.0.1:0", "--data-dir", coordinator.data, check=False)
        assert again.returncode == 1 and said in again.stderr, again.stderr
        assert before == {path.name: path.read_bytes() for path in coordinator.data.glob("*.db")}
        doctor = run("luthier", "admin", "doctor", "--db", coordinator.data, check=False)
        assert doctor.returncode == 1, doctor.stdout
        if name in ("empty", "missing"):  # What the message names as the way to go on.
            (coordinator.data / "admin.token").rename(home / "former.token")
            coordinator.start()
            assert coordinator.caller((coordinator.data / "admin.token").read_text().strip()).call(
                "StudyService/GetStudy", name="projects/default/studies/s").name


@pytest.mark.parametrize("name", ["empty", "another program's", "that of studies", "tokens for studies"])
def test_a_backup_with_a_wrong_database_is_refused(home: Path, name: str) -> None:
    with Coordinator(home) as coordinator:
        coordinator.caller(coordinator.admin_token).create_study("s", max_trials=1)
        run("luthier", "admin", "backup", "--db", coordinator.data, "--out", home / "copy")
    LOST[name][0](home / "copy")
    for verb in (("doctor", "--db", home / "copy"), ("restore", home / "copy", "--db", home / "new")):
        result = run("luthier", "admin", *verb, check=False)
        assert result.returncode == 1, f"{verb[0]}: {result.stdout}{result.stderr}"
    assert not (home / "new" / "luthier.db").exists()


@pytest.mark.parametrize("name", ["luthier.db-shm", "access.db-shm"])
def test_shared_memory_that_is_cut_ends_it_with_a_reason(home: Path, name: str) -> None:
    with Coordinator(home) as coordinator:
        admin = coordinator.caller(coordinator.admin_token)
        admin.create_study("s", max_trials=1)
        os.truncate(coordinator.data / name, 0)
        with pytest.raises(grpc.RpcError):
            for i in range(100):
                admin.create_study(f"s{i}", max_trials=1)
                admin.call("AdminService/CreateProject", id=f"p{i}")
        said = ended(coordinator)
        assert "was cut while the server ran" in said and "start again" in said, said[-2000:]
        coordinator.start()
        admin = coordinator.caller(coordinator.admin_token)
        assert admin.call("StudyService/GetStudy", name="projects/default/studies/s").name


def test_what_was_acknowledged_is_in_the_directory_that_was_moved(home: Path) -> None:
    with Coordinator(home) as coordinator:
        writers = Writers(coordinator)
        moved = coordinator.data.with_name("elsewhere")
        os.rename(coordinator.data, moved)
        ended(coordinator)
        writers.join()
        os.rename(moved, coordinator.data)
        coordinator.start()
        assert len(coordinator.caller(coordinator.admin_token).trials("s")) >= len(writers.begun)


def test_a_restart_does_not_hide_that_the_database_is_gone(home: Path) -> None:
    with Coordinator(home) as coordinator:
        Writers(coordinator, 1)
        os.unlink(coordinator.data / "luthier.db")
        ended(coordinator)
        again = run("luthierd", "--listen", "127.0.0.1:0", "--data-dir", coordinator.data, check=False)
        assert again.returncode == 1
        assert "luthier.db is missing" in again.stderr and "restore a backup" in again.stderr, again.stderr
        assert not (coordinator.data / "luthier.db").exists()


def test_a_restart_does_not_hide_that_the_end_of_the_log_is_gone(home: Path) -> None:
    with Coordinator(home) as coordinator:
        coordinator.caller(coordinator.admin_token).create_study("s", max_trials=1)
        coordinator.kill()
        for name in ("acknowledged", "luthier.db-wal"):
            (coordinator.data / name).unlink()
        doctor = run("luthier", "admin", "doctor", "--db", coordinator.data, check=False)
        again = run("luthierd", "--listen", "127.0.0.1:0", "--data-dir", coordinator.data, check=False)
        for result in (doctor, again):
            assert result.returncode == 1 and "luthier.db-wal was removed" in result.stdout + result.stderr, result
        (coordinator.data / "luthier.db-shm").unlink()  # What both of them name.
        coordinator.start()


def test_a_removed_socket_is_made_again(home: Path) -> None:
    with Coordinator(home, listen=f"unix:{home}/listen") as coordinator:
        for path in (home / "listen", coordinator.data / "socket"):
            path.unlink()
            wait_for(path.exists, f"{path} again", SOON)
            run("luthier", "health", "--server", f"unix:{path}")
        assert (coordinator.data / "socket").stat().st_mode & 0o777 == 0o600
        assert coordinator.stop() == 0
        assert not (home / "listen").exists()


# In a mount namespace of the test's own, which ends with it. The coordinator runs in it, and what covers its directory
# is mounted from within, by nsenter.
def in_namespace(process: subprocess.Popen[str], *command: str) -> None:
    subprocess.run(["nsenter", "-t", str(process.pid), "-m", *command], check=True)


@pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
                    reason="a mount namespace needs root")
@pytest.mark.parametrize("mount", ["over the directory", "over the database", "read-only"])
def test_mounts(home: Path, mount: str) -> None:
    with Coordinator(home, prefix=("unshare", "-m", "--propagation", "private")) as coordinator:
        writers = Writers(coordinator, 1) if mount != "read-only" else None
        data = str(coordinator.data)
        if mount == "over the directory":
            in_namespace(coordinator.process, "mount", "-t", "tmpfs", "none", data)
        elif mount == "over the database":
            (home / "other.db").write_text("other")
            in_namespace(coordinator.process, "mount", "--bind", str(home / "other.db"), f"{data}/luthier.db")
        else:
            in_namespace(coordinator.process, "mount", "--bind", data, data)
            in_namespace(coordinator.process, "mount", "-o", "remount,bind,ro", data)
        done = time.monotonic()
        said = ended(coordinator)
        assert ("read-only" if mount == "read-only" else "a mount covers it") in said, said[-2000:]
        if writers is not None:
            writers.join()
            assert not [begun for begun in writers.begun if begun > done]


def test_a_worker_whose_spool_is_taken_away_loses_no_result(home: Path) -> None:
    study, spool = home / "study.yaml", home / "spool"
    study.write_text("space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: MINIMIZE}\n"
                     "algorithm: {random: {}}\nbudget: {max_trials: 6}\n"
                     "objective: {command: {argv: [sh, -c, \"sleep 0.1; echo '{{\\\"loss\\\": 1}}'\"]}}\n")
    with Coordinator(home) as coordinator:
        run("luthier", "study", "create", "--file", study, "--name", "s", "--server", coordinator.own_socket)
        command = [BIN / "luthier-worker", "--server", coordinator.own_socket, "--study", "s", "--spool", spool,
                   "--exit-when-done"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
            end = time.monotonic() + PATIENCE
            while worker.poll() is None and time.monotonic() < end:
                shutil.rmtree(spool, ignore_errors=True)
                time.sleep(0.02)
            worker.kill()
            log = worker.stderr.read()
        assert worker.returncode == 0, log
        assert "spool_made_again" in log, log
        trials = coordinator.caller(coordinator.admin_token).trials("s")
        assert [trial.final_measurement.metrics["loss"] for trial in trials] == [1.0] * 6
