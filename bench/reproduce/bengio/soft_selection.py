"""Soft variable selection by a weight decay for each input (Bengio 2000) beside hard selection and one decay.

    soft_selection.py LUTHIER --draw K --method M [--inputs P] [--relevant R] [--rows N] [--correlation C]

Rows of normal inputs whose correlation falls as C^|i - j|; the first R of a random order count, with normal weights;
noise with the signal's deviation. Methods choose on five folds of the same N rows and are trained on all of them:

    decays     `luthier run` on a study of ridge with a list of P decays, with gradients
    aic, mdl   a list of P decays, too, of least n ln(rss / n) + 2 or ln(n) times the degrees of freedom on all rows, along
               the gradient
    one decay  scikit-learn's RidgeCV
    lasso      scikit-learn's LassoCV
    stepwise   forward selection of least squares, its size by the folds
    adaptive   adaptive ridge (Grandvalet 1998: decays in proportion to 1 / |w_j|, repeated until they settle), its strength
               by the folds

Prints a line: draw, method, CPU seconds, test loss (mean squared error on 5,000 new rows, noise included).
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy

FOLDS = 5
STRENGTHS = numpy.logspace(-3, 3, 30)


def draw_rows(rows, a, random, weights):
    noise = random.normal(size=(rows, a.inputs))
    x = noise.copy()
    for j in range(1, a.inputs):
        x[:, j] = a.correlation * x[:, j - 1] + numpy.sqrt(1 - a.correlation ** 2) * noise[:, j]
    return x, x @ weights


def folds_of(n):
    order = numpy.random.default_rng(0).permutation(n)
    return [(numpy.setdiff1d(order, part), part) for part in numpy.array_split(order, FOLDS)]


def centred(x, y):
    return x - x.mean(0), y - y.mean()


def least_squares(x, y, decays):
    xc, yc = centred(x, y)
    w = numpy.linalg.solve(xc.T @ xc + numpy.diag(decays), xc.T @ yc)
    return w, y.mean() - x.mean(0) @ w


def by_folds(x, y, settings, fit):
    """The setting of least mean squared error over folds."""
    best = (numpy.inf, None)
    for setting in settings:
        loss = 0.0
        for train, held in folds_of(len(y)):
            w, b = fit(x[train], y[train], setting)
            loss += ((x[held] @ w + b - y[held]) ** 2).sum()
        best = min(best, (loss, setting), key=lambda pair: pair[0])
    return best[1]


def adaptive_ridge(x, y, strength):
    decays = numpy.full(x.shape[1], strength)
    for _ in range(100):
        w, b = least_squares(x, y, decays)
        new = strength / numpy.maximum(numpy.abs(w), 1e-6)
        if numpy.allclose(new, decays, rtol=1e-3):
            break
        decays = new
    return w, b


def stepwise(x, y, size):
    chosen = []
    for _ in range(size):
        best = (numpy.inf, None)
        for j in set(range(x.shape[1])) - set(chosen):
            w, b = least_squares(x[:, chosen + [j]], y, numpy.full(len(chosen) + 1, 1e-9))
            best = min(best, (((x[:, chosen + [j]] @ w + b - y) ** 2).sum(), j))
        chosen.append(best[1])
    weights = numpy.zeros(x.shape[1])
    w, b = least_squares(x[:, chosen], y, numpy.full(size, 1e-9))
    weights[chosen] = w
    return weights, b


def ours(luthier, x, y):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.savetxt(folder / 'train.csv', numpy.column_stack([x, y]), delimiter=',', fmt='%.17g')
        (folder / 'study.yaml').write_text(
            f'space: [{{name: l2, float: {{min: 1.0e-4, max: 1.0e4, scale: LOG}}, count: {x.shape[1]}, default_value: 1}}]\n'
            'metric: {name: validation_loss, goal: MINIMIZE}\nbudget: {max_trials: 30}\nalgorithm: {hoag: {}}\n'
            'objective: {builtin: {model: ridge, data: train.csv, split: {folds: 5}, '
            "options: {header: 'no', standardize: false}}}\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([luthier, 'run', 'study.yaml', '--data-root', name, '--workers', '1', '-o', 'json'], cwd=name,
                             env={**os.environ, 'XDG_DATA_HOME': name, 'XDG_STATE_HOME': name}, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if out.returncode != 0:
            raise RuntimeError(out.stderr[-2000:])
        decays = numpy.array(json.loads(out.stdout)['best_trial']['parameters']['l2'])
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, least_squares(x, y, decays)


def draw(a):
    """Rows to choose on, and rows to judge by."""
    random = numpy.random.default_rng(a.draw)
    weights = numpy.zeros(a.inputs)
    weights[random.permutation(a.inputs)[:a.relevant]] = random.normal(size=a.relevant)
    x, signal = draw_rows(a.rows, a, random, weights)
    y = signal + signal.std() * random.normal(size=a.rows)
    x_test, signal_test = draw_rows(5000, a, random, weights)
    return x, y, x_test, signal_test + signal.std() * random.normal(size=5000)


def criterion(gram, product, square, n, price, logs):
    """n ln(rss / n) + price * tr(H^-1 X'X) of ridge with decays exp(logs), and its derivatives by the logarithms."""
    decays = numpy.exp(logs)
    inverse = numpy.linalg.inv(gram + numpy.diag(decays))
    w = inverse @ product
    rss = square - 2 * w @ product + w @ gram @ w
    by_decays = n / rss * 2 * w * (inverse @ (decays * w)) - price * numpy.einsum('ij,jk,ki->i', inverse, gram, inverse)
    return n * numpy.log(rss / n) + price * numpy.trace(inverse @ gram), decays * by_decays


def by_criterion(x, y, price):
    """Descents that halve their steps, from decays of 1, within 1e-4 … 1e4."""
    xc, yc = centred(x, y)
    parts = xc.T @ xc, xc.T @ yc, yc @ yc, len(y), price
    logs, step = numpy.zeros(x.shape[1]), 1.0
    value, slope = criterion(*parts, logs)
    for _ in range(1000):
        trial = numpy.clip(logs - step * slope, numpy.log(1e-4), numpy.log(1e4))
        new, new_slope = criterion(*parts, trial)
        if new < value:
            logs, value, slope, step = trial, new, new_slope, 1.5 * step
        else:
            step *= 0.5
    return least_squares(x, y, numpy.exp(logs))


def sklearn(name, x, y):
    from sklearn.linear_model import LassoCV, RidgeCV
    model = RidgeCV(alphas=STRENGTHS, cv=FOLDS) if name == 'one decay' else LassoCV(cv=FOLDS)
    begin = time.process_time()
    model.fit(x, y)
    return time.process_time() - begin, (model.coef_, model.intercept_)


def timed(method):
    begin = time.process_time()
    fitted = method()
    return time.process_time() - begin, fitted


def main():
    methods = {
        'decays': lambda a, x, y: ours(a.luthier, x, y),
        'aic': lambda a, x, y: timed(lambda: by_criterion(x, y, 2.0)),
        'mdl': lambda a, x, y: timed(lambda: by_criterion(x, y, numpy.log(len(y)))),
        'one decay': lambda a, x, y: sklearn('one decay', x, y),
        'lasso': lambda a, x, y: sklearn('lasso', x, y),
        'stepwise': lambda a, x, y: timed(lambda: stepwise(x, y, by_folds(x, y, range(1, a.inputs + 1), stepwise))),
        'adaptive': lambda a, x, y: timed(lambda: adaptive_ridge(x, y, by_folds(x, y, STRENGTHS, adaptive_ridge))),
    }
    parser = argparse.ArgumentParser()
    parser.add_argument('luthier')
    parser.add_argument('--draw', type=int, required=True)
    parser.add_argument('--method', choices=methods, required=True)
    parser.add_argument('--inputs', type=int, default=30)
    parser.add_argument('--relevant', type=int, default=15)
    parser.add_argument('--rows', type=int, default=60)
    parser.add_argument('--correlation', type=float, default=0.8)
    a = parser.parse_args()
    x, y, x_test, y_test = draw(a)
    seconds, (w, b) = methods[a.method](a, x, y)
    print(f'{a.draw},{a.method},{seconds:.3f},{((x_test @ w + b - y_test) ** 2).mean():.6g}')


if __name__ == '__main__':
    main()
