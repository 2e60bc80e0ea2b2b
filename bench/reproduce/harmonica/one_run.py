"""Runs harmonica_experiment once and prints what the run came to: names, and a line of numbers.

    one_run.py PROGRAM PROBLEM METHOD SEED

Names: CPU seconds; the observed and the true value of the best setting after 100, 300, 700
and 1,400 whole trainings' worth (empty: the run is shorter); the mean observed value of the settings of stages 1 to 3 and of
the base; terms that believed stages selected, those of a single switch, those with a dummy.
"""

import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

BUDGETS = [100, 300, 700, 1400]
WHOLE = {'network': 9, 'synthetic': 1}  # Steps of a whole training.


def incumbent(rows, whole, budget):
    """The best row among whole trainings within the budget; None where the run is shorter."""
    if int(rows[-1]['spent']) / whole < budget - 1:
        return None
    tried = [row for row in rows if int(row['spent']) / whole <= budget and int(row['step']) == whole and row['value']]
    return min(tried, key=lambda row: float(row['value']), default=None)


def stage_means(rows):
    """Returns the means of each stage and of the base. A base with rungs has none: few of its trials get all their training."""
    groups = {}
    rungs = any(row['origin'] == 'base_promote' for row in rows)
    for row in rows:
        stage = int(row['stage'])
        if row['value'] and (stage or not rungs):
            groups.setdefault(stage, []).append(float(row['value']))
    names = {1: 'stage_1', 2: 'stage_2', 3: 'stage_3', 0: 'base'}
    return {name: f'{statistics.mean(groups[stage]):.6g}' if stage in groups else '' for stage, name in names.items()}


def terms(path):
    if not path.exists():
        return {'terms': '', 'singles': '', 'dummies': ''}
    with open(path) as file:
        believed = [row['term'] for row in csv.DictReader(file) if row['believed'] == '1']
    return {'terms': len(believed), 'singles': sum(' x ' not in term for term in believed),
            'dummies': sum('dummy' in term for term in believed)}


def main():
    program, problem, method, seed = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        subprocess.run([program, f'--results={place}', f'--problems={problem}', f'--methods={method}', f'--first_seed={seed}',
                        f'--seeds={int(seed) + 1}'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = place / problem / method / f'{seed}.csv'
        with open(path) as file:
            rows = list(csv.DictReader(file))
        seconds = sum(float(row['suggest_ms']) + float(row['evaluate_ms']) for row in rows) / 1000
        fields = {'seconds': f'{seconds:.2f}'}
        for budget in BUDGETS:
            row = incumbent(rows, WHOLE[problem], budget)
            fields |= {f'{column}_{budget}': row[column] if row else '' for column in ('value', 'truth')}
        fields |= stage_means(rows) | terms(pathlib.Path(f'{path}.terms'))
        print(','.join(fields))
        print(','.join(str(value) for value in fields.values()))


if __name__ == '__main__':
    main()
