#!/usr/bin/env python3
"""Times the Python package against a coordinator of its own, and prints a row a line: name, figure, target.

  LUTHIER_BIN_DIR=build/release/bin PYTHONPATH=client/python bench/python/rates.py [ROW...]

Rows: import, serve, quickstart, ask, aio, frame, optuna. Default: all. `optuna` needs Optuna, `frame` pandas. The
machine should have nothing else to do. Exit status 1 where a target is missed, 77 where a row's package is missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import luthier
import luthier.aio

_QUICKSTART = """
import luthier
def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    return (x - 2) ** 2
study = luthier.study("quickstart"); study.optimize(objective, n_trials=25)
print(study.best_value)
"""
FRAME_TRIALS, FRAME_PARAMETERS = 100_000, 8
AIO_TRIALS, AIO_JOBS, AIO_WORKERS = 20_000, 256, 8  # A worker holds 64 leases at most.
OPTUNA_TRIALS = 10_000

os.environ["PYTHONPATH"] = str(Path(luthier.__file__).resolve().parents[1])  # Also where a program's folder is another.
missed: list[str] = []


def row(name: str, figure: float, unit: str, target: str, met: bool) -> None:
    """Prints a figure beside its target."""
    if not met:
        missed.append(name)
    print(f"{name:44} {figure:10.4g} {unit:6} {target:16} {'' if met else 'MISSED'}", flush=True)


def seconds_of(code: str, folder: str) -> float:
    """Returns the wall time of a fresh interpreter that runs a program."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def time_import(folder: str) -> None:
    nothing = min(seconds_of("pass", folder) for _ in range(5))
    imported = statistics.median(seconds_of("import luthier", folder) for _ in range(9)) - nothing
    row("import luthier", imported, "s", "<= 0.25", imported <= 0.25)


def time_serve(folder: str) -> None:
    from luthier._server import LocalServer

    seconds = []
    for i in range(9):
        server = LocalServer(os.path.join(folder, f"serve{i}"))
        begin = time.perf_counter()
        server.target()
        seconds.append(time.perf_counter() - begin)
        server.close()
    row("coordinator serves after", statistics.median(seconds), "s", "<= 0.15", statistics.median(seconds) <= 0.15)


def time_quickstart(folder: str) -> None:
    seconds = []
    for i in range(5):
        own = os.path.join(folder, f"quick{i}")
        os.mkdir(own)
        seconds.append(seconds_of(_QUICKSTART, own))
    row("quickstart, 25 trials, whole program", statistics.median(seconds), "s", "<= 3", max(seconds) <= 3)


def time_ask(folder: str) -> None:
    study = luthier.study("ask", {"x": (0.0, 1.0)}, algorithm="random", max_trials=2000, db=os.path.join(folder, "ask"))
    seconds = []
    for _ in range(1000):
        begin = time.perf_counter()
        study.tell(study.ask(), 0.5)
        seconds.append(time.perf_counter() - begin)
    sync = _sync_seconds(folder)
    median = statistics.median(seconds)
    row("one file's write and sync", 1e3 * sync, "ms", "", True)
    row("ask + tell, median of 1,000", 1e3 * median, "ms", "<= 2 + 2 syncs", median <= 2e-3 + 2 * sync)


def _sync_seconds(folder: str) -> float:
    seconds = []
    with open(os.path.join(folder, "sync"), "wb", buffering=0) as file:
        for _ in range(200):
            begin = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def time_aio(folder: str) -> None:
    async def ask_and_tell(study: luthier.aio.Study, worker: str, left: list[int]) -> None:
        while left[0] > 0:
            left[0] -= 1
            trial = await study.ask(worker=worker)
            await study.tell(trial, 0.5)

    async def main() -> float:
        study = await luthier.aio.study(
            "aio", {"x": (0.0, 1.0)}, algorithm="random", max_trials=AIO_TRIALS, db=os.path.join(folder, "aio")
        )
        left = [AIO_TRIALS]
        begin = time.perf_counter()
        await asyncio.gather(*(ask_and_tell(study, f"w{i % AIO_WORKERS}", left) for i in range(AIO_JOBS)))
        seconds = time.perf_counter() - begin
        assert len(study.sync) == AIO_TRIALS
        await luthier.aio.close()
        return AIO_TRIALS / seconds

    begin = time.process_time()
    rate = asyncio.run(main())
    own = time.process_time() - begin
    row(f"asyncio, {AIO_JOBS} tasks: ask + tell", rate, "/s", ">= 5000", rate >= 5000)
    row("  this process's own time for each", 1e6 * own / AIO_TRIALS, "us", "", True)


def time_frame(folder: str) -> None:
    space = {f"p{i}": luthier.Float(0, 1) for i in range(FRAME_PARAMETERS)}
    study = luthier.study("frame", space, algorithm="random", db=os.path.join(folder, "frame"))
    rng = random.Random(1)
    begin = time.perf_counter()
    study.add_trials(
        {"params": {name: rng.random() for name in space}, "value": rng.random()} for _ in range(FRAME_TRIALS)
    )
    row(f"add_trials of {FRAME_TRIALS:,}", time.perf_counter() - begin, "s", "", True)
    begin = time.perf_counter()
    import pandas

    row("import pandas", time.perf_counter() - begin, "s", "", bool(pandas))
    for which in ("first", "second"):
        begin = time.perf_counter()
        frame = study.trials_dataframe()
        seconds = time.perf_counter() - begin
        assert len(frame) == FRAME_TRIALS
        row(f"trials_dataframe() of {FRAME_TRIALS:,} x {FRAME_PARAMETERS}, {which}", seconds, "s", "<= 1", seconds <= 1)


def time_optuna(folder: str) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{folder}/optuna.db"
    made = optuna.create_study(storage=url, study_name="s")
    floats = {name: optuna.distributions.FloatDistribution(0, 1) for name in "abcd"}
    rng = random.Random(1)
    made.add_trials(
        [
            optuna.trial.create_trial(
                params={n: rng.random() for n in floats}, distributions=floats, value=rng.random()
            )
            for _ in range(OPTUNA_TRIALS)
        ]
    )
    begin = time.perf_counter()
    study = luthier.from_optuna(url, study_name="s", db=os.path.join(folder, "from_optuna"))
    seconds = time.perf_counter() - begin
    assert len(study) == OPTUNA_TRIALS
    row(f"import of {OPTUNA_TRIALS:,} trials of Optuna (SQLite)", seconds, "s", "<= 20", seconds <= 20)


ROWS: dict[str, Callable[[str], None]] = {
    "import": time_import,
    "serve": time_serve,
    "quickstart": time_quickstart,
    "ask": time_ask,
    "aio": time_aio,
    "frame": time_frame,
    "optuna": time_optuna,
}


def main(names: list[str]) -> int:
    """Times the rows of these names."""
    unknown = sorted(set(names) - set(ROWS))
    if unknown:
        sys.exit(f"rates.py: there is no row {', '.join(unknown)}; rows are {', '.join(ROWS)}")
    lacking = []
    with tempfile.TemporaryDirectory(prefix="luthier-rates-", dir=os.environ.get("LUTHIER_BENCH_DIR")) as folder:
        print(
            json.dumps({"python": sys.version.split()[0], "cores": os.cpu_count(), "folder": str(Path(folder).parent)})
        )
        for name in names or ROWS:
            try:
                ROWS[name](folder)
            except ModuleNotFoundError as error:
                lacking.append(name)
                print(f"{name}: skipped: {error}", flush=True)
        from luthier import _client

        _client.close_all()
    return 1 if missed else 77 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
