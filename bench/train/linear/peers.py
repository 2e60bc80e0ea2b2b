#!/usr/bin/env python3
"""Seconds of CPU that scikit-learn's solvers need to 1e-2, 1e-4, 1e-6, 1e-8, on luthier-bench-linear's problems.

  luthier-bench-linear --data=DATA | tee ours.txt          # prints f*/n of each problem
  OMP_NUM_THREADS=1 bench/train/linear/peers.py DATA ours.txt [--only=a9a,w8a] [--limit=12]

Needs scikit-learn. Each solver is run anew with more and more iterations; the shortest run whose objective, computed here, is
within the level gives the time: of fit alone, data in the form that suits it, as luthier-bench-linear counts. liblinear is
scikit-learn's copy of it. Nothing is guessed where a solver does not get there within the limit.
"""

import argparse
import lzma
import math
import os
import re
import time
import warnings

import numpy
import scipy.sparse
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga", "liblinear primal", "liblinear dual")


def svm(data, name):
    with lzma.open(os.path.join(data, name)) as f:
        return load_svmlight_file(f)


def idx(path, dimensions):
    raw = lzma.open(path).read()
    return numpy.frombuffer(raw, dtype=numpy.uint8, offset=4 + 4 * dimensions)


def standardized(x):
    x = numpy.asarray(x.todense()) if scipy.sparse.issparse(x) else x
    deviation = x.std(axis=0)
    keep = deviation > 0
    return (x[:, keep] - x[:, keep].mean(axis=0)) / deviation[keep]


def load(data, name):
    """Rows and labels of -1 and 1, as linear_bench.cc has them; the constant column is added later."""
    files = {"a9a": "a9a", "w8a": "w8a", "mushrooms": "mushrooms_onehot", "spambase": "spambase"}
    if name in files:
        x, y = svm(data, f"libsvm/{files[name]}.xz")
        if name == "spambase":
            x = standardized(x)
        return x, numpy.where(y == y.max(), 1.0, -1.0)
    if name == "20news":
        x, y = svm(data, "20news/20news-tfidf.svm.xz")
        number = numpy.searchsorted(numpy.unique(y), y)
        return x, numpy.where(number % 2 == 0, -1.0, 1.0)
    if name.startswith("mnist"):
        x = idx(os.path.join(data, "mnist/train-images-idx3-ubyte.xz"), 3).reshape(60000, 784) / 255.0
        y = idx(os.path.join(data, "mnist/train-labels-idx1-ubyte.xz"), 1)
        x = standardized(x) if name == "mnist-standardized" else scipy.sparse.csr_matrix(x)
        return x, numpy.where(y < 5, -1.0, 1.0)
    raise SystemExit(f"no problem {name}")


def with_constant(x):
    if scipy.sparse.issparse(x):
        return scipy.sparse.hstack([x, numpy.ones((x.shape[0], 1))], format="csr")
    return numpy.hstack([x, numpy.ones((x.shape[0], 1))])


def objective(x, y, w):
    return numpy.logaddexp(0.0, -y * (x @ w)).mean() + 0.5 / x.shape[0] * (w @ w)


def fit(solver, iterations, x, y):
    parts = solver.split()
    model = LogisticRegression(C=1.0, solver=parts[0], dual=parts[-1] == "dual", max_iter=iterations, tol=1e-14,
                               fit_intercept=False, random_state=0)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    return time.process_time() - start, model.coef_[0]


def race(solver, x, y, optimum, limit, growth):
    """(seconds, iterations) to each level, or None: the least number of iterations that gets there, within a twentieth."""
    runs = {}

    def run(iterations):
        if iterations not in runs:
            seconds, w = fit(solver, iterations, x, y)
            runs[iterations] = (seconds, (objective(x, y, w) - optimum) / optimum)
        return runs[iterations]

    iterations = 1
    while True:
        seconds, gap = run(iterations)
        if gap <= LEVELS[-1] or seconds > limit or iterations > 20000:
            break
        iterations = max(iterations + 1, math.ceil(iterations * growth))
    reached = []
    for level in LEVELS:
        enough = [k for k in sorted(runs) if runs[k][1] <= level]
        if not enough:
            reached.append(None)
            continue
        high = enough[0]
        low = max([k for k in runs if k < high], default=0)
        while high - low > max(1, high // 20):
            middle = (low + high) // 2
            if run(middle)[1] <= level:
                high = middle
            else:
                low = middle
        reached.append((runs[high][0], high))
    return reached


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("ours", help="what luthier-bench-linear printed")
    parser.add_argument("--only", default="")
    parser.add_argument("--solvers", default="")
    parser.add_argument("--limit", type=float, default=12.0)
    parser.add_argument("--growth", type=float, default=1.5, help="of the iterations from run to run")
    options = parser.parse_args()
    with open(options.ours) as f:
        optima = dict(re.findall(r"^(\S+): n \d+, d \d+, entries \d+, f\*/n ([0-9.]+)", f.read(), re.M))
    for name in [n for n in options.only.split(",") if n] or optima:
        x, y = load(options.data, name)
        x = with_constant(x)
        optimum = float(optima[name])
        print(f"\n{name}: {x.shape[0]} x {x.shape[1]}\n| solver | s to 1e-2 | 1e-4 | 1e-6 | 1e-8 | iterations |", flush=True)
        print("| --- " * 6 + "|")
        fit("lbfgs", 1, x, y)  # What is done once only.
        for solver in [s for s in options.solvers.split(",") if s] or SOLVERS:
            if solver == "newton-cholesky" and x.shape[1] > 2000:
                continue
            reached = race(solver, x, y, optimum, options.limit, options.growth)
            cells = [f"{r[0]:.4f}" if r else "-" for r in reached]
            print(f"| {solver} | {' | '.join(cells)} | {', '.join(str(r[1]) if r else '-' for r in reached)} |", flush=True)


if __name__ == "__main__":
    main()
