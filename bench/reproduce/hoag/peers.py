"""Other optimizers on the problems of hoag_experiment.

    peers.py HOAG_EXPERIMENT DATA PROBLEM METHOD [--split K] [--evaluations N] [--seconds S]

METHOD: scipy (L-BFGS-B on the hypergradients that `hoag_experiment --serve` answers), hyperopt (TPE on the same values)
or sklearn (LogisticRegression or KernelRidge of scikit-learn on a grid of ten values, 10 x 10 for two). Prints lines as
hoag_experiment does; seconds are those of the objective, and of the optimizer.
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('data')
    parser.add_argument('problem')
    parser.add_argument('method', choices=['scipy', 'hyperopt', 'sklearn'])
    parser.add_argument('--split', type=int, default=1)
    parser.add_argument('--evaluations', type=int, default=100)
    parser.add_argument('--seconds', type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.method == 'sklearn':
        return sklearn_grid(arguments)
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
