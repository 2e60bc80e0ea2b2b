#!/usr/bin/env python3
"""Optuna's TPE and NSGA-II on the problems of metrics_problems.h; prints lines like those of metrics_bench.

  metrics_peers.py --seeds 10 --trials 60        needs optuna

Samplers are at their defaults but for the seed. Constraints go in as `constraints_func`.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from typing import Callable, Sequence

import numpy as np
import optuna
from optuna._hypervolume import compute_hypervolume

Values = list[float]


def branin_currin(u: Sequence[float]) -> Values:
    """Both objectives of the unit square."""
    x, y, p = 15 * u[0] - 5, 15 * u[1], u[0]
    a = y - 5.1 * x * x / (4 * math.pi**2) + 5 * x / math.pi - 6
    rise = 1 - math.exp(-1 / (2 * u[1])) if u[1] > 0 else 1.0
    return [
        a * a + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10,
        rise * (2300 * p**3 + 1900 * p**2 + 2092 * p + 60) / (100 * p**3 + 500 * p**2 + 4 * p + 20),
    ]


def vehicle_safety(v: Sequence[float]) -> Values:
    """Mass, acceleration and intrusion."""
    a, b, c, d, e = v
    return [
        1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d + 4.4559504 * e,
        6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d - 0.3695 * a * d + 0.0861 * a * e + 0.3628 * b * d
        - 0.1106 * a * a - 0.3437 * c * c + 0.1764 * d * d,
        -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c - 0.0118 * b * d
        - 0.0204 * c * d - 0.008 * c * e - 0.0241 * b * b + 0.0109 * d * d,
    ]


def dtlz2(v: Sequence[float]) -> Values:
    """Three objectives."""
    g = 1 + sum((x - 0.5) ** 2 for x in v[2:])
    s, t = 0.5 * math.pi * v[0], 0.5 * math.pi * v[1]
    return [g * math.cos(s) * math.cos(t), g * math.cos(s) * math.sin(t), g * math.sin(s)]


def tension_string(v: Sequence[float]) -> Values:
    """Weight, and four constraints."""
    a, b, c = v
    return [
        a * a * b * (c + 2),
        1 - b**3 * c / (71785 * a**4),
        (4 * b * b - a * b) / (12566 * (a**3 * b - a**4)) + 1 / (5108 * a * a) - 1 if a != b else math.inf,
        1 - 140.45 * a / (c * b * b),
        (a + b) / 1.5 - 1,
    ]


def welded_beam(v: Sequence[float]) -> Values:
    """Cost, and six constraints."""
    load, length, elasticity, shear = 6000.0, 14.0, 30e6, 12e6
    a, b, c, d = v
    moment, radius = load * (length + b / 2), math.sqrt(0.25 * (b * b + (a + c) ** 2))
    inertia = 2 * math.sqrt(2) * a * b * (b * b / 12 + 0.25 * (a + c) ** 2)
    first, second = load / (math.sqrt(2) * a * b), moment * radius / inertia
    buckling = 4.013 * elasticity * c * d**3 / 6 / length**2 * (1 - 0.25 * c * math.sqrt(elasticity / shear) / length)
    return [
        1.10471 * a * a * b + 0.04811 * c * d * (14 + b),
        math.sqrt(first**2 + first * second * b / radius + second**2) - 13600,
        6 * load * length / (d * c * c) - 30000,
        a - d,
        0.10471 * a * a + 0.04811 * c * d * (14 + b) - 5,
        4 * load * length**3 / (elasticity * c**3 * d) - 0.25,
        load - buckling,
    ]


Problem = tuple[Callable[[Sequence[float]], Values], list[tuple[float, float]], int, Values]
PROBLEMS: dict[str, Problem] = {
    "branin_currin": (branin_currin, [(0, 1)] * 2, 2, [18, 6]),
    "vehicle_safety": (vehicle_safety, [(1, 3)] * 5, 3, [1864.72022, 11.81993945, 0.2903999384]),
    "dtlz2": (dtlz2, [(0, 1)] * 6, 3, [1.1] * 3),
    "tension_string": (tension_string, [(0.01, 1), (0.01, 1), (0.01, 20)], 1, []),
    "welded_beam": (welded_beam, [(0.125, 10), (0.1, 10), (0.1, 10), (0.1, 10)], 1, []),
}


def search(problem: Problem, sampler: optuna.samplers.BaseSampler, trials: int) -> tuple[list[float], list[float]]:
    """Returns what the results are worth after each trial, and the milliseconds of each ask."""
    function, box, objectives, reference = problem
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    kept: list[Values] = []
    worth: list[float] = []
    times: list[float] = []
    for _ in range(trials):
        begin = time.perf_counter()
        trial = study.ask()
        x = [trial.suggest_float(f"x{j}", low, high) for j, (low, high) in enumerate(box)]
        times.append(1e3 * (time.perf_counter() - begin))
        values = function(x)
        trial.set_user_attr("constraints", values[objectives:])
        study.tell(trial, values[:objectives])
        if all(value <= 0 for value in values[objectives:]):
            kept.append(values[:objectives])
        if objectives == 1:
            worth.append(min((values[0] for values in kept), default=math.inf))
        else:
            above = [values for values in kept if all(v <= r for v, r in zip(values, reference))]
            worth.append(float(compute_hypervolume(np.array(above), np.array(reference))) if above else 0.0)
    return worth, times


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--every", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def constraints(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
        found: Sequence[float] = trial.user_attrs["constraints"]
        return found

    for name in arguments.problems.split(","):
        bounded = PROBLEMS[name][2] == 1
        for label in ("TPE", "NSGA-II"):
            runs = []
            for seed in range(1, arguments.seeds + 1):
                check = constraints if bounded else None
                sampler: optuna.samplers.BaseSampler = optuna.samplers.NSGAIISampler(seed=seed, constraints_func=check)
                if label == "TPE":
                    sampler = optuna.samplers.TPESampler(seed=seed, constraints_func=check)
                runs.append(search(PROBLEMS[name], sampler, arguments.trials))
            line = f"{name:15} {label:7}"
            for trials in range(arguments.every, arguments.trials + 1, arguments.every):
                worths = [worth[trials - 1] for worth, _ in runs]
                line += f"  {trials}: {statistics.median(worths):.6g}"
                if bounded:
                    line += f" ({sum(math.isfinite(worth) for worth in worths)})"
            late = [t for _, times in runs for t in times[-(arguments.trials // 5) :]]
            print(f"{line}  ask {statistics.median(late):.1f} ms", flush=True)


if __name__ == "__main__":
    main()
