"""Tables and claims from the rows of run.sh: judge.py FOLDER.

A claim holds if its numbers do. The numbers of tables 1 to 3 of Gao et al. 2022 stand beside ours. A
method has the draws that it ended; two methods are compared on the draws that both ended.
"""

import collections
import csv
import pathlib
import statistics
import sys

# The paper's tables: seconds, validation loss, its deviation, test loss, its deviation; by problem, validation rows and
# groups, then by method. Its "VF-iDCA" is the iterate.
PAPER = {
    ('elastic_net', 20, 0): {
        'vf_idca': (0.91, 1.95, 0.81, 3.99, 0.69), 'grid': (3.10, 6.16, 2.35, 6.68, 1.16),
        'random': (3.55, 5.98, 2.24, 6.67, 1.15), 'tpe': (5.41, 6.05, 2.30, 6.77, 1.04),
        'igjo': (2.04, 4.43, 1.77, 5.13, 1.37), 'ifdm': (1.33, 4.41, 0.96, 4.77, 1.46)},
    ('elastic_net', 100, 0): {
        'vf_idca': (1.37, 3.04, 0.74, 3.58, 0.60), 'grid': (3.17, 6.51, 1.53, 6.82, 1.10),
        'random': (5.29, 6.44, 1.53, 6.77, 1.14), 'tpe': (5.40, 6.44, 1.53, 6.76, 1.06),
        'igjo': (2.42, 4.71, 1.32, 4.88, 1.30), 'ifdm': (1.30, 4.78, 1.12, 4.61, 1.12)},
    ('sparse_group_lasso', 100, 30): {
        'vf_idca': (8.13, 0.01, 0.00, 38.50, 6.00), 'grid': (30.38, 42.45, 7.67, 44.56, 7.33),
        'random': (28.54, 39.27, 7.32, 43.00, 8.83), 'tpe': (47.07, 35.69, 5.92, 40.59, 6.67),
        'igjo': (69.62, 30.16, 7.41, 39.28, 6.56)},
    ('sparse_group_lasso', 100, 300): {
        'vf_idca': (56.73, 19.61, 8.33, 33.55, 4.71), 'grid': (20.84, 41.88, 7.64, 44.90, 7.02),
        'random': (18.94, 43.92, 8.77, 47.90, 8.55), 'tpe': (76.82, 39.22, 6.26, 42.93, 8.00),
        'igjo': (160.85, 20.37, 4.46, 38.52, 6.78)},
    ('matrix_completion', 60, 24): {
        'vf_idca': (51.55, 0.06, 0.07, 0.70, 0.16), 'grid': (20.67, 0.71, 0.21, 0.76, 0.20),
        'random': (32.49, 0.73, 0.21, 0.80, 0.20), 'tpe': (35.05, 0.68, 0.20, 0.76, 0.18),
        'igjo': (1268.65, 0.68, 0.21, 0.72, 0.18)}}
ORDER = ('vf_idca', 'vf_starts', 'vf_best', 'wide_grid', 'grid', 'random', 'tpe', 'igjo', 'ifdm')


def spread(values):
    return f'{statistics.mean(values):.2f} ± {statistics.pstdev(values):.2f}'


def main():
    cells = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(pathlib.Path(sys.argv[1]).glob('*.csv')):
        for row in csv.reader(open(path)):
            if len(row) != 15:
                continue  # Of svm_figure.py or figure.py.
            cells[row[0], int(row[3]), int(row[5])][row[1]][int(row[6])] = [float(v) for v in row[7:]]
    claims = []
    for key, methods in cells.items():
        print(f'\n{key[0]}, {key[1]} validation rows' + (f', {key[2]} groups' if key[2] else '') +
              ': mean ± deviation\n')
        print('| method | draws | CPU s | models or steps | degenerate | iterate: validation, test | '
              'refit: validation, test | paper: s, validation, test |')
        print('|---|---|---|---|---|---|---|---|')
        published = PAPER.get(key, {})
        for method in sorted(methods.keys() | published.keys(), key=ORDER.index):
            rows = methods.get(method, {})
            columns = list(zip(*rows.values()))
            cell = [method, str(len(rows))] + [''] * 5
            if rows:
                cell[2:4] = f'{statistics.mean(columns[0]):.3f}', f'{statistics.mean(columns[1]):.0f}'
                cell[6] = f'{spread(columns[4])}, {spread(columns[5])}'
            if rows and method == 'vf_idca':  # The other methods report their refit.
                cell[4:6] = f'{sum(columns[6]):.0f}', f'{spread(columns[2])}, {spread(columns[3])}'
            numbers = published.get(method)
            cell.append('{0:.2f}; {1:.2f} ± {2:.2f}, {3:.2f} ± {4:.2f}'.format(*numbers) if numbers else '')
            print('| ' + ' | '.join(cell) + ' |')
        name = f'{key[0]} {key[1]}' + (f' {key[2]}' if key[2] else '')
        if 'vf_idca' in published and 'vf_idca' in methods:
            numbers = published['vf_idca']
            for text, at, column in (('validation', 1, 2), ('test', 3, 3)):
                mean = statistics.mean(row[column] for row in methods['vf_idca'].values())
                value, deviation = numbers[at], numbers[at + 1]
                claims.append((f'{name}: the iterate has the published {text} loss within 2 deviations',
                               abs(mean - value) <= 2 * deviation, f'{mean:.2f}; {value:.2f} ± {deviation:.2f}'))
        for method in ('vf_idca', 'vf_starts', 'vf_best'):
            if method not in methods:
                continue
            shared = methods[method].keys() & methods.get('wide_grid', {}).keys()
            if shared:
                ours, grid = (statistics.mean(methods[m][seed][5] for seed in shared) for m in (method, 'wide_grid'))
                claims.append((f'{name}: the refit of {method} is no worse than the wide grid + 5 %, on test rows',
                               ours <= 1.05 * grid, f'{ours:.2f} and {grid:.2f}'))
            worst = max(row[7] for row in methods[method].values())
            claims.append((f'{name}: every subproblem of {method} is solved to a relative gap of 1e-6', worst <= 1e-6,
                           f'{worst:.1e}'))
    small, large = (cells.get(('sparse_group_lasso', 100, groups), {}) for groups in (30, 300))
    ended = {m: small.get(m, {}).keys() & large.get(m, {}).keys() for m in ('vf_idca', 'igjo')}
    if ended['vf_idca']:
        shared = ended['vf_idca'] & ended['igjo']
        ratio = {}
        for m, seeds in ended.items():
            if seeds:
                seconds = [sum(rows[m][seed][0] for seed in shared or seeds) for rows in (small, large)]
                ratio[m] = seconds[1] / seconds[0]
        claims.append(('time grows less with ten times the groups than that of igjo',
                       ratio['vf_idca'] < ratio['igjo'] if shared else None,
                       '; '.join(f'{m} {r:.1f} times' for m, r in ratio.items()) +
                       ('' if shared else '; igjo ended no draw with both')))
    print('\n| claim | holds | measured |\n|---|---|---|')
    words = {True: 'yes', False: 'no', None: 'not known'}
    for text, holds, measured in claims:
        print(f'| {text} | {words[holds]} | {measured} |')


if __name__ == '__main__':
    main()
