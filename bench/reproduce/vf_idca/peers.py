"""Cross-validated elastic nets of other libraries on the draws of vf_idca_experiment.

    peers.py VF_IDCA_EXPERIMENT [--validation N] [--columns P] [--seeds K]

scikit-learn's ElasticNetCV and RidgeCV, and loops over celer's and skglm's ElasticNet choose among 100 strengths (and
five mixtures) on the validation rows; the model of the training rows at the best is measured. Prints
rows as vf_idca_experiment does, without those of other fields than seconds, models, losses.
"""

import argparse
import subprocess
import tempfile
import time
import warnings

import numpy

RATIOS = [0.1, 0.5, 0.9, 0.95, 1.0]
ALPHAS = 100


def half_mse(model, x, y):
    return 0.5 * ((model.predict(x) - y) ** 2).mean()


def rows(a, seed):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([a.program, '--method=vf_idca', f'--train={a.train}', f'--validation={a.validation}',
                        f'--columns={a.columns}', f'--seed={seed}', f'--write={folder}'], stdout=subprocess.DEVNULL,
                       check=True)
        return numpy.loadtxt(folder + '/x.txt'), numpy.loadtxt(folder + '/y.txt')


def alphas_of(x, y, ratio):
    most = abs(x.T @ y).max() / len(y) / ratio
    return most * numpy.logspace(0, -3, ALPHAS)


def by_path(make, xt, yt, xv, yv):
    """The model of least validation loss over a path of strengths for each mixture."""
    best = (numpy.inf, None)
    for ratio in RATIOS:
        for alpha in alphas_of(xt, yt, ratio):
            model = make(alpha, ratio).fit(xt, yt)
            best = min(best, (half_mse(model, xv, yv), model), key=lambda pair: pair[0])
    return best[1], len(RATIOS) * ALPHAS


def by_cv(cv, xt, yt, xv, yv, make):
    """Fits a *CV class that splits the rows as given, then the model of the training rows at what it chose."""
    from sklearn.model_selection import PredefinedSplit
    x, y = numpy.vstack([xt, xv]), numpy.concatenate([yt, yv])
    fold = PredefinedSplit([-1] * len(yt) + [0] * len(yv))
    chosen = cv(fold).fit(x, y)
    return make(chosen).fit(xt, yt), None


def paths(cv, fold):
    """`cv` over all mixtures and strengths; scikit-learn 1.7 renamed the option."""
    import inspect
    number = 'n_alphas' if 'n_alphas' in inspect.signature(cv).parameters else 'alphas'
    return cv(l1_ratio=RATIOS, fit_intercept=False, cv=fold, **{number: ALPHAS})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--train', type=int, default=100)
    parser.add_argument('--validation', type=int, default=100)
    parser.add_argument('--columns', type=int, default=250)
    parser.add_argument('--seeds', type=int, default=3)
    a = parser.parse_args()
    warnings.filterwarnings('ignore')
    from sklearn.linear_model import ElasticNet, ElasticNetCV, Ridge, RidgeCV
    methods = {
        'sklearn_elastic_net': lambda *d: by_cv(
            lambda fold: paths(ElasticNetCV, fold), *d,
            lambda m: ElasticNet(alpha=m.alpha_, l1_ratio=m.l1_ratio_, fit_intercept=False)),
        'sklearn_ridge': lambda *d: by_cv(
            lambda fold: RidgeCV(alphas=numpy.logspace(-3, 3, ALPHAS), fit_intercept=False, cv=fold), *d,
            lambda m: Ridge(alpha=m.alpha_, fit_intercept=False)),
    }
    try:
        import celer
        methods['celer'] = lambda *d: by_path(
            lambda alpha, ratio: celer.ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=False), *d)
    except ImportError:
        print('skipped: celer is not installed')
    try:
        import skglm
        methods['skglm'] = lambda *d: by_path(
            lambda alpha, ratio: skglm.ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=False), *d)
    except ImportError:
        print('skipped: skglm is not installed')
    for seed in range(1, a.seeds + 1):
        x, y = rows(a, seed)
        n, m = a.train, a.train + a.validation
        for name, method in methods.items():
            if seed == 1:
                method(x[:n], y[:n], x[n:m], y[n:m])  # What compiles at the first call is no part of it.
            begin = time.process_time()
            model, _ = method(x[:n], y[:n], x[n:m], y[n:m])
            seconds = time.process_time() - begin
            print(f'elastic_net,{name},{n},{a.validation},{a.columns},0,{seed},{seconds:.4f},'
                  f'{len(RATIOS) * ALPHAS},{half_mse(model, x[n:m], y[n:m]):.6g},{half_mse(model, x[m:], y[m:]):.6g},,,,',
                  flush=True)


if __name__ == '__main__':
    main()
