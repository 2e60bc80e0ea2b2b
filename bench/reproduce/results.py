"""Reads what `reproduce` wrote, and compares settings as pages/reproduction.md says."""

import csv
import math
import os
import statistics

import wilcoxon

TINY = 1e-12  # Added to errors before ratios and logarithms.
SAME = 1e-10  # Errors below it are ties where a rule says so.
LOSS_FLOOR = 1e-4  # Nats: smaller differences of the logistic task's loss mean nothing.
MIN_SEEDS = 5  # Fewer cannot reach p < 0.05.


class Run:
    """One run: `best` after each evaluation, origins, numbers of the bounds."""

    def __init__(self, path):
        self.best, self.origin, self.bind, self.excluded, self.suggest_ms = [], [], [], [], []
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                self.best.append(float(row["best"]) if row["best"] else math.inf)
                self.origin.append(row["origin"])
                if row["bind_rate"]:
                    self.bind.append(float(row["bind_rate"]))
                    self.excluded.append(float(row["excluded_share"]))
                self.suggest_ms.append(float(row["suggest_ms"]))


class Comparison:
    """Setting a against b on one problem, over the seeds that both have."""

    def __init__(self, a, b):
        self.seeds = len(a)
        logs = [math.log(x + TINY) - math.log(y + TINY) for x, y in zip(a, b)]
        self.p_better = wilcoxon.signed_rank(logs)
        self.p_worse = wilcoxon.signed_rank([-d for d in logs])
        self.a = statistics.median(a)
        self.b = statistics.median(b)
        self.ratio = (self.a + TINY) / (self.b + TINY)

    @property
    def better(self):
        return self.p_better < 0.05 and self.ratio < 0.8

    @property
    def worse(self):
        return self.p_worse < 0.05 and self.ratio > 1.25

    @property
    def not_worse(self):
        return self.ratio < 1.25 and self.p_worse >= 0.05

    @property
    def large(self):
        return self.ratio < 0.2


class Results:
    def __init__(self, folder):
        self.folder = folder
        self.problems = {}  # Name -> (dimension, optimum or None), in the order of the file.
        with open(os.path.join(folder, "problems.csv"), newline="") as file:
            for row in csv.DictReader(file):
                self.problems[row["problem"]] = (int(row["dimension"]), float(row["optimum"]) if row["optimum"] else None)
        self.runs = {}  # (problem, setting) -> {seed: Run}
        for problem in self.problems:
            place = os.path.join(folder, problem)
            for setting in sorted(os.listdir(place)) if os.path.isdir(place) else []:
                by_seed = {}
                for name in sorted(os.listdir(os.path.join(place, setting))):
                    if name.endswith(".csv"):
                        by_seed[int(name[:-4])] = Run(os.path.join(place, setting, name))
                self.runs[problem, setting] = by_seed
        self.floor = {}  # Best loss known, where no optimum is.
        for (problem, _), by_seed in self.runs.items():
            if self.problems[problem][1] is None:
                least = min((r.best[-1] for r in by_seed.values()), default=math.inf)
                self.floor[problem] = min(least, self.floor.get(problem, math.inf))

    @property
    def functions(self):
        return [p for p, (_, optimum) in self.problems.items() if optimum is not None and not p.startswith(("robot", "additive"))]

    def seeds(self, problem, setting):
        return self.runs.get((problem, setting), {})

    def error(self, problem, best):
        optimum = self.problems[problem][1]
        if optimum is None:
            return max(best - self.floor[problem], LOSS_FLOOR)
        return abs(best - optimum)

    def errors(self, problem, setting, evaluations):
        """{seed: error after that many evaluations}, of the runs that are long enough."""
        return {
            seed: self.error(problem, run.best[evaluations - 1])
            for seed, run in self.seeds(problem, setting).items()
            if len(run.best) >= evaluations
        }

    def median(self, problem, setting, evaluations=100):
        errors = self.errors(problem, setting, evaluations)
        return statistics.median(errors.values()) if errors else None

    def compare(self, problem, a, b, evaluations=100, evaluations_b=None):
        """None when fewer than MIN_SEEDS seeds have both."""
        of_a = self.errors(problem, a, evaluations)
        of_b = self.errors(problem, b, evaluations_b or evaluations)
        common = sorted(set(of_a) & set(of_b))
        if len(common) < MIN_SEEDS:
            return None
        return Comparison([of_a[s] for s in common], [of_b[s] for s in common])
