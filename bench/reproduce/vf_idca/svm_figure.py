"""Bounds of support vector machines by VF-iDCA beside a search for C: svm_figure.py LUTHIER DATA... [--draws K]

For each LIBSVM file (plain or .xz) and draw: half of the rows choose on three folds, the other half is the test. `luthier`
trains vf_svm (bounds of all weights) and measures on the test half; scikit-learn's LinearSVC with the hinge loss tries 10
strengths C on the same half. Prints a line for each: data, draw,
method, CPU seconds, validation accuracy over the folds, test error.
"""

import argparse
import json
import lzma
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy


def read(path):
    opened = lzma.open(path, 'rt') if str(path).endswith('.xz') else open(path)
    with opened as lines:
        return [line for line in lines if line.strip()]


def cpu(command, **kwargs):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **kwargs).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(luthier, folder, seed):
    out, seconds = cpu([luthier, 'bilevel', 'svm', '--data', folder + '/train.svm', '--folds', '3', '--seed', str(seed),
                        '-o', 'json'])
    found = json.loads(out)
    pathlib.Path(folder, 'study.yaml').write_text(
        'space: [{name: start, float: {min: 0.003, max: 0.0031}}]\n'
        'metric: {name: validation_loss, goal: MINIMIZE}\nbudget: {max_trials: 1}\n'
        f'objective: {{builtin: {{model: vf_svm, data: train.svm, split: {{folds: 3, seed: {seed}}}}}}}\n')
    cpu([luthier, 'model', 'train', '--file', folder + '/study.yaml', '--set', 'start=0.003', '--data-root', folder,
         '--out', folder + '/m.lmodel'])
    out, _ = cpu([luthier, 'model', 'evaluate', folder + '/m.lmodel', '--data', folder + '/test.svm', '-o', 'json'])
    return seconds, found['metrics']['validation_accuracy'], 1.0 - json.loads(out)['metrics']['accuracy']


def theirs(folder, seed):
    from sklearn.datasets import load_svmlight_file
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC
    x, y = load_svmlight_file(folder + '/train.svm')
    xt, yt = load_svmlight_file(folder + '/test.svm', n_features=x.shape[1])
    begin = time.process_time()
    search = GridSearchCV(make_pipeline(StandardScaler(), LinearSVC(loss='hinge', max_iter=20000, random_state=0)),
                          {'linearsvc__C': numpy.logspace(-4, 4, 10)},
                          cv=StratifiedKFold(3, shuffle=True, random_state=seed))
    search.fit(x.toarray(), y)
    seconds = time.process_time() - begin
    return seconds, search.best_score_, 1.0 - search.score(xt.toarray(), yt)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('luthier')
    parser.add_argument('data', nargs='+')
    parser.add_argument('--draws', type=int, default=5)
    a = parser.parse_args()
    import warnings
    warnings.filterwarnings('ignore')
    for path in a.data:
        rows = read(path)
        for draw in range(1, a.draws + 1):
            order = numpy.random.default_rng(draw).permutation(len(rows))
            half = len(rows) // 2
            with tempfile.TemporaryDirectory() as folder:
                for name, some in (('train', order[:half]), ('test', order[half:])):
                    pathlib.Path(folder, name + '.svm').write_text(''.join(rows[i] for i in some))
                for name, method in (('vf_svm', lambda: ours(a.luthier, folder, draw)),
                                     ('LinearSVC', lambda: theirs(folder, draw))):
                    seconds, accuracy, error = method()
                    print(f'{os.path.basename(path)},{draw},{name},{seconds:.3f},{accuracy:.4f},{error:.4f}', flush=True)


if __name__ == '__main__':
    main()
