#!/usr/bin/env python3
"""Our `tpe` and `cma_es` beside the packages that they are peers of; prints the tables of pages/model_free.md.

  model_free.py tpe --programs build/release/bin --seeds 20     needs optuna
  model_free.py speed --programs build/release/bin --seeds 3    needs optuna
  model_free.py cma --seeds 15                                  needs numpy, and cmaes or cma

Run it with the Python of an environment that has them (bench/search/peers/requirements: core, and hebo for cma). Peers call the
same compiled functions (tpe) or the same formulas (cma), begin in their own way and are at their defaults.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from methods import Function  # noqa: E402

FUNCTIONS = (
    "branin camel goldstein_price michalewicz2 michalewicz5 michalewicz10 rosenbrock2 rosenbrock3 rosenbrock4 rosenbrock5 "
    "hartmann3 hartmann6"
).split()


def quartiles(values: list[float]) -> tuple[float, float, float]:
    q = statistics.quantiles(values, n=4, method="inclusive")
    return q[0], q[1], q[2]


def optuna_tpe(f: Function) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    warnings.simplefilter("ignore")
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=f.seed))
    f.start()
    for _ in f.remaining():
        trial = study.ask()
        x = [trial.suggest_float(f"x{j}", lo, hi) for j, (lo, hi) in enumerate(zip(f.lower, f.upper))]
        study.tell(trial, f(x))


def ours(programs: Path, options: list[str]) -> dict[str, dict[int, list[dict[str, str]]]]:
    """Rows of search_bench by function and seed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        subprocess.run([programs / "search_bench", f"--csv={path}", *options], check=True, stdout=subprocess.DEVNULL)
        runs: dict[str, dict[int, list[dict[str, str]]]] = {}
        with path.open() as file:
            for row in csv.DictReader(file):
                runs.setdefault(row["function"], {}).setdefault(int(row["seed"]), []).append(row)
    return runs


def compare_tpe(programs: Path, seeds: int) -> None:
    evaluations, late = 100, 10
    print("| function | tpe, regret at n = 100 | Optuna | within its quartiles or better | tpe, ms | Optuna, ms |")
    print("|---|---|---|---|---|---|")
    within = 0
    for shift in ("", "+shift"):
        rows = ours(
            programs,
            ["--algorithms=tpe", f"--evaluations={evaluations}", f"--seeds={seeds}", "--at=100"]
            + (["--shift"] if shift else []),
        )
        for name in FUNCTIONS:
            mine = [float(run[-1]["regret"]) for run in rows[name + shift].values()]
            my_ms = [float(r["suggest_ms"]) for run in rows[name + shift].values() for r in run[-late:]]
            theirs, their_ms = [], []
            for seed in range(seeds):
                f = Function(programs / "function_server", name + shift, seed, evaluations)
                optuna_tpe(f)
                f.close()
                theirs.append(abs(min(f.values) - f.minimum))
                their_ms += f.suggest_ms[-late:]
            low, middle, high = quartiles(mine)
            q1, q2, q3 = quartiles(theirs)
            within += middle <= q3
            print(
                f"| {name}{shift} | {middle:.2g} ({low:.2g} … {high:.2g}) | {q2:.2g} ({q1:.2g} … {q3:.2g}) | "
                f"{'yes' if middle <= q3 else '**no**'} | {statistics.median(my_ms):.3f} | "
                f"{statistics.median(their_ms):.2f} |",
                flush=True,
            )
    print(f"\n{within} of {2 * len(FUNCTIONS)} within the quartiles or better.")


def compare_speed(programs: Path, seeds: int) -> None:
    """CPU time of a suggestion after 200 and 1,000 results on hartmann6, each method after its own."""
    counts, window = (200, 1000), 20
    evaluations = max(counts) + window
    rows = ours(
        programs,
        ["--algorithms=tpe", "--functions=hartmann6", f"--evaluations={evaluations}", f"--seeds={seeds}", "--at=1000"],
    )["hartmann6"]
    theirs = []
    for seed in range(seeds):
        f = Function(programs / "function_server", "hartmann6", seed, evaluations)
        optuna_tpe(f)
        f.close()
        theirs.append(f.suggest_ms)
    print("| results | tpe, ms | Optuna, ms | ratio |")
    print("|---|---|---|---|")
    for n in counts:
        mine = statistics.median(float(r["suggest_ms"]) for run in rows.values() for r in run[n : n + window])
        peer = statistics.median(ms for run in theirs for ms in run[n : n + window])
        print(f"| {n:,} | {mine:.3f} | {peer:.2f} | {peer / mine:.0f} |")


# Minima at 0.3 of the unit cube, which no method begins at; 10 dimensions.
def sphere(u: list[float]) -> float:
    return sum((v - 0.3) ** 2 for v in u)


def ellipsoid(u: list[float]) -> float:
    return sum(10.0 ** (6.0 * j / (len(u) - 1)) * (v - 0.3) ** 2 for j, v in enumerate(u))


def rosenbrock(u: list[float]) -> float:
    x = [4.0 * v - 1.0 for v in u]  # From [-1, 3]; the minimum at 1 is u = 0.5: begin elsewhere.
    return sum(100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2 for a, b in zip(x, x[1:]))


def count_cmaes(f: Callable[[list[float]], float], start: float, seed: int) -> int | None:
    import cmaes
    import numpy as np

    bounds = np.array([[0.0, 1.0]] * 10)
    search = cmaes.CMA(mean=np.full(10, start), sigma=0.3, bounds=bounds, seed=seed + 1)
    for count in range(0, 20000, search.population_size):
        told = []
        for k in range(search.population_size):
            x = search.ask()
            value = f(list(x))
            if value < 1e-8:
                return count + k + 1
            told.append((x, value))
        search.tell(told)
    return None


def count_cma(f: Callable[[list[float]], float], start: float, seed: int) -> int | None:
    import cma

    search = cma.CMAEvolutionStrategy([start] * 10, 0.3, {"seed": seed + 1, "verbose": -9, "bounds": [0, 1]})
    count = 0
    while count < 20000 and not search.stop():
        points = search.ask()
        values = [f(list(x)) for x in points]
        for k, value in enumerate(values):
            if value < 1e-8:
                return count + k + 1
        count += len(points)
        search.tell(points, values)
    return None


def compare_cma(seeds: int) -> None:
    print("| function | package | median evaluations to 1e-8 | runs that got there |")
    print("|---|---|---|---|")
    for f, start in ((sphere, 0.5), (ellipsoid, 0.5), (rosenbrock, 0.25)):
        for name, count in (("cmaes", count_cmaes), ("cma", count_cma)):
            if importlib.util.find_spec(name) is None:
                continue
            counts = [count(f, start, seed) for seed in range(seeds)]
            reached = [c for c in counts if c is not None]
            median = statistics.median(reached) if reached else math.nan
            print(f"| {f.__name__} | {name} | {median:.0f} | {len(reached)} of {seeds} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tpe", "speed", "cma"))
    parser.add_argument("--programs", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.what == "tpe":
        compare_tpe(arguments.programs, arguments.seeds)
    elif arguments.what == "speed":
        compare_speed(arguments.programs, arguments.seeds)
    else:
        compare_cma(arguments.seeds)


if __name__ == "__main__":
    main()
