"""Judges the claims about searches by hypergradients from the rows of run.sh: judge.py FOLDER [--markdown].

FOLDER has a file PROBLEM.csv each with the rows of hoag_experiment and peers.py. Suboptimality is (f - f*) / (f_1 - f*),
where f is exact where there is an exact value, f_1 the value at the start and f* the best exact value of all runs on
that problem and split. A method's time to a level is the median over splits of the least time over repeated runs.
"""

import collections
import csv
import math
import pathlib
import statistics
import sys

LEVELS = (1e-2, 1e-3, 1e-4)


def read(folder):
    runs = collections.defaultdict(list)  # (problem, method, split, repetition) -> rows
    for path in sorted(pathlib.Path(folder).glob('*.csv')):
        count = collections.Counter()
        for row in csv.reader(open(path)):
            problem, method, split, number = row[0], row[1], int(row[2]), int(row[3])
            if number == 1:
                count[problem, method, split] += 1
            runs[problem, method, split, count[problem, method, split]].append(row)
    return runs


def value(row):
    exact = float(row[6])
    return float(row[5]) if math.isnan(exact) else exact


def reach(rows, target, column):
    """What stands in `column` of the first row at or below the target: 4, the seconds; 9, the passes."""
    for row in rows:
        if value(row) <= target:
            return float(row[column]) if len(row) > column and float(row[column] or 0) > 0 else math.inf
    return math.inf


def main():
    runs = read(sys.argv[1])
    problems = sorted({key[0] for key in runs})
    times = {}
    passes = {}
    for problem in problems:
        table = {}
        pass_table = {}
        splits = sorted({key[2] for key in runs if key[0] == problem})
        for split in splits:
            mine = {key: rows for key, rows in runs.items() if key[0] == problem and key[2] == split}
            best = min(value(row) for rows in mine.values() for row in rows if not math.isnan(value(row)))
            first = max(value(rows[0]) for rows in mine.values() if not math.isnan(value(rows[0])))
            for (_, method, _, _), rows in mine.items():
                reached = [reach(rows, best + level * (first - best), 4) for level in LEVELS]
                count = pass_table.setdefault(method, {}).setdefault(split, math.inf)
                pass_table[method][split] = min(count, reach(rows, best + LEVELS[-1] * (first - best), 9))
                entry = table.setdefault(method, {}).setdefault(split, [math.inf] * len(LEVELS))
                table[method][split] = [min(a, b) for a, b in zip(entry, reached)]
        print(f'\n{problem}: CPU seconds to relative suboptimality, median of {len(splits)} splits (inf: not)\n')
        print('| method | ' + ' | '.join(f'{level:g}' for level in LEVELS) + ' | least to most at 1e-4 | passes to 1e-4 |')
        print('|---|' + '---|' * (len(LEVELS) + 2))
        for method, by_split in sorted(table.items(), key=lambda item: statistics.median(v[0] for v in item[1].values())):
            medians = [statistics.median(v[k] for v in by_split.values()) for k in range(len(LEVELS))]
            last = [v[-1] for v in by_split.values()]
            times[problem, method] = medians
            passes[problem, method] = statistics.median(pass_table[method].values())
            print(f'| {method} | ' + ' | '.join(f'{m:.3f}' for m in medians) + f' | {min(last):.3f} - {max(last):.3f} '
                  f'| {passes[problem, method]:.0f} |')
    print('\n| claim | holds | measured |\n|---|---|---|')
    for problem in problems:
        def t(method, level):
            return times.get((problem, method), [math.inf] * len(LEVELS))[level]
        claims = []
        if (problem, 'hoag') in times:
            claims.append(('HOAG with shrinking tolerances reaches 1e-2 before HOAG with all digits',
                           t('hoag', 0) < t('hoag_exact', 0), f'{t("hoag", 0):.3f} and {t("hoag_exact", 0):.3f} s'))
            claims.append(('HOAG reaches 1e-2 before iterative differentiation', t('hoag', 0) < t('iterdiff', 0),
                           f'{t("hoag", 0):.3f} and {t("iterdiff", 0):.3f} s'))
            others = {m: t(m, 0) for m in ('grid', 'random', 'bo', 'hyperopt', 'sklearn') if (problem, m) in times}
            if others:
                fastest = min(others, key=others.get)
                claims.append(('HOAG reaches 1e-2 before all searches without gradients', t('hoag', 0) < others[fastest],
                               f'{t("hoag", 0):.3f} s; {fastest} {others[fastest]:.3f}'))
            claims.append(('HOAG reaches 1e-4 no later than L-BFGS-B on exact hypergradients',
                           math.isfinite(t('hoag', 2)) and t('hoag', 2) <= t('scipy', 2), f'{t("hoag", 2):.3f} and {t("scipy", 2):.3f} s'))
            quasi = passes.get((problem, 'fobo'), math.inf)
            claims.append(('fobo reaches 1e-4 in half of the passes of HOAG',
                           math.isfinite(quasi) and quasi <= 0.5 * passes[problem, 'hoag'],
                           f'{quasi:.0f} and {passes[problem, "hoag"]:.0f}'))
        for text, holds, measured in claims:
            print(f'| {problem}: {text} | {"yes" if holds else "no"} | {measured} |')


if __name__ == '__main__':
    main()
