#!/usr/bin/env python3
"""Runs one peer on one test function for some seeds; run_peers.py starts it inside the peer's environment.

  methods.py --server PATH --peer NAME --function NAME[+shift] --seeds 0,1,2 --evaluations N --out FOLDER

Writes FOLDER/FUNCTION-sSEED-nEVALUATIONS.csv for every seed, in the columns of `luthier simulate`, or the same name with
.failed and the reason in it. A file is there whole or not at all.

What counts as a peer's time: the CPU time (of all threads) of this process between two evaluations. The function itself
runs in another process, so its time never counts. What counts as an evaluation: every call of the function, whoever
asked for it.

Peers run as they come: their documented defaults, minimisation, one thread. `start` says what each is given to begin
with: our points (the first ones of `bo` under the same seed, as many as the peer would draw itself) or its own.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

HEADER = "algorithm,function,seed,evaluation,value,best,regret,suggest_ms".split(",")


class Finished(Exception):
    """The budget is used up. For methods that call the function themselves."""


class Function:
    """A test function, counted and timed. `function` may end in +shift: then the box is that of the seed."""

    def __init__(self, server: Path, function: str, seed: int, evaluations: int) -> None:
        name, plus, _ = function.partition("+shift")
        command = [str(server), name] + ([str(seed)] if plus else [])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        first = self._read()
        self.dim = int(first[0])
        self.minimum = first[1]
        self.lower = first[2 : 2 + self.dim]
        self.upper = first[2 + self.dim :]
        self.seed = seed
        self.evaluations = evaluations
        self.values: list[float] = []
        self.suggest_ms: list[float] = []
        self._since = time.process_time()

    def _read(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"function_server ended with status {self._process.wait()}")
        return [float(word) for word in line.split()]

    def _ask(self, request: str) -> list[float]:
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self._process.communicate()

    def initial(self, count: int) -> list[list[float]]:
        """The first points of `bo` under the same seed."""
        flat = self._ask(f"initial {self.seed} {count}")
        return [flat[i : i + self.dim] for i in range(0, len(flat), self.dim)]

    def start(self) -> None:
        """Starts the clock: after imports."""
        self._since = time.process_time()

    def _evaluate(self, kind: str, x: Sequence[float]) -> list[float]:
        milliseconds = 1000.0 * (time.process_time() - self._since)
        if len(self.values) == self.evaluations:
            raise Finished
        point = [float(v) for v in x]
        if len(point) != self.dim:
            raise ValueError(f"{len(point)} coordinates instead of {self.dim}")
        for j, v in enumerate(point):
            slack = 1e-9 * (self.upper[j] - self.lower[j])
            if not self.lower[j] - slack <= v <= self.upper[j] + slack:
                raise ValueError(f"x{j + 1} = {v} is outside [{self.lower[j]}, {self.upper[j]}]")
            point[j] = min(max(v, self.lower[j]), self.upper[j])
        answer = self._ask(kind + " " + " ".join(repr(v) for v in point))
        self.values.append(answer[0])
        self.suggest_ms.append(milliseconds)
        self._since = time.process_time()
        return answer

    def __call__(self, x: Sequence[float]) -> float:
        return self._evaluate("f", x)[0]

    def with_gradient(self, x: Sequence[float]) -> tuple[float, list[float]]:
        answer = self._evaluate("g", x)
        return answer[0], answer[1:]

    def remaining(self) -> range:
        return range(len(self.values), self.evaluations)

    def from_unit(self, u: Sequence[float]) -> list[float]:
        return [lo + float(v) * (hi - lo) for v, lo, hi in zip(u, self.lower, self.upper)]

    def to_unit(self, x: Sequence[float]) -> list[float]:
        return [(v - lo) / (hi - lo) for v, lo, hi in zip(x, self.lower, self.upper)]


# Peers. Each takes a Function and calls it until the budget is used up; `start` goes after the imports.


def run_dlib(f: Function) -> None:
    import dlib

    search = dlib.global_function_search(dlib.function_spec(f.lower, f.upper))
    search.set_seed(f.seed)
    f.start()
    for _ in f.remaining():
        request = search.get_next_x()
        request.set(-f(request.x))


def run_nlopt(f: Function, algorithm: str) -> None:
    import nlopt

    nlopt.srand(f.seed + 1)  # 0 would be the time of day.
    search = nlopt.opt(getattr(nlopt, algorithm), f.dim)
    search.set_lower_bounds(f.lower)
    search.set_upper_bounds(f.upper)
    search.set_min_objective(lambda x, _: f(x))
    search.set_maxeval(f.evaluations)
    f.start()
    search.optimize([(lo + hi) / 2.0 for lo, hi in zip(f.lower, f.upper)])


def run_optuna(f: Function, sampler: Callable[[Any, int], Any], initial: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    names = [f"x{j + 1}" for j in range(f.dim)]
    space = {n: optuna.distributions.FloatDistribution(lo, hi) for n, lo, hi in zip(names, f.lower, f.upper)}
    study = optuna.create_study(sampler=sampler(optuna.samplers, f.seed))
    for x in f.initial(initial) if initial else []:
        study.enqueue_trial(dict(zip(names, x)))
    f.start()
    for _ in f.remaining():
        trial = study.ask(space)
        study.tell(trial, f([trial.params[n] for n in names]))


def run_bayesian_optimization(f: Function) -> None:
    import bayes_opt

    warnings.simplefilter("ignore")
    names = [f"x{j + 1:02d}" for j in range(f.dim)]
    box = {n: (lo, hi) for n, lo, hi in zip(names, f.lower, f.upper)}
    # Without the last setting it stops at the first point that it proposes twice.
    search = bayes_opt.BayesianOptimization(None, box, random_state=f.seed, verbose=0, allow_duplicate_points=True)
    f.start()
    for x in f.initial(5):
        search.register(dict(zip(names, x)), -f(x))
    for _ in f.remaining():
        point = search.suggest()
        search.register(point, -f([point[n] for n in names]))


def run_scikit_optimize(f: Function) -> None:
    import skopt

    warnings.simplefilter("ignore")
    search = skopt.Optimizer([(lo, hi) for lo, hi in zip(f.lower, f.upper)], n_initial_points=10, random_state=f.seed)
    f.start()
    for x in f.initial(10):
        search.tell(x, f(x))
    for _ in f.remaining():
        x = search.ask()
        search.tell(x, f(x))


def run_botorch(f: Function) -> None:
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(f.seed)
    bounds = torch.tensor([[0.0] * f.dim, [1.0] * f.dim], dtype=torch.double)
    f.start()
    initial = f.initial(2 * (f.dim + 1))
    u = torch.tensor([f.to_unit(x) for x in initial], dtype=torch.double)
    y = torch.tensor([[-f(x)] for x in initial], dtype=torch.double)
    for _ in f.remaining():
        model = SingleTaskGP(u, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        candidate, _ = optimize_acqf(
            LogExpectedImprovement(model, best_f=y.max()), bounds=bounds, q=1, num_restarts=10, raw_samples=512
        )
        value = f(f.from_unit(candidate[0].tolist()))
        u = torch.cat([u, candidate])
        y = torch.cat([y, torch.tensor([[-value]], dtype=torch.double)])


def run_hebo(f: Function) -> None:
    import numpy as np
    import pandas as pd
    import torch
    from hebo.design_space.design_space import DesignSpace
    from hebo.optimizers.hebo import HEBO

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(f.seed)
    np.random.seed(f.seed)
    names = [f"x{j + 1}" for j in range(f.dim)]
    space = DesignSpace().parse(
        [{"name": n, "type": "num", "lb": lo, "ub": hi} for n, lo, hi in zip(names, f.lower, f.upper)]
    )
    search = HEBO(space, scramble_seed=f.seed)
    f.start()
    for x in f.initial(1 + f.dim):
        search.observe(pd.DataFrame([dict(zip(names, x))]), np.array([[f(x)]]))
    for _ in f.remaining():
        point = search.suggest(n_suggestions=1)
        search.observe(point, np.array([[f([float(point[n].iloc[0]) for n in names])]]))


def run_smac(f: Function) -> None:
    import logging

    from ConfigSpace import Configuration, ConfigurationSpace, Float
    from smac import BlackBoxFacade, Scenario
    from smac.runhistory.dataclasses import TrialValue

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    names = [f"x{j + 1}" for j in range(f.dim)]
    space = ConfigurationSpace(seed=f.seed)
    for n, lo, hi in zip(names, f.lower, f.upper):
        space.add(Float(n, (lo, hi)))
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space, deterministic=True, n_trials=f.evaluations, seed=f.seed, output_directory=Path(folder)
        )
        # As many as SMAC's own Sobol design would have: 8 a parameter, at most a quarter of the budget.
        count = min(8 * f.dim, f.evaluations // 4)
        initial = [Configuration(space, values=dict(zip(names, x))) for x in f.initial(count)]
        search = BlackBoxFacade(
            scenario,
            lambda config, seed=0: 0.0,
            initial_design=BlackBoxFacade.get_initial_design(scenario, n_configs=0, additional_configs=initial),
            overwrite=True,
            logging_level=False,
        )
        f.start()
        for _ in f.remaining():
            trial = search.ask()
            search.tell(trial, TrialValue(cost=f([float(trial.config[n]) for n in names])))


def run_lbfgsb(f: Function) -> None:
    from scipy.optimize import minimize

    starts = f.initial(f.evaluations + 1)[1:]  # The first is the centre, under every seed.
    box = list(zip(f.lower, f.upper))
    f.start()
    for x in starts:
        minimize(f.with_gradient, x, jac=True, method="L-BFGS-B", bounds=box, options={"ftol": 0.0, "gtol": 1e-9})


@dataclass(frozen=True)
class Peer:
    environment: str  # A file of requirements/.
    title: str
    start: str  # What it begins with.
    run: Callable[[Function], None]


OURS = "our points, "
PEERS: dict[str, Peer] = {
    "dlib": Peer("core", "dlib find_min_global (MaxLIPO + trust region)", "its own: the centre", run_dlib),
    "direct": Peer("core", "NLopt GN_DIRECT", "its own: the centre", lambda f: run_nlopt(f, "GN_DIRECT")),
    "direct_l": Peer("core", "NLopt GN_DIRECT_L", "its own: the centre", lambda f: run_nlopt(f, "GN_DIRECT_L")),
    "direct_l_rand": Peer(
        "core", "NLopt GN_DIRECT_L_RAND", "its own: the centre", lambda f: run_nlopt(f, "GN_DIRECT_L_RAND")
    ),
    "cmaes": Peer(
        "core",
        "Optuna CmaEsSampler",
        "its own: one random point, then around the centre",
        lambda f: run_optuna(f, lambda s, seed: s.CmaEsSampler(seed=seed), 0),
    ),
    "tpe": Peer(
        "core",
        "Optuna TPESampler",
        OURS + "10",
        lambda f: run_optuna(f, lambda s, seed: s.TPESampler(seed=seed), 10),
    ),
    "bayes_opt": Peer("core", "bayesian-optimization", OURS + "5", run_bayesian_optimization),
    "skopt": Peer("core", "scikit-optimize Optimizer (GP, gp_hedge)", OURS + "10", run_scikit_optimize),
    "optuna_gp": Peer(
        "torch",
        "Optuna GPSampler, as it comes",
        OURS + "10",
        lambda f: run_optuna(f, lambda s, seed: s.GPSampler(seed=seed), 10),
    ),
    "optuna_gp_det": Peer(
        "torch",
        "Optuna GPSampler, deterministic_objective",
        OURS + "10",
        lambda f: run_optuna(f, lambda s, seed: s.GPSampler(seed=seed, deterministic_objective=True), 10),
    ),
    "botorch": Peer("torch", "BoTorch SingleTaskGP + LogEI, 10 restarts, 512 raw", OURS + "2(d+1)", run_botorch),
    "hebo": Peer("hebo", "HEBO", OURS + "d+1", run_hebo),
    "smac": Peer("smac", "SMAC BlackBoxFacade (GP)", OURS + "min(8d, budget/4)", run_smac),
    "lbfgsb": Peer("core", "SciPy L-BFGS-B with exact gradients, restarted", "restarts from our points but the first", run_lbfgsb),
}


def rows(peer: str, function: str, f: Function) -> list[list[str]]:
    """CSV rows of a run, as lib/simulate writes them."""
    result = []
    best = math.inf
    for i, (value, milliseconds) in enumerate(zip(f.values, f.suggest_ms)):
        best = min(best, value)
        regret = abs(best - f.minimum)
        result.append(
            [peer, function, str(f.seed), str(i + 1), repr(value), repr(best), repr(regret), f"{milliseconds:.3f}"]
        )
    return result


def write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + f".{os.getpid()}.partial")
    partial.write_text(text)
    partial.rename(path)


def run_seed(server: Path, peer: str, function: str, seed: int, evaluations: int, out: Path) -> None:
    stem = f"{function}-s{seed}-n{evaluations}"
    f = Function(server, function, seed, evaluations)
    try:
        try:
            PEERS[peer].run(f)
        except Finished:
            pass
        except Exception as error:  # A callback's exception may come back as another one: the budget decides.
            if len(f.values) < evaluations:
                where = traceback.extract_tb(error.__traceback__)[-1]
                reason = f"after {len(f.values)} evaluations: {type(error).__name__}: {error}"
                write_whole(out / f"{stem}.failed", f"{reason} ({Path(where.filename).name}:{where.lineno})\n")
                return
        lines = [HEADER] + rows(peer, function, f)
        with tempfile.SpooledTemporaryFile(mode="w+", newline="") as text:
            csv.writer(text, lineterminator="\n").writerows(lines)
            text.seek(0)
            write_whole(out / f"{stem}.csv", text.read())
        (out / f"{stem}.failed").unlink(missing_ok=True)
    finally:
        f.close()


def warm_up(server: Path, peer: str) -> None:
    """A few steps thrown away: what a peer imports when it first needs it is no cost of its first suggestion."""
    f = Function(server, "branin", 0, evaluations=12)
    try:
        PEERS[peer].run(f)
    except Exception:  # If it cannot run, the runs that count will say so.
        pass
    finally:
        f.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--peer", choices=sorted(PEERS), required=True)
    parser.add_argument("--function", required=True)
    parser.add_argument("--seeds", required=True)
    parser.add_argument("--evaluations", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    warm_up(args.server, args.peer)
    for seed in args.seeds.split(","):
        run_seed(args.server, args.peer, args.function, int(seed), args.evaluations, args.out)


if __name__ == "__main__":
    sys.exit(main())
