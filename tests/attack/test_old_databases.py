"""Databases that the programs of past commits filled (tests/data/real): opened, killed while they are brought up to
date, and read again. What those programs said of their studies and trials is what today's says."""

from __future__ import annotations

import contextlib
import json
import lzma
import platform
import runpy
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attack import BIN, PATIENCE, ROOT, Coordinator, run

REAL = ROOT / "tests/data/real"
STATES = ROOT / "tests/data/states"
DATABASES = sorted((path.parent for path in REAL.glob("v*/luthier.db.xz")), key=lambda path: int(path.name[1:]))
KILLS = 6
# What is computed when it is asked for, not stored; it may be told better since.
COMPUTED = {"certificate", "harmonica_stages", "parameters_never_selected", "algorithm_reasons", "resolved_algorithm",
            "state_reason", "update_time", "update_seq"}


@pytest.fixture(params=DATABASES, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory with such a database; its answers are in answers.json beside it."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in ("luthier.db", "answers.json"):
        target = data / name if name.endswith("db") else tmp_path / name
        target.write_bytes(lzma.decompress((request.param / f"{name}.xz").read_bytes()))
    return data


def plain(message: Any) -> Any:
    """A message as JSON has it."""
    from google.protobuf import json_format

    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def answers(coordinator: Coordinator, studies: list[str]) -> dict[str, Any]:
    """What the coordinator says of the studies and their trials."""
    caller = coordinator.caller(address=coordinator.own_socket)
    found = {}
    for name in studies:
        trials = caller.call("StudyService/ListTrials", parent=name, page_size=1000).trials
        found[name] = {
            "study": plain(caller.call("StudyService/GetStudy", name=name)),
            "trials": [plain(caller.call("StudyService/GetTrial", name=trial.name, with_measurements=True))
                       for trial in trials]}
    return found


def as_today(algorithm: dict[str, Any]) -> list[str]:
    """Moves options that stood beside `expert` into it. The names of those that are no more, which it takes out."""
    caller_types = algorithm_type()
    gone = []
    for kind, options in algorithm.items():
        described = caller_types.fields_by_name[kind].message_type
        expert = described.fields_by_name["expert"].message_type if "expert" in described.fields_by_name else None
        for name in list(options):
            home, field = options, described.fields_by_name.get(name)
            if field is None and expert is not None:
                home, field = options.setdefault("expert", {}), expert.fields_by_name.get(name)
            value = options.pop(name)
            if field is None or (field.enum_type and value not in field.enum_type.values_by_name):
                gone.append(name)
                continue
            home[name] = value
            if field.message_type and field.message_type.full_name == caller_types.full_name:
                gone += as_today(value)
    return gone


def algorithm_type() -> Any:
    """The description of the message Algorithm."""
    from luthier.v1 import study_pb2

    return study_pb2.Algorithm.DESCRIPTOR


def differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Where `now` lacks or changes what was in `before`. Fields that came since are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        kept = {key: value for key, value in before.items() if key not in COMPUTED}
        return [f"{where}.{key} is gone" for key in kept if key not in now] + [
            found for key in kept if key in now for found in differences(kept[key], now[key], f"{where}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [found for i, (a, b) in enumerate(zip(before, now)) for found in differences(a, b, f"{where}[{i}]")]
    return [] if before == now else [f"{where}: {before!r} became {now!r}"]


def check(coordinator: Coordinator, data: Path) -> None:
    """Fails where an answer is another one than the past program's."""
    before = json.loads((data.parent / "answers.json").read_text())
    for said in before.values():
        as_today(said["study"]["spec"].get("algorithm", {}))
    now = answers(coordinator, list(before))
    found = differences(before, now)
    assert not found, "\n".join(found[:20])
    for name, said in now.items():  # Studies of that name have an option that is no more, and say so.
        removed = said["study"]["spec"].get("removed_options", [])
        assert bool(removed) == ("/gone-" in name), f"{name}: {removed}"
        assert all(option in "".join(said["study"]["algorithm_reasons"]) for option in removed), name


def test_it_opens_with_every_answer_as_it_was_and_goes_on(old: Path) -> None:
    with Coordinator(old.parent) as coordinator:
        check(coordinator, old)
        # Its studies go on: a lease that was open when the past program ended, and a new one.
        caller = coordinator.caller(address=coordinator.own_socket)
        lease = caller.suggest("sobol", worker="another")[0]
        caller.complete(lease, 0.5)
        assert coordinator.stop() == 0
        coordinator.start()
        assert any(trial.name == lease.trial.name and trial.HasField("end_time")
                   for trial in coordinator.caller(address=coordinator.own_socket).trials("sobol"))
    replayed = run("luthier", "verify-replay", "--db", old, check=False)
    assert replayed.returncode in (0, 1) and "Traceback" not in replayed.stderr, replayed.stderr


def test_kills_while_it_is_brought_up_to_date_lose_nothing(old: Path, rng: Random) -> None:
    command = [BIN / "luthierd", "--listen", "", "--data-dir", old]
    for i in range(KILLS):
        command[2] = f"unix:{old.parent}/s{i}"
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # A start takes some tens of milliseconds, of which the migration is the smaller part.
        time.sleep(rng.uniform(0.0, 0.08))
        process.send_signal(signal.SIGKILL)
        log = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == -signal.SIGKILL, log
    with Coordinator(old.parent) as coordinator:
        check(coordinator, old)
    for backup in (old / "backups").glob("luthier-v*.db"):
        with contextlib.closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], backup


def test_the_backup_that_is_made_before_is_the_database_as_it_was(old: Path) -> None:
    with Coordinator(old.parent) as coordinator:
        check(coordinator, old)
    backups = sorted((old / "backups").glob("*.db"))
    if not backups:
        pytest.skip("nothing was migrated")
    again = old.parent / "again" / "data"
    again.mkdir(parents=True)
    shutil.copyfile(backups[0], again / "luthier.db")
    shutil.copyfile(old.parent / "answers.json", again.parent / "answers.json")
    with Coordinator(again.parent) as coordinator:
        check(coordinator, again)


def same_arithmetic() -> bool:
    """Whether these programs round as those did that filled tests/data/states: one compiler, one instruction set."""
    return (BIN.parent.name == "release" and platform.machine() == "x86_64"
            and {"avx2", "bmi2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split()))


def test_studies_of_every_algorithm_go_on_as_the_past_program_would_have(tmp_path: Path) -> None:
    from google.protobuf import json_format
    from luthier.v1 import trial_pb2

    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/luthier.db").write_bytes(lzma.decompress((STATES / "luthier.db.xz").read_bytes()))
    followed = json.loads(lzma.decompress((STATES / "followed.json.xz").read_bytes()))
    outcome = runpy.run_path(str(STATES / "loss.py"))["outcome"]
    different = []
    with Coordinator(tmp_path) as coordinator:
        caller = coordinator.caller(address=coordinator.own_socket)
        studies = {study: caller.call("StudyService/GetStudy", name=f"projects/default/studies/{study}") for study in followed}
        without = [study for study, message in studies.items() if message.spec.removed_options]
        assert without == ["box"]  # Its option `trust_box` is no more; it goes on without.
        for study, past in followed.items():
            for i, expected in enumerate(past["asked"], past["done"]):
                lease = caller.suggest(study, worker=f"worker-{i % 2}")[0]
                number = int(lease.trial.name.rsplit("/", 1)[1])
                parameters = json_format.MessageToDict(lease.trial.parameters)
                if study not in without and [number, parameters, lease.target_step] != expected:
                    different.append(f"{study}: {number} {parameters}, not {expected}")
                answer = outcome(study, number, parameters, list(lease.trial.provenance.direction), lease.target_step)
                mine = {"trial": lease.trial.name, "token": lease.token}
                if answer is None:
                    failure = trial_pb2.Failure(kind=trial_pb2.Failure.CONFIG, reason="DIVERGED")
                    caller.call("WorkerService/Fail", failure=failure, **mine)
                    continue
                paused = 0 < lease.target_step < 9
                caller.call("WorkerService/Complete", measurement=json_format.ParseDict(answer, trial_pb2.Measurement()),
                            paused=paused, checkpoint="file:end" if paused else "", **mine)
    assert not (different and same_arithmetic()), "\n".join(different[:20])
    replayed = run("luthier", "verify-replay", "--db", tmp_path / "data", check=False)
    assert replayed.returncode == 0 or (replayed.returncode == 1 and not same_arithmetic()), replayed.stdout
