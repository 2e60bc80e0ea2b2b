"""Each step of VF-iDCA beside a general solver: compare_cvxpy.py PROGRAM [--problem P] [--seeds N] ...

PROGRAM is vf_idca_experiment, or matrix_experiment with --problem matrix_completion --size 20 --groups 4 (the nuclear norm
of a larger matrix takes Clarabel minutes a step). Runs the same algorithm with cvxpy (Clarabel) on the draws that vf_idca_experiment writes, and prints for every step the
objective of both and their relative difference, and at the end the number of steps, the flags and the seconds.
"""

import argparse
import subprocess
import tempfile
import time

import cvxpy
import numpy


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--problem', default='elastic_net')
    parser.add_argument('--train', type=int, default=100)
    parser.add_argument('--validation', type=int, default=100)
    parser.add_argument('--columns', type=int, default=250)
    parser.add_argument('--groups', type=int, default=30)
    parser.add_argument('--size', type=int, default=20)
    parser.add_argument('--max_steps', type=int, default=8, help='of matrix_completion')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--tolerance', type=float, default=0.1)
    return parser.parse_args()


def solve(problem):
    """By Clarabel, else ECOS."""
    for solver in ('CLARABEL', 'ECOS'):
        try:
            problem.solve(solver=solver)
            if problem.value is not None and numpy.isfinite(problem.value):
                return True
        except cvxpy.error.SolverError:
            pass
    return False


def by_cvxpy(a, x, y):
    """The authors' loop, up to a problem that neither solver can solve; yields the objective of each step, then the largest multiplier at the end."""
    grouped = a.problem == 'sparse_group_lasso'
    n, m, p = a.train, a.validation, a.columns
    xt, yt, xv, yv = x[:n], y[:n], x[n:n + m], y[n:n + m]
    if grouped:
        blocks = [range(g * p // a.groups, (g + 1) * p // a.groups) for g in range(a.groups)]
        r = numpy.full(a.groups + 1, 10.0)
        rho, share, weight, most = 0.1, 0.01, 100.0, 50

        def penalties(w):
            return [cvxpy.norm(w[list(b)], 2) for b in blocks] + [cvxpy.norm(w, 1)]
    else:
        r = numpy.array([10.0, 5.0])
        rho, share, weight, most = 1e-3, 0.5, 1.0, 100

        def penalties(w):
            return [cvxpy.norm(w, 1), 0.5 * cvxpy.sum_squares(w)]
    w0 = numpy.zeros(p)
    alpha = 1.0
    for _ in range(most):
        w = cvxpy.Variable(p)
        constraints = [f <= bound for f, bound in zip(penalties(w), r)]
        lower = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(xt @ w - yt) / (2 * n)), constraints)
        if not solve(lower):
            return
        gamma = numpy.array([float(numpy.squeeze(c.dual_value)) for c in constraints])
        f = lower.value
        w, s, t = cvxpy.Variable(p), cvxpy.Variable(len(r)), cvxpy.Variable()
        cut = cvxpy.sum_squares(xt @ w - yt) / (2 * n) - f + gamma @ (s - r)
        upper = cvxpy.Problem(
            cvxpy.Minimize(cvxpy.sum_squares(xv @ w - yv) / (2 * m) +
                           rho / 2 * (cvxpy.sum_squares(w - w0) + cvxpy.sum_squares(s - r)) + alpha * t),
            [t >= 0, t >= cut, s >= 0] + [t >= weight * (g - bound) for g, bound in zip(penalties(w), s)])
        if not solve(upper):
            return
        size = w0 @ w0 + r @ r
        step = numpy.sqrt(((w.value - w0) ** 2).sum() + ((s.value - r) ** 2).sum()) / numpy.sqrt(size + (not grouped))
        values = numpy.array([g.value for g in penalties(w)])
        violation = max(0.0, float(cut.value), (weight * (values - s.value)).max())
        w0, r = w.value, s.value
        yield upper.value, gamma.max()
        if step < a.tolerance and violation < a.tolerance:
            return
        if step * alpha <= share * min(1.0, alpha * violation):
            alpha += 5.0


def matrix_by_cvxpy(a, x, y):
    """The same for matrix_completion."""
    parts = [y[:, 3] == k for k in (0, 1)]
    columns = x.shape[1]
    masks, values, designs = [], [], []
    for part in parts:
        rows = y[part]
        masks.append((rows[:, 0].astype(int), rows[:, 1].astype(int)))
        values.append(rows[:, 2])
        designs.append(x[part])
    r = numpy.concatenate([[1.0], numpy.full(2 * a.groups, 0.1)])
    w0, g0, alpha = numpy.zeros(columns), numpy.zeros((a.size, a.size)), 1.0

    def loss(k, w, g):
        return cvxpy.sum_squares(designs[k] @ w + g[masks[k][0], masks[k][1]] - values[k]) / (2 * len(values[k]))

    def penalties(w, g):
        return [cvxpy.normNuc(g)] + [cvxpy.norm(w[3 * m:3 * m + 3], 2) for m in range(2 * a.groups)]
    for _ in range(a.max_steps):
        w, g = cvxpy.Variable(columns), cvxpy.Variable((a.size, a.size))
        constraints = [f <= bound for f, bound in zip(penalties(w, g), r)]
        lower = cvxpy.Problem(cvxpy.Minimize(loss(0, w, g)), constraints)
        if not solve(lower):
            return
        gamma = numpy.array([float(numpy.squeeze(c.dual_value)) for c in constraints])
        f = lower.value
        w, g, s, t = cvxpy.Variable(columns), cvxpy.Variable((a.size, a.size)), cvxpy.Variable(len(r)), cvxpy.Variable()
        cut = loss(0, w, g) - f + gamma @ (s - r)
        upper = cvxpy.Problem(
            cvxpy.Minimize(loss(1, w, g) + 5e-4 * (cvxpy.sum_squares(w - w0) + cvxpy.sum_squares(g - g0) +
                                                   cvxpy.sum_squares(s - r)) + alpha * t),
            [t >= 0, t >= cut, s >= 1e-6] + [t >= p - bound for p, bound in zip(penalties(w, g), s)])
        if not solve(upper):
            return
        size = w0 @ w0 + (g0 ** 2).sum() + r @ r
        step = numpy.sqrt((((w.value - w0) ** 2).sum() + ((g.value - g0) ** 2).sum() + ((s.value - r) ** 2).sum()) /
                          (1.0 + size))
        over = numpy.array([p.value for p in penalties(w, g)])
        violation = max(0.0, float(cut.value), (over - s.value).max())
        w0, g0, r = w.value, g.value, s.value
        yield upper.value, gamma.max()
        if step < a.tolerance and violation < a.tolerance:
            return
        if step * alpha <= min(1.0, alpha * violation):
            alpha += 5.0


def main():
    a = parse()
    matrix = a.problem == 'matrix_completion'
    worst = 0.0
    for seed in range(1, a.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            command = [a.program, f'--size={a.size}', f'--max_steps={a.max_steps}'] if matrix else [
                a.program, f'--problem={a.problem}', f'--train={a.train}', f'--validation={a.validation}', f'--columns={a.columns}']
            out = subprocess.run(
                command + [f'--groups={a.groups}', f'--seed={seed}', f'--tolerance={a.tolerance}', '--steps',
                           f'--write={folder}'], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
            x, y = numpy.loadtxt(folder + '/x.txt'), numpy.loadtxt(folder + '/y.txt')
        ours = [line.split(',') for line in out]
        final = ours.pop()
        begin = time.process_time()
        theirs = []
        for value, multiplier in (matrix_by_cvxpy if matrix else by_cvxpy)(a, x, y):
            theirs.append(multiplier)
            if len(theirs) > len(ours):
                continue
            mine = ours[len(theirs) - 1]
            difference = abs(float(mine[4]) - value) / (1.0 + abs(value))
            worst = max(worst, difference)
            print(f'{seed},{mine[0]},{float(mine[4]):.8g},{value:.8g},{difference:.2g}', flush=True)
        seconds = time.process_time() - begin
        print(f'seed {seed}: steps {len(ours)} and {len(theirs)}; CPU seconds {final[7]} and {seconds:.2f}')
        if min(len(ours), len(theirs)) > 1:
            print(f'  largest multiplier before the last step {float(ours[-2][8]):.3g} and {theirs[-1]:.3g}')
    print(f'largest relative difference of a step\'s objective: {worst:.2g}')


if __name__ == '__main__':
    main()
