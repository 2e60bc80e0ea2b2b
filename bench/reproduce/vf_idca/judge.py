"""Tables and claims from the rows of run.sh: judge.py FOLDER.

A claim holds if its numbers do; figures of Gao et al. 2022 stand beside ours.
"""

import collections
import csv
import pathlib
import statistics
import sys

# Validation and test loss of VF-iDCA in the paper's tables, by problem, validation rows and groups.
PAPER = {('elastic_net', 20, 0): (1.95, 0.81, 3.99, 0.69), ('elastic_net', 100, 0): (3.04, 0.74, 3.58, 0.60),
         ('sparse_group_lasso', 100, 30): (0.01, None, 38.50, None),
         ('sparse_group_lasso', 100, 300): (19.61, None, 33.55, None),
         ('matrix_completion', 60, 24): (0.06, None, 0.70, None)}


def spread(values):
    return f'{statistics.mean(values):.2f} ± {statistics.pstdev(values):.2f}'


def main():
    cells = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(pathlib.Path(sys.argv[1]).glob('*.csv')):
        for row in csv.reader(open(path)):
            if len(row) != 15:
                continue  # Of svm_figure.py.
            cells[row[0], int(row[3]), int(row[5])][row[1]].append([float(v) for v in row[7:]])
    claims = []
    for key, methods in cells.items():
        print(f'\n{key[0]}, {key[1]} validation rows' + (f', {key[2]} groups' if key[2] else '') +
              f': {len(methods["vf_idca"])} draws, mean ± deviation\n')
        print('| method | CPU s | models or steps | validation | test | refit validation | refit test | degenerate |')
        print('|---|---|---|---|---|---|---|---|')
        for method, rows in methods.items():
            columns = list(zip(*rows))
            print(f'| {method} | {statistics.mean(columns[0]):.3f} | {statistics.mean(columns[1]):.0f} | '
                  f'{spread(columns[2])} | {spread(columns[3])} | {spread(columns[4])} | {spread(columns[5])} | '
                  f'{int(sum(columns[6]))} |')
        mean = {m: [statistics.mean(c) for c in zip(*rows)] for m, rows in methods.items()}
        name = f'{key[0]} {key[1]}' + (f' {key[2]}' if key[2] else '')
        if key in PAPER and PAPER[key][1] is not None:
            value, deviation, _, _ = PAPER[key]
            claims.append((f'{name}: the iterate comes to the published validation loss within 2 deviations',
                           mean['vf_idca'][2] <= value + 2 * deviation, f'{mean["vf_idca"][2]:.2f}; {value} ± {deviation}'))
        for method in ('vf_idca', 'vf_starts', 'vf_best'):
            if method in mean and 'wide_grid' in mean:
                claims.append((f'{name}: the refit of {method} is no worse than the wide grid + 5 %, on test rows',
                               mean[method][5] <= 1.05 * mean['wide_grid'][5],
                               f'{mean[method][5]:.2f} and {mean["wide_grid"][5]:.2f}'))
        worst = max(row[7] for row in methods['vf_idca'])
        claims.append((f'{name}: every subproblem is solved to a relative gap of 1e-6', worst <= 1e-6, f'{worst:.1e}'))
    small, large = cells.get(('sparse_group_lasso', 100, 30)), cells.get(('sparse_group_lasso', 100, 300))
    if small and large:
        ratio = {m: statistics.mean(r[0] for r in large[m]) / statistics.mean(r[0] for r in small[m])
                 for m in ('vf_idca', 'igjo')}
        claims.append(('time grows less with ten times the groups than that of igjo', ratio['vf_idca'] < ratio['igjo'],
                       f'{ratio["vf_idca"]:.1f} and {ratio["igjo"]:.1f} times'))
    print('\n| claim | holds | measured |\n|---|---|---|')
    for text, holds, measured in claims:
        print(f'| {text} | {"yes" if holds else "no"} | {measured} |')


if __name__ == '__main__':
    main()
