"""Other optimizers on the problems of hoag_experiment.

    peers.py HOAG_EXPERIMENT DATA PROBLEM METHOD [--split K] [--evaluations N] [--seconds S]

METHOD: scipy (L-BFGS-B on the hypergradients that `hoag_experiment --serve` answers), hyperopt (TPE on the same values),
sklearn (LogisticRegression or KernelRidge of scikit-learn on a grid of ten values, 10 x 10 for two) or package (HOAG of
one strength with the rules of the package of the paper's author, in NumPy and SciPy). Prints lines as hoag_experiment
does; seconds are those of the objective, and of the optimizer. package evaluates each strength again to 1e-10, off the
clock, and its passes are values and Hessian products of the training rows.
"""

import argparse
import subprocess
import time

import numpy


class Served:
    """The objective, by another process; counts its CPU seconds and those of this one."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.process = subprocess.Popen(
            [arguments.program, '--serve', f'--data_root={arguments.data}', f'--problem={arguments.problem}',
             f'--split={arguments.split}'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = self.passes = 0.0
        self.count = 0
        self.begin = time.process_time()

    def __call__(self, x):
        if self.count >= self.arguments.evaluations or self.total() >= self.arguments.seconds:
            raise StopIteration
        self.process.stdin.write(' '.join(repr(float(v)) for v in x) + '\n')
        self.process.stdin.flush()
        numbers = [float(word) for word in self.process.stdout.readline().split()]
        self.seconds += numbers[-2]
        self.passes += numbers[-1]
        self.count += 1
        print(f'{self.arguments.problem},{self.arguments.method},{self.arguments.split},{self.count},{self.total():.4f},'
              f'{numbers[0]:.12g},{numbers[0]:.12g},nan,,{self.passes:.1f}', flush=True)
        return numbers[0], numpy.array(numbers[1:-2])

    def total(self):
        return self.seconds + time.process_time() - self.begin


def start(problem):
    if problem == 'parkinsons':
        return numpy.array([-numpy.log(19.0), 0.0])
    return numpy.zeros(1440 if problem == 'mnist' else 1)


def scipy_lbfgs(served, problem):
    from scipy.optimize import minimize
    x = start(problem)
    minimize(served, x, jac=True, method='L-BFGS-B', bounds=[(-12.0, 12.0)] * len(x),
             options={'maxiter': 10000, 'maxfun': 10000, 'ftol': 1e-14, 'gtol': 1e-12})


def hyperopt_tpe(served, problem):
    import hyperopt
    size = len(start(problem))
    space = [hyperopt.hp.uniform(f'x{k}', -12.0, 12.0) for k in range(size)]
    hyperopt.fmin(lambda x: served(x)[0], space, algo=hyperopt.tpe.suggest, max_evals=served.arguments.evaluations,
                  rstate=numpy.random.default_rng(served.arguments.split), show_progressbar=False)


def sklearn_grid(arguments):
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression
    from sklearn.datasets import load_svmlight_file
    random = numpy.random.RandomState(arguments.split)
    values = numpy.linspace(-12.0, 12.0, 10)
    if arguments.problem == 'parkinsons':
        table = numpy.loadtxt(f'{arguments.data}/parkinsons.csv', delimiter=',', skiprows=1)
        x, y = table[:, :-1], table[:, -1]
    else:
        x, y = load_svmlight_file(f'{arguments.data}/{arguments.problem}.svm')
    order = random.permutation(len(y))
    train, held_out = order[:len(y) // 3], order[len(y) // 3:2 * len(y) // 3]
    spent = 0.0
    number = 0
    if arguments.problem == 'parkinsons':
        mean, deviation = x[train].mean(0), x[train].std(0)
        x = (x - mean) / deviation
        grid = [(a, b) for a in values for b in values]
    else:
        grid = [(a, None) for a in values]
    for a, b in grid:
        begin = time.process_time()
        if b is None:
            model = LogisticRegression(C=numpy.exp(-a), fit_intercept=False, tol=1e-6, max_iter=1000)
            model.fit(x[train], y[train])
            margin = y[held_out] * model.decision_function(x[held_out])
            value = numpy.logaddexp(0.0, -margin).mean()
        else:
            model = KernelRidge(kernel='rbf', gamma=numpy.exp(a), alpha=numpy.exp(b))
            model.fit(x[train], y[train] - y[train].mean())
            value = ((model.predict(x[held_out]) + y[train].mean() - y[held_out]) ** 2).mean()
        spent += time.process_time() - begin
        number += 1
        print(f'{arguments.problem},sklearn,{arguments.split},{number},{spent:.4f},{value:.12g},{value:.12g},nan,',
              flush=True)


class Logistic:
    """h(x) = sum of losses + e^strength |x|^2 / 2 over rows, without intercept; counts passes."""

    def __init__(self, x, y):
        self.x, self.y, self.t = x, y, x.T.tocsr()
        self.passes = 0

    def value(self, w, l2):
        self.passes += 1
        margin = self.y * (self.x @ w)
        slope = -self.y / (1.0 + numpy.exp(numpy.clip(margin, -700, 700)))
        return numpy.logaddexp(0.0, -margin).sum() + 0.5 * l2 * w @ w, self.t @ slope + l2 * w

    def product(self, w, l2):
        p = 1.0 / (1.0 + numpy.exp(-numpy.clip(self.x @ w, -700, 700)))
        curvature = p * (1.0 - p)

        def multiply(v):
            self.passes += 1
            return self.t @ (curvature * (self.x @ v)) + l2 * v
        return multiply

    def train(self, w, l2, goal):
        """L-BFGS from w until the gradient's norm is at most goal."""
        from scipy.optimize import minimize
        last = [w]

        def both(v):
            value, gradient = self.value(v, l2)
            if numpy.linalg.norm(gradient) <= goal:
                last[0] = v.copy()
                raise StopIteration
            return value, gradient
        try:
            last[0] = minimize(both, w, jac=True, method='L-BFGS-B',
                               options={'maxiter': 10000, 'maxfun': 20000, 'ftol': 0.0, 'gtol': 0.0}).x
        except StopIteration:
            pass
        return last[0]


def package_hoag(arguments):
    """Its rules, as of its repository's hoag/hoag.py: training from random weights to .01 * .9^k of the gradient's norm
    there, the adjoint to that times the first outer gradient's norm; the step grows by 1/.95 while the loss does not
    rise by more than two tolerances, else is halved; no step is taken again; strengths in e^-10 ... e^6."""
    from scipy.sparse.linalg import LinearOperator, cg
    from sklearn.datasets import load_svmlight_file
    random = numpy.random.RandomState(arguments.split)
    x, y = load_svmlight_file(f'{arguments.data}/{arguments.problem}.svm')
    order = random.permutation(len(y))
    third = len(y) // 3
    train, held_out = (Logistic(x[rows], y[rows]) for rows in (order[:third], order[third:2 * third]))
    w = random.randn(x.shape[1])
    exact = numpy.zeros(x.shape[1])
    begin, off = time.process_time(), 0.0
    strength, tolerance, old_tolerance = 0.0, 0.01, 0.01
    first = numpy.linalg.norm(train.value(w, 1.0)[1])
    adjoint = inverse_step = first_outer = None
    old_value = numpy.inf
    for number in range(1, arguments.evaluations + 1):
        l2 = numpy.exp(strength)
        w = train.train(w, l2, tolerance * first)
        value, outer = held_out.value(w, 0.0)
        first_outer = first_outer or numpy.linalg.norm(outer)
        system = LinearOperator((len(w), len(w)), matvec=train.product(w, l2), dtype=float)
        adjoint, _ = cg(system, outer, x0=w if adjoint is None else adjoint, rtol=tolerance * first_outer, maxiter=10000)
        old_tolerance, tolerance = tolerance, max(1e-12, 0.9 * tolerance)
        slope = -l2 * w @ adjoint
        spent = time.process_time() - begin - off
        passes = train.passes
        exact = train.train(exact, l2, 1e-10 * third)
        train.passes = passes
        right = held_out.value(exact, 0.0)[0]
        print(f'{arguments.problem},package,{arguments.split},{number},{spent:.4f},{value / third:.12g},'
              f'{right / third:.12g},nan,,{passes:.1f}', flush=True)
        off = time.process_time() - begin - spent
        if spent > arguments.seconds:
            return
        if inverse_step is None:
            inverse_step = abs(slope) if abs(slope) > 1e-3 else 1.0
        strength = min(6.0, max(-10.0, strength - slope / inverse_step))
        if value - tolerance <= old_value + old_tolerance:
            inverse_step *= 0.95
        elif value > old_value:
            inverse_step *= 2.0
        old_value = value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('data')
    parser.add_argument('problem')
    parser.add_argument('method', choices=['scipy', 'hyperopt', 'sklearn', 'package'])
    parser.add_argument('--split', type=int, default=1)
    parser.add_argument('--evaluations', type=int, default=100)
    parser.add_argument('--seconds', type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.method == 'sklearn':
        return sklearn_grid(arguments)
    if arguments.method == 'package':
        return package_hoag(arguments)
    if arguments.method == 'scipy':
        import scipy.optimize  # noqa: F401 Loading it is no part of the search.
    else:
        import hyperopt  # noqa: F401
    served = Served(arguments)
    try:
        (scipy_lbfgs if arguments.method == 'scipy' else hyperopt_tpe)(served, arguments.problem)
    except StopIteration:
        pass
    served.process.stdin.close()
    served.process.wait()


if __name__ == '__main__':
    main()
