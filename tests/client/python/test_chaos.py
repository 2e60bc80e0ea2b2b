"""Objectives, programs and coordinators that fail at random: nothing is lost, nothing is done twice.

LUTHIER_TEST_CHAOS_TRIALS=2000 makes it long, LUTHIER_TEST_SEED repeats a run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import luthier
from luthier._server import program

TRIALS = int(os.environ.get("LUTHIER_TEST_CHAOS_TRIALS", "100"))
WORKERS = 2


def _coordinators(db: str) -> list[int]:
    """Returns the processes that serve a data directory."""
    out = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"luthierd") and db.encode() in words:
            out.append(int(folder.name))
    return out


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # It has ended by itself.


def test_chaos(db: str, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    study = luthier.study("chaos", db=db, lease_ttl=10, max_trials=TRIALS, max_attempts=10, algorithm="random")
    worker = str(Path(__file__).with_name("chaos_worker.py"))
    calm = tmp_path / "calm"
    logs: list[Path] = []

    def start() -> subprocess.Popen[bytes]:
        logs.append(tmp_path / f"log{len(logs)}")
        logs[-1].touch()
        return subprocess.Popen([sys.executable, worker, db, str(logs[-1]), str(rng.randrange(2**30)), str(calm)])

    programs = [start() for _ in range(WORKERS)]
    killed: Counter[str] = Counter()
    ended: Counter[int] = Counter()
    deadline = time.monotonic() + 60 + TRIALS
    while programs:
        assert time.monotonic() < deadline, (killed, ended, study.get_trials(["RUNNING", "PENDING"]))
        time.sleep(rng.uniform(0.1, 0.5))  # The time between two accidents.
        for i in reversed(range(len(programs))):
            if programs[i].poll() is not None:
                code = programs.pop(i).returncode
                ended[code] += 1
                assert code in (0, -signal.SIGKILL, 128 + signal.SIGTERM), code
                if code != 0:
                    programs.append(start())
        if calm.exists():
            continue  # Leases of the dead end while the coordinator lives.
        if len(study) == TRIALS:
            calm.touch()
        elif rng.random() < 0.3:
            for pid in _coordinators(db):
                killed["coordinator"] += 1
                _kill(pid)
        elif rng.random() < 0.2 and programs:
            killed["worker"] += 1
            _kill(rng.choice(programs).pid)
    acknowledged = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    stored = {t.number: t for t in study.trials}
    states = Counter(t.state.value for t in stored.values())
    print("killed", dict(killed), "ended", dict(ended), "states", dict(states), "acknowledged", len(acknowledged))
    assert sorted(stored) == list(range(1, TRIALS + 1))
    assert set(states) <= {"COMPLETE", "FAILED", "PRUNED"}, states
    doubled = [n for n, count in Counter(number for number, _, _ in acknowledged).items() if count > 1]
    assert not doubled
    for number, state, value in acknowledged:
        assert (stored[number].state, repr(stored[number].value)) == (state, value)
    reasons = Counter(t.failure.partition(":")[0] for t in stored.values() if t.failure)
    print("failures", dict(reasons))
    assert set(reasons) <= {"EXCEPTION", "BAD_OUTPUT", "NON_FINITE", "MEMORY_LIMIT", "ATTEMPTS_EXHAUSTED"}
    from luthier import _client

    _client._clients.pop(db).close()
    done = subprocess.run(
        [program("luthier"), "--db", db, "verify-replay", "chaos"], capture_output=True, text=True, check=False
    )
    print(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
