#!/usr/bin/env python3
"""Peers on the problems of metrics_problems.h; prints a line a search.

  metrics_peers.py --peers TPE,NSGA-II,NSGA-III --seeds 10 --trials 60 --rows rows.csv

TPE, NSGA-II, NSGA-III and GP are Optuna's samplers at their defaults but for the seed (GP needs torch); constraints go in as
`constraints_func`. BoTorch is a SingleTaskGP a metric with qLogNoisyExpectedHypervolumeImprovement, or with one
objective LogConstrainedExpectedImprovement, as its tutorials have them: 2(d + 1) Sobol points, then 10 restarts of 512
samples. It is told the problem's reference point, which it needs. Times are of the processor, of one thread where
OMP_NUM_THREADS=1. Searches whose rows are there are not run again.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import time
import warnings
from typing import Any, Callable, Sequence

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


def dtlz2(v: Sequence[float], objectives: int = 3) -> Values:
    """As many objectives as asked for."""
    values = []
    for j in range(objectives):
        value = 1 + sum((x - 0.5) ** 2 for x in v[objectives - 1 :])
        for i in range(objectives - 1 - j):
            value *= math.cos(0.5 * math.pi * v[i])
        values.append(value * math.sin(0.5 * math.pi * v[objectives - 1 - j]) if j > 0 else value)
    return values


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


def speed_reducer(v: Sequence[float]) -> Values:
    """Weight, and eleven constraints, of which the last five are one metric: their largest."""
    a, b, c, d, e, f, g = v
    gear = a * b * b * c
    return [
        0.7854 * a * b * b * (3.3333 * c * c + 14.9334 * c - 43.0934) - 1.508 * a * (f * f + g * g)
        + 7.4777 * (f**3 + g**3) + 0.7854 * (d * f * f + e * g * g),
        27 / gear - 1,
        397.5 / (gear * c) - 1,
        1.93 * d**3 / (b * c * f**4) - 1,
        1.93 * e**3 / (b * c * g**4) - 1,
        math.sqrt((745 * d / (b * c)) ** 2 + 16.9e6) / (110 * f**3) - 1,
        math.sqrt((745 * e / (b * c)) ** 2 + 157.5e6) / (85 * g**3) - 1,
        max(b * c / 40 - 1, 5 - a / b, a / b - 12, (1.5 * f + 1.9) / d - 1, (1.1 * g + 1.9) / e - 1),
    ]


Problem = tuple[Callable[[Sequence[float]], Values], list[tuple[float, float]], int, Values]
PROBLEMS: dict[str, Problem] = {
    "branin_currin": (branin_currin, [(0, 1)] * 2, 2, [18, 6]),
    "vehicle_safety": (vehicle_safety, [(1, 3)] * 5, 3, [1864.72022, 11.81993945, 0.2903999384]),
    "dtlz2": (dtlz2, [(0, 1)] * 6, 3, [1.1] * 3),
    "dtlz2_5": (lambda v: dtlz2(v, 5), [(0, 1)] * 8, 5, [1.1] * 5),
    "tension_string": (tension_string, [(0.01, 1), (0.01, 1), (0.01, 20)], 1, []),
    "welded_beam": (welded_beam, [(0.125, 10), (0.1, 10), (0.1, 10), (0.1, 10)], 1, []),
    "speed_reducer": (
        speed_reducer, [(2.6, 3.6), (0.7, 0.8), (17, 28), (7.3, 8.3), (7.8, 8.3), (2.9, 3.9), (5, 5.5)], 1, [],
    ),
}


class Course:
    """What the results of a search are worth after each trial, and the milliseconds of each ask."""

    def __init__(self, problem: Problem) -> None:
        _, _, self.objectives, self.reference = problem
        self.kept: list[Values] = []
        self.worth: list[float] = []
        self.milliseconds: list[float] = []

    def add(self, values: Values, milliseconds: float) -> None:
        """Takes the next result."""
        self.milliseconds.append(milliseconds)
        if all(value <= 0 for value in values[self.objectives :]):
            self.kept.append(values[: self.objectives])
        if self.objectives == 1:
            self.worth.append(min((values[0] for values in self.kept), default=math.inf))
            return
        above = [values for values in self.kept if all(v <= r for v, r in zip(values, self.reference))]
        self.worth.append(float(compute_hypervolume(np.array(above), np.array(self.reference))) if above else 0.0)


def constraints_of(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
    """The constraints that the program noted."""
    found: Sequence[float] = trial.user_attrs["constraints"]
    return found


def search_optuna(problem: Problem, peer: str, seed: int, trials: int) -> Course:
    """One search with a sampler of Optuna."""
    function, box, objectives, _ = problem
    samplers = {
        "TPE": optuna.samplers.TPESampler, "NSGA-II": optuna.samplers.NSGAIISampler,
        "NSGA-III": optuna.samplers.NSGAIIISampler, "GP": optuna.samplers.GPSampler,
    }
    sampler = samplers[peer](seed=seed, constraints_func=constraints_of if objectives == 1 else None)
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    course = Course(problem)
    for _ in range(trials):
        begin = time.process_time()
        trial = study.ask()
        x = [trial.suggest_float(f"x{j}", low, high) for j, (low, high) in enumerate(box)]
        milliseconds = 1e3 * (time.process_time() - begin)
        values = function(x)
        trial.set_user_attr("constraints", values[objectives:])
        study.tell(trial, values[:objectives])
        course.add(values, milliseconds)
    return course


def suggest_botorch(problem: Problem, x: Any, y: Any) -> Any:
    """The next setting of the unit cube, after settings `x` with objectives to maximize and constraints in `y`."""
    import torch
    from botorch import fit_gpytorch_mll
    from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import SumMarginalLogLikelihood

    _, box, objectives, reference = problem
    columns = [y[:, j : j + 1] for j in range(y.shape[1])]
    model = ModelListGP(*[SingleTaskGP(x, column, outcome_transform=Standardize(1)) for column in columns])
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    acquisition: Any
    if objectives > 1:
        floor = [-r for r in reference]
        acquisition = qLogNoisyExpectedHypervolumeImprovement(model, floor, X_baseline=x, prune_baseline=True)
    else:
        kept = (y[:, 1:] <= 0).all(dim=1)
        best = y[kept, 0].max() if kept.any() else y[:, 0].min()
        bounds = {j: (None, 0.0) for j in range(1, y.shape[1])}
        acquisition = LogConstrainedExpectedImprovement(model, best, 0, bounds)
    unit = torch.stack([torch.zeros(len(box)), torch.ones(len(box))]).double()
    return optimize_acqf(acquisition, bounds=unit, q=1, num_restarts=10, raw_samples=512)[0]


def search_botorch(problem: Problem, seed: int, trials: int) -> Course:
    """One search with BoTorch. It has no failed trials: results that are not finite are left out."""
    import torch

    function, box, objectives, _ = problem
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    first = torch.quasirandom.SobolEngine(len(box), scramble=True, seed=seed).draw(2 * (len(box) + 1)).double()
    course, settings, results = Course(problem), [], []
    for i in range(trials):
        begin = time.process_time()
        u = first[i : i + 1] if i < len(first) else suggest_botorch(problem, torch.cat(settings), torch.cat(results))
        milliseconds = 1e3 * (time.process_time() - begin)
        values = function([low + float(v) * (high - low) for v, (low, high) in zip(u[0], box)])
        course.add(values, milliseconds)
        if all(map(math.isfinite, values)):
            settings.append(u)
            results.append(torch.tensor([[-v for v in values[:objectives]] + values[objectives:]]).double())
    return course


def is_there(rows: str | None, problem: str, peer: str, seed: int) -> bool:
    """Whether the rows of a search are there from a run that was interrupted."""
    if rows is None or not os.path.exists(rows):
        return False
    with open(rows, encoding="utf-8") as lines:
        return any(line.startswith(f"{problem},{peer},{seed},") for line in lines)


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--peers", default="TPE,NSGA-II", help="of TPE, NSGA-II, NSGA-III, GP, BoTorch")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--rows", help="CSV file to which rows for metrics_page.py are appended")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for seed in range(1, arguments.seeds + 1):
        for name, peer in itertools.product(arguments.problems.split(","), arguments.peers.split(",")):
            if is_there(arguments.rows, name, peer, seed):
                continue
            if peer == "BoTorch":
                course = search_botorch(PROBLEMS[name], seed, arguments.trials)
            else:
                course = search_optuna(PROBLEMS[name], peer, seed, arguments.trials)
            late = statistics.median(course.milliseconds[-(arguments.trials // 5) :])
            print(f"{name:15} {peer:8} seed {seed}: {course.worth[-1]:.6g}, ask {late:.1f} ms", flush=True)
            if not arguments.rows:
                continue
            with open(arguments.rows, "a", encoding="utf-8") as out:
                for trials in range(10, arguments.trials + 1, 10):
                    out.write(f"{name},{peer},{seed},{trials},{course.worth[trials - 1]!r},{late:.3g}\n")


if __name__ == "__main__":
    main()
