"""Whatever a disk does to the bytes of a data directory or a backup, nobody is served what was not written.

LUTHIER_ATTACK_COUNT says how many bytes are flipped; 60 backups are damaged for a thousand of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import Caller, Coordinator, name_of, run

PAGE = 4096
FLIPS = int(os.environ.get("LUTHIER_ATTACK_COUNT", "8"))
BACKUPS = max(4, FLIPS * 60 // 1000)
STUDIES = ["curves", "few", "large"]
REQUEST = "00000000-0000-4000-8000-000000000001"  # Sent again to a damaged coordinator.


def enqueue(caller: Caller, study: str, request_id: str) -> Any:
    from luthier.v1 import study_service_pb2

    request = study_service_pb2.EnqueueTrialsRequest(parent=name_of(study), request_id=request_id)
    request.trials.add().parameters.update({"x0": 0.25, "x1": 0.5})
    return caller.call("StudyService/EnqueueTrials", request)


def fill(caller: Caller) -> None:
    """Trials with learning curves, with rows of several pages, failed, running; a study that was deleted."""
    for study in [*STUDIES, "gone"]:
        caller.create_study(study)
    for lease in caller.suggest("curves", 60):
        for step in (1, 2, 3):
            caller.call("WorkerService/Report", trial=lease.trial.name, token=lease.token,
                        measurements=[measurement({"loss": 1.0 / step}, step)])
        caller.complete(lease, 0.1)
    for lease in caller.suggest("large", 12):
        caller.call("WorkerService/Complete", trial=lease.trial.name, token=lease.token,
                    measurement=measurement({"loss": 0.5}, 1), output_tail="the output of study large " * 150)
    for i, lease in enumerate(caller.suggest("few", 6)):
        if i < 4:
            caller.complete(lease, float(i))
    for lease in caller.suggest("gone", 5):
        caller.complete(lease, 0.5)
    caller.call("StudyService/DeleteStudy", name=name_of("gone"))


def measurement(metrics: dict[str, float], step: int) -> Any:
    from luthier.v1 import trial_pb2

    made = trial_pb2.Measurement(step=step)
    for name, value in metrics.items():
        made.metrics[name] = value
    return made


def exported(caller: Caller, on_error: Callable[[grpc.RpcError], None]) -> dict[str, bytes]:
    """All that can be read, by what was asked; errors are told and left out."""
    answers: dict[str, bytes] = {}

    def ask(what: str, method: str, **fields: Any) -> Any:
        try:
            answer = caller.call(method, timeout=30.0, **fields)
        except grpc.RpcError as error:
            on_error(error)
            return None
        answers[what] = answer.SerializeToString(deterministic=True)
        return answer

    listed = ask("list", "StudyService/ListStudies", parent="projects/default")
    if listed is not None and any(study.state == 0 for study in listed.studies):
        del answers["list"]  # Damaged ones are listed as such.
    for study in STUDIES:
        ask(f"{study}", "StudyService/GetStudy", name=name_of(study))
        ask(f"{study} trials", "StudyService/ListTrials", parent=name_of(study), page_size=1000)
        ask(f"{study} best", "StudyService/ListTrials", parent=name_of(study), order_by="metrics.loss", page_size=5)
        ask(f"{study} events", "StudyService/ListEvents", name=name_of(study), page_size=1000)
    for number in (1, 30, 60):
        ask(f"curve {number}", "StudyService/GetTrial", name=f"{name_of('curves')}/trials/{number}",
            with_measurements=True)
    return answers


class Golden:
    """Data directories as coordinators left them, and what they answered."""

    def __init__(self, folder: Path) -> None:
        self.stopped = folder / "stopped"
        self.killed = folder / "killed"
        with Coordinator(folder) as coordinator:
            caller = coordinator.caller(coordinator.admin_token)
            fill(caller)
            self.first = enqueue(caller, "few", REQUEST)
            caller.close()
            coordinator.kill()
            shutil.copytree(coordinator.data, self.killed, ignore=shutil.ignore_patterns("socket", "*-shm", "lock"))
            coordinator.start()
            coordinator.stop()
            shutil.copytree(coordinator.data, self.stopped, ignore=shutil.ignore_patterns("socket", "lock"))
            coordinator.start()
            with contextlib.closing(coordinator.caller(coordinator.admin_token)) as again:
                self.answers = exported(again, lambda error: pytest.fail(str(error)))
        self.backup = folder / "backup"
        run("luthier", "admin", "backup", "--db", self.stopped, "--out", self.backup)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden(tmp_path_factory.mktemp("golden"))


def pages_in_use(database: Path) -> list[int]:
    """Numbers of the pages of tables and indexes, the header's among them."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as db:
        return sorted({row[0] for row in db.execute("SELECT pageno FROM dbstat")} | {1})


def flip(file: Path, at: int, rng: random.Random) -> str:
    data = bytearray(file.read_bytes())
    was = data[at]
    data[at] ^= 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
    file.write_bytes(data)
    return f"byte {at} of {file.name} (page {at // PAGE + 1}): {was:#04x} -> {data[at]:#04x}"


def byte_in_use(file: Path, rng: random.Random) -> str:
    page = rng.choice(pages_in_use(file))
    return flip(file, (page - 1) * PAGE + rng.randrange(PAGE), rng)


def zero_page(file: Path, rng: random.Random) -> str:
    page = rng.choice(pages_in_use(file)[1:])
    data = bytearray(file.read_bytes())
    data[(page - 1) * PAGE:page * PAGE] = bytes(PAGE)
    file.write_bytes(data)
    return f"page {page} zeroed"


def swap_pages(file: Path, rng: random.Random) -> str:
    one, other = rng.sample(pages_in_use(file)[1:], 2)
    data = bytearray(file.read_bytes())
    a, b = slice((one - 1) * PAGE, one * PAGE), slice((other - 1) * PAGE, other * PAGE)
    data[a], data[b] = data[b], data[a]
    file.write_bytes(data)
    return f"pages {one} and {other} exchanged"


def cut_off(file: Path, rng: random.Random) -> str:
    size = file.stat().st_size
    kept = rng.randrange(size // 3, size)
    os.truncate(file, kept)
    return f"cut off at {kept} of {size}"


def changed_row(file: Path, rng: random.Random) -> str:
    """What another program, or a hand, does to rows: page checksums do not fit afterwards either."""
    change = rng.choice(["UPDATE trial SET value = value + 1 WHERE number = 2", "DELETE FROM trial WHERE number = 60",
                         "UPDATE counter SET value = 0", "DELETE FROM event WHERE seq = 20",
                         "UPDATE study SET id = 'x' || id WHERE key = 1",
                         "UPDATE measurement SET trial = trial + 100 WHERE step = 2 AND trial = 20"])
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute(change)
        db.commit()
    return change


class Outcome:
    """What became of one damaged directory."""

    def __init__(self) -> None:
        self.noticed = False
        self.wrong: list[str] = []
        self.log = ""


def check(golden: Golden, folder: Path) -> Outcome:
    """Starts a coordinator on `folder`/data and compares all that it says."""
    outcome = Outcome()
    doctor = run("luthier", "admin", "doctor", "--db", folder / "data", "--output", "json", check=False)
    assert doctor.returncode in (0, 1), (doctor.returncode, doctor.stderr)
    outcome.noticed = doctor.returncode == 1
    replay = run("luthier", "verify-replay", "--db", folder / "data", check=False)
    assert replay.returncode in (0, 1, 5), (replay.returncode, replay.stderr)
    try:
        coordinator = Coordinator(folder)
    except AssertionError as refused:
        assert "does not serve, exit " in str(refused) and "exit -" not in str(refused), refused
        outcome.noticed, outcome.log = True, str(refused)
        return outcome

    def lost(error: grpc.RpcError) -> None:
        outcome.noticed = True
        if error.code() not in (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.UNAVAILABLE):
            outcome.wrong.append(f"{error.code()}: {error.details()}")

    with coordinator, contextlib.closing(coordinator.caller(coordinator.admin_token)) as caller:
        answers = exported(caller, lost)
        outcome.wrong += [what for what, answer in answers.items() if answer != golden.answers[what]]
        with contextlib.suppress(grpc.RpcError):  # The same answer, or none.
            again = enqueue(caller, "few", REQUEST)
            if again.trials[0].name != golden.first.trials[0].name:
                outcome.wrong.append(f"the repeated request made {again.trials[0].name}")
        # Others go on, or it ends in order.
        with contextlib.suppress(grpc.RpcError):
            caller.create_study(f"new-{uuid.uuid4().hex[:8]}")
            caller.complete(caller.suggest("few", 1)[0], 1.0)
        if not coordinator.alive():
            assert coordinator.process.returncode == 74, coordinator.log()[-3000:]
        outcome.log = coordinator.log()
    return outcome


def attacked(golden: Golden, source: Path, folder: Path, damage: Callable[[Path], str]) -> tuple[str, Outcome]:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder / "data")
    what = damage(folder / "data")
    outcome = check(golden, folder)
    assert not outcome.wrong, (what, outcome.wrong, outcome.log[-3000:])
    return what, outcome


def test_flipped_bytes_are_noticed_or_change_nothing(golden: Golden, tmp_path: Path, rng: random.Random) -> None:
    counts: Counter[str] = Counter()
    for i in range(FLIPS):
        what, outcome = attacked(golden, golden.stopped, tmp_path / f"flip{i % 2}",
                                 lambda data: byte_in_use(data / "luthier.db", rng))
        counts["noticed" if outcome.noticed else "harmless"] += 1
    print(f"{FLIPS} flips: {dict(counts)}")
    assert counts["noticed"] >= 0.6 * FLIPS


@pytest.mark.parametrize("harm", [zero_page, swap_pages, cut_off, changed_row])
def test_lost_pages_and_changed_rows_are_noticed(golden: Golden, tmp_path: Path, rng: random.Random,
                                                 harm: Callable[[Path, random.Random], str]) -> None:
    for i in range(max(1, FLIPS // 50)):
        what, outcome = attacked(golden, golden.stopped, tmp_path / f"harm{i % 2}",
                                 lambda data: harm(data / "luthier.db", rng))
        assert outcome.noticed, what


def test_a_damaged_or_missing_wal_is_no_end_of_the_log(golden: Golden, tmp_path: Path, rng: random.Random) -> None:
    """SQLite takes the rest of a WAL for never written; what was acknowledged tells."""
    size = (golden.killed / "luthier.db-wal").stat().st_size
    assert size > 10 * PAGE

    def missing(data: Path) -> str:
        (data / "luthier.db-wal").unlink()
        return "no WAL"

    what, outcome = attacked(golden, golden.killed, tmp_path / "missing", missing)
    assert outcome.noticed, what
    counts: Counter[str] = Counter()
    for i in range(max(2, FLIPS // 10)):
        what, outcome = attacked(golden, golden.killed, tmp_path / f"wal{i % 2}",
                                 lambda data: flip(data / "luthier.db-wal", rng.randrange(size), rng))
        counts["noticed" if outcome.noticed else "harmless"] += 1
    print(f"WAL: {dict(counts)}")


def test_a_flipped_bit_in_the_access_database_grants_nothing(golden: Golden, tmp_path: Path,
                                                             rng: random.Random) -> None:
    """A role, a hash, a time: whichever byte it is, the coordinator does not start with it."""
    for i in range(max(2, FLIPS // 20)):
        folder = tmp_path / f"access{i % 2}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(golden.stopped, folder / "data")
        database = folder / "data/access.db"
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as db:
            pages = [row[0] for row in db.execute("SELECT pageno FROM dbstat WHERE name = 'tokens'")]
        what = flip(database, (rng.choice(pages) - 1) * PAGE + rng.randrange(PAGE), rng)
        assert run("luthier", "admin", "doctor", "--db", folder / "data", check=False).returncode == 1, what
        with pytest.raises(AssertionError, match="does not serve, exit [0-9]"):
            Coordinator(folder)


def test_damaged_backups_are_refused_and_the_doctor_names_the_damage(golden: Golden, tmp_path: Path,
                                                                     rng: random.Random) -> None:
    for i in range(BACKUPS):
        copy, new = tmp_path / f"copy{i}", tmp_path / f"new{i}"
        shutil.copytree(golden.backup, copy)
        what = byte_in_use(copy / rng.choice(["luthier.db", "luthier.db", "luthier.db", "access.db"]), rng)
        restored = run("luthier", "admin", "restore", copy, "--db", new, check=False)
        assert restored.returncode in (1, 5), (what, restored.returncode, restored.stdout, restored.stderr)
        assert not (new / "luthier.db").exists(), what
        doctor = run("luthier", "admin", "doctor", "--db", copy, "--output", "json", check=False)
        assert doctor.returncode == 1, (what, doctor.stdout, doctor.stderr)
        if doctor.stdout:
            told = json.loads(doctor.stdout)
            assert told["luthier.db"] or told["access.db"], what
        shutil.rmtree(copy)


def test_a_damaged_study_is_set_aside_and_the_others_go_on(golden: Golden, tmp_path: Path) -> None:
    """Found on a page that one study alone has rows of; it can be deleted, and the others are served all the while."""
    shutil.copytree(golden.stopped, tmp_path / "data")
    database = tmp_path / "data/luthier.db"
    data = bytearray(database.read_bytes())
    place = data.index(b"the output of study large")  # In a row of study large.
    data[place] ^= 1
    database.write_bytes(data)
    doctor = run("luthier", "admin", "doctor", "--db", tmp_path / "data", "--output", "json", check=False)
    told = json.loads(doctor.stdout)
    assert told["damaged_studies"] == ["large"] and told["whole_studies"] == ["curves", "few"]
    with Coordinator(tmp_path) as coordinator:
        caller = coordinator.caller(None, coordinator.own_socket)
        states = {study.name: study.state for study in
                  caller.call("StudyService/ListStudies", parent="projects/default").studies}
        assert states[name_of("large")] == 0 and states[name_of("few")] == 1
        error = caller.error("WorkerService/Suggest", study=name_of("large"), worker="w", count=1,
                             request_id=str(uuid.uuid4()))
        assert error.code() == grpc.StatusCode.DATA_LOSS and "large" in error.details(), error
        assert "luthier admin doctor" in error.details()
        caller.complete(caller.suggest("few", 1)[0], 0.5)
        assert "DAMAGED" in run("luthier", "study", "list", "--server", coordinator.own_socket).stdout
        caller.call("StudyService/DeleteStudy", name=name_of("large"))
        assert caller.error("StudyService/GetStudy", name=name_of("large")).code() == grpc.StatusCode.NOT_FOUND
        caller.complete(caller.suggest("few", 1)[0], 0.5)
        coordinator.assert_alive()
        caller.close()
