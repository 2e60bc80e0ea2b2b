"""Minimizes the 24 functions of the BBOB suite by one method, in one dimension, on one instance.

    one_run.py PROGRAMS METHOD DIMENSION INSTANCE

Prints a line for each function: its number, the CPU seconds of all suggestions, and the regrets after LOOKS evaluations, those
of one run of 200. The instance is the seed, too. The peers are those of bench/search/peers/methods.py, as they come; `auto` is
ours, by `noise_bench --ask`. Needs coco-experiment, cmaes, dlib-bin, nlopt and optuna: requirements.txt.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[name] = '1'
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'search' / 'peers'))
import cocoex  # noqa: E402
import methods  # noqa: E402
import numpy as np  # noqa: E402

EVALUATIONS = 200
LOOKS = [10, 20, 50, 100, 150, 200]


def minimum(problem):
    """The suite's least value: it tells where that is in a file of the working directory alone."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            problem._best_parameter('print')
            return float(problem(np.loadtxt('._bbob_problem_best_parameter.txt')))
        finally:
            os.chdir(before)


class Function(methods.Function):
    """A function of the suite, in this process; `initial` is empty: every peer begins in its own way."""

    def __init__(self, problem, seed):
        self.problem = problem
        self.dim, self.seed, self.evaluations = problem.dimension, seed, EVALUATIONS
        self.lower, self.upper = [float(v) for v in problem.lower_bounds], [float(v) for v in problem.upper_bounds]
        self.minimum = minimum(problem)
        self.values, self.suggest_ms = [], []
        self.start()

    def _ask(self, request):
        return [float(self.problem(np.array([float(word) for word in request.split()[1:]])))]

    def initial(self, count):
        return []


def random(f):
    stream = np.random.default_rng(f.seed)
    f.start()
    for _ in f.remaining():
        f(f.from_unit(stream.random(f.dim)))


def ours(f, programs):
    command = [programs / 'noise_bench', '--ask', '--algorithms=auto', f'--evaluations={EVALUATIONS}', str(f.dim), str(f.seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        milliseconds = []
        for _ in f.remaining():
            _, spent, *x = program.stdout.readline().split()
            milliseconds.append(float(spent))
            program.stdin.write(f'{f([float(v) for v in x])!r}\n')
    f.suggest_ms = milliseconds


def main():
    programs, method, dimension, instance = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    suite = cocoex.Suite('bbob', f'instances: {instance}', f'dimensions: {dimension}')
    for number in range(1, 25):
        f = Function(suite.get_problem_by_function_dimension_instance(number, dimension, instance), instance)
        try:
            if method == 'auto':
                ours(f, programs)
            elif method == 'random':
                random(f)
            else:
                methods.PEERS[method].run(f)
        except methods.Finished:
            pass
        except Exception:  # A callback's exception may come back as another one: the budget decides.
            if len(f.values) < EVALUATIONS:
                raise
        regrets = [min(f.values[:n]) - f.minimum for n in LOOKS]
        if len(f.values) != EVALUATIONS or min(regrets) < -1e-7:
            raise RuntimeError(f'f{number}: {len(f.values)} evaluations, {min(regrets)} below the minimum')
        print(','.join([str(number), f'{sum(f.suggest_ms) / 1000:.3f}', *(f'{regret:.4g}' for regret in regrets)]))


if __name__ == '__main__':
    main()
