#!/usr/bin/env python3
"""Our streaming Lasso against scikit-learn's on the explicit matrix, on the same samples and penalty.

  build/release/bin/psr_bench --write=DIR
  lasso_peer.py DIR/psr_60x300          (needs numpy and scikit-learn; one thread)

Prints both times, the ratio, and whether the same features have weights that are not 0.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import itertools  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402
from sklearn.linear_model import Lasso  # noqa: E402


def main(stem):
    with open(stem + ".txt") as f:
        penalty, bits, degree = f.readline().split()
        rows = np.loadtxt(f)
    penalty, bits, degree = float(penalty), int(bits), int(degree)
    y, x = rows[:, 0], rows[:, 1:]
    start = time.process_time()
    sets = [s for k in range(1, degree + 1) for s in itertools.combinations(range(bits), k)]
    psi = np.empty((len(y), len(sets)), order="F")
    for j, s in enumerate(sets):
        psi[:, j] = x[:, s].prod(axis=1)
    build_ms = 1e3 * (time.process_time() - start)
    with open(stem + ".fit") as f:
        ours_ms = float(f.readline())
        ours = {tuple(map(int, line.split()[1:])): float(line.split()[0]) for line in f}
    for tolerance in (1e-4, 1e-8):
        times = []
        for _ in range(3):
            model = Lasso(alpha=penalty, fit_intercept=False, tol=tolerance, max_iter=100000, copy_X=False)
            start = time.process_time()
            model.fit(psi, y)
            times.append(1e3 * (time.process_time() - start))
        theirs_ms = sorted(times)[1]
        theirs = {sets[j]: model.coef_[j] for j in np.flatnonzero(model.coef_)}
        gap = max((abs(ours.get(s, 0.0) - theirs.get(s, 0.0)) for s in {**ours, **theirs}), default=0.0)
        print(f"{len(sets)} features, {len(y)} samples, tol {tolerance:g}: ours {ours_ms:.2f} ms, scikit-learn "
              f"{theirs_ms:.0f} ms and {build_ms:.0f} ms for the matrix ({psi.nbytes / 1e6:.0f} MB): {theirs_ms / ours_ms:.0f} x; "
              f"{'same' if set(ours) == set(theirs) else 'another'} support of {len(ours)}, weights differ by {gap:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
