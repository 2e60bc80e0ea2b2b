"""The results of peers/run_peers.py: reading them, regrets over seeds, targets and who meets them, times."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Sequence

HEADER = "algorithm,function,seed,evaluation,value,best,regret,suggest_ms".split(",")
MARKS = (20, 50, 100, 200)
JUDGED = (50, 100, 200)
TIE = 1e-10  # Regrets below this are as good as each other.
WINDOW = 10  # Suggestions before n that the time at n is taken from.
GRADIENT_METHODS = ("lbfgsb",)  # Told more than a value: shown, never judged against.

LOOKALIKES = ("direct", "direct_l")  # Of direct_l_rand: in the tables, not in the pictures.

# Median regret to reach after 50, 100 and 200 evaluations.
TARGETS: dict[str, tuple[float, float, float]] = {
    "branin": (1e-10, 1e-12, 1e-12),
    "camel": (1e-10, 1e-12, 1e-12),
    "goldstein_price": (1e-7, 1e-12, 1e-12),
    "michalewicz2": (1e-8, 1e-12, 1e-12),
    "michalewicz5": (0.8, 0.1, 1e-3),
    "michalewicz10": (3.9, 2.5, 1.0),
    "rosenbrock2": (1e-4, 1e-12, 1e-12),
    "rosenbrock3": (0.15, 2e-3, 1e-8),
    "rosenbrock4": (1.2, 0.08, 1e-3),
    "rosenbrock5": (2.5, 0.5, 0.02),
    "hartmann3": (1e-8, 1e-12, 1e-12),
    "hartmann6": (1e-3, 1e-8, 1e-12),
}
# CPU milliseconds of a suggestion on hartmann6: median and 95th percentile.
LATENCY_TARGETS = {50: (1.5, 4.0), 100: (3.0, 8.0), 200: (8.0, 20.0)}
TAIL_TARGET = 3.0  # 95th percentile over median.
# Of a whole run of 200 evaluations on hartmann6, ours over theirs.
TOTAL_TARGETS = {"optuna_gp": 1 / 10, "botorch": 1 / 50}
# Cells of 36 at or below each of these.
PEER_TARGETS = {"random": 36, "tpe": 36, "cmaes": 36, "dlib": 34, "direct_l": 34, "direct_l_rand": 34}
BEST_OF_ALL_TARGET = 33


@dataclass
class Run:
    method: str
    function: str
    seed: int
    planned: int  # Evaluations asked for; a method that ended by itself has fewer.
    values: list[float] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)
    suggest_ms: list[float] = field(default_factory=list)

    def regret_at(self, n: int) -> float | None:
        if n > self.planned or not self.regrets:
            return None
        return self.regrets[min(n, len(self.regrets)) - 1]


@dataclass(frozen=True)
class Cell:
    median: float
    q25: float
    q75: float
    seeds: int


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between order statistics, as numpy's default and search_bench's."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    share = at - low
    return ordered[low] if share == 0.0 else (1.0 - share) * ordered[low] + share * ordered[low + 1]


def read_run(path: Path, planned: int) -> Run:
    """One run's file. ValueError says what is wrong with it."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        if next(reader, None) != HEADER:
            raise ValueError(f"{path}: the first line is not {','.join(HEADER)}")
        run: Run | None = None
        for row in reader:
            if len(row) != len(HEADER):
                raise ValueError(f"{path}:{reader.line_num}: {len(row)} fields instead of {len(HEADER)}")
            method, function, seed, evaluation, value, _, regret, milliseconds = row
            run = run or Run(method, function, int(seed), planned)
            if (method, function, int(seed)) != (run.method, run.function, run.seed):
                raise ValueError(f"{path}:{reader.line_num}: rows of two runs")
            if int(evaluation) != len(run.regrets) + 1:
                raise ValueError(f"{path}:{reader.line_num}: evaluation {evaluation} after {len(run.regrets)}")
            run.values.append(float(value) if value else math.nan)
            run.regrets.append(float(regret) if regret else math.inf)
            run.suggest_ms.append(float(milliseconds))
    if run is None:
        raise ValueError(f"{path}: no rows")
    return run


def planned_of(path: Path) -> int:
    found = re.search(r"-n(\d+)$", path.stem)
    if not found:
        raise ValueError(f"{path}: the name does not end in -nEVALUATIONS")
    return int(found[1])


def load(results: Path, ours_folder: str) -> tuple[list[Run], list[tuple[str, str, str]]]:
    """All runs, the longest of each (method, function, seed); and failures: method, run, reason."""
    folders = [p for p in sorted(results.iterdir()) if p.is_dir() and p.name != "ours"]
    folders += [p for p in sorted((results / ours_folder).iterdir()) if p.is_dir()]
    runs: dict[tuple[str, str, int], Run] = {}
    failures = []
    for folder in folders:
        for path in sorted(folder.glob("*.csv")):
            run = read_run(path, planned_of(path))
            key = (run.method, run.function, run.seed)
            if key not in runs or runs[key].planned < run.planned:
                runs[key] = run
        for path in sorted(folder.glob("*.failed")):
            failures.append((folder.name, path.stem, " ".join(path.read_text().split())[:300]))
    return list(runs.values()), failures


def cells_of(runs: Iterable[Run], marks: Sequence[int] = MARKS) -> dict[tuple[str, str, int], Cell]:
    """(method, function, n) -> the regrets over seeds."""
    regrets: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for run in runs:
        for n in marks:
            regret = run.regret_at(n)
            if regret is not None:
                regrets[run.method, run.function, n].append(regret)
    return {
        key: Cell(quantile(v, 0.5), quantile(v, 0.25), quantile(v, 0.75), len(v)) for key, v in regrets.items()
    }


def at_or_below(ours: float, theirs: float) -> bool:
    return ours <= theirs or ours <= TIE


@dataclass(frozen=True)
class Verdict:
    """One cell of 36."""

    function: str
    n: int
    ours: Cell
    target: float | None  # None in shifted boxes.
    best_peer: str | None  # None: no peer has this cell.
    best: Cell | None

    @property
    def meets_target(self) -> bool:
        return self.target is not None and self.ours.median <= self.target

    @property
    def beats_best(self) -> bool:
        return self.best is not None and at_or_below(self.ours.median, self.best.median)


def judge(
    cells: dict[tuple[str, str, int], Cell], method: str, peers: Sequence[str], functions: Sequence[str]
) -> list[Verdict]:
    """`method` in every cell against its target and the best of `peers` there. Cells it has not run are left out."""
    verdicts = []
    for function in functions:
        for i, n in enumerate(JUDGED):
            ours = cells.get((method, function, n))
            if ours is None:
                continue
            there = [(cells[p, function, n].median, p) for p in peers if (p, function, n) in cells]
            best = min(there)[1] if there else None
            target = TARGETS[function][i] if function in TARGETS else None
            verdicts.append(Verdict(function, n, ours, target, best, cells[best, function, n] if best else None))
    return verdicts


def duel(cells: dict[tuple[str, str, int], Cell], method: str, peer: str, functions: Sequence[str]) -> tuple[int, int]:
    """Cells at or below the peer's, of those that both have."""
    won = shared = 0
    for function in functions:
        for n in JUDGED:
            ours, theirs = cells.get((method, function, n)), cells.get((peer, function, n))
            if ours and theirs:
                shared += 1
                won += at_or_below(ours.median, theirs.median)
    return won, shared


def latency_of(runs: Iterable[Run], n: int) -> tuple[float, float] | None:
    """Median and 95th percentile of the CPU milliseconds of the last WINDOW suggestions up to n, over all runs."""
    times = [ms for run in runs if len(run.suggest_ms) >= n for ms in run.suggest_ms[n - WINDOW : n]]
    return (quantile(times, 0.5), quantile(times, 0.95)) if times else None


def total_ms(runs: Iterable[Run], n: int) -> float | None:
    """Median over runs of the CPU time of n suggestions."""
    totals = [sum(run.suggest_ms[:n]) for run in runs if len(run.suggest_ms) >= n]
    return quantile(totals, 0.5) if totals else None


def paired(ours: Iterable[Run], theirs: Iterable[Run], count: int) -> bool:
    """Whether the first `count` evaluations of equal (function, seed) gave equal values, up to a peer's rounding."""
    values = {(r.function, r.seed): r.values[:count] for r in ours}
    shared = [r for r in theirs if (r.function, r.seed) in values]
    pairs = [pair for r in shared for pair in zip(r.values[:count], values[r.function, r.seed])]
    return bool(pairs) and all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in pairs)
