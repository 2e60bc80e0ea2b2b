"""Losses against CPU time, each method on a few draws, as the paper's figure 1 has them for support vector machines:

    figure.py collect PROGRAM ROWS.csv
    figure.py draw ROWS.csv FIGURE.svg

PROGRAM is vf_idca_experiment. It prints the time of a whole run only, so that `collect` runs it with several budgets.
vf_idca ends at the first step below a tolerance: every step below all before it can be the last one, and such a run has
the seconds and all losses up to that step. For its other steps there are the loss of the iterate, as --steps prints it,
and the CPU time at which its line came. vf_starts runs with several tolerances. The searches have one budget, hence one
point a draw. Times below two seconds are the least of three runs. A row:

    problem,method,seed,budget,CPU seconds,validation and test loss of the iterate,validation and test loss of the refit

The budget is the step of vf_idca, the tolerance of vf_starts, or the number of models. What cannot be had is empty. A
run that did not end in LIMIT seconds has a row with those seconds and no losses. `draw` needs matplotlib.
"""

import argparse
import csv
import io
import os
import re
import subprocess

LIMIT = 300.0
SEEDS = (1, 2, 3)
PROBLEMS = {'elastic_net': ['--problem=elastic_net', '--validation=100'],
            'sparse_group_lasso': ['--problem=sparse_group_lasso', '--columns=600', '--groups=30', '--test=100']}
SEARCHES = {'elastic_net': ('wide_grid', 'grid', 'random', 'tpe', 'igjo', 'ifdm'),
            'sparse_group_lasso': ('wide_grid', 'grid', 'random', 'tpe', 'igjo')}
TOLERANCES = {'elastic_net': (1e9, 1.0, 0.5, 0.2, 0.1), 'sparse_group_lasso': (1e9, 8.0, 7.0, 6.0, 5.0, 0.1)}
COLORS = {'vf_idca': 'black', 'vf_starts': 'tab:red', 'wide_grid': 'tab:green', 'grid': 'tab:olive', 'random': 'tab:cyan',
          'tpe': 'tab:blue', 'igjo': 'tab:purple', 'ifdm': 'tab:orange'}
MARKERS = {'wide_grid': 's', 'grid': 'D', 'random': 'x', 'tpe': '+', 'igjo': '^', 'ifdm': 'v'}


def run(command):
    """Returns the fields of the last line, with the least seconds of three runs if they are short; None after LIMIT."""
    fields = None
    for _ in range(3):
        try:
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT).stdout
        except subprocess.TimeoutExpired:
            return None
        now = out.splitlines()[-1].split(',')
        if fields is None or float(now[7]) < float(fields[7]):
            fields = now
        if float(now[7]) > 2.0:
            break
    return fields


def arrivals(command):
    """Returns lines of steps, each as (CPU seconds of the process at its arrival, fields)."""
    lines = []
    process = subprocess.Popen(['stdbuf', '-oL'] + command + ['--steps'], stdout=subprocess.PIPE, text=True)
    for line in iter(process.stdout.readline, ''):
        with open(f'/proc/{process.pid}/schedstat') as stat:
            lines.append((int(stat.read().split()[0]) / 1e9, line.strip().split(',')))
    process.wait()
    return lines[:-1]


def vf_idca_rows(command):
    """Yields (step, seconds, losses) of vf_idca."""
    steps = [fields for _, fields in arrivals(command)]
    sizes = [max(float(f[1]), float(f[2])) for f in steps]
    ends = {}
    for k, size in enumerate(sizes):
        before = min(sizes[:k], default=1e9)
        tolerance = before if k + 1 < len(sizes) else 0.1
        if size < 0.999 * before:
            fields = run(command + [f'--tolerance={0.5 * (size + tolerance) if k + 1 < len(sizes) else 0.1:.17g}'])
            if int(fields[8]) != k + 1:
                raise RuntimeError(f'ended at step {fields[8]}, not {k + 1}')
            ends[k] = fields
    # From the process's CPU time to that of the algorithm: at the first step both are known.
    least = [min(times) for times in zip(*([t for t, _ in arrivals(command)] for _ in range(5)))]
    before = least[0] - float(ends[0][7])
    for k, fields in enumerate(steps):
        if k in ends:
            yield (k + 1, ends[k][7], *ends[k][9:13])
        else:
            yield (k + 1, f'{least[k] - before:.4f}', fields[7], '', '', '')


def collect(program, path):
    assert os.path.exists('/proc/self/schedstat')
    with open(path, 'w') as out:
        for problem, flags in PROBLEMS.items():
            for seed in SEEDS:
                def write(method, budget, seconds, losses):
                    print(problem, method, seed, budget, seconds, *losses, sep=',', file=out, flush=True)
                base = [program, *flags, f'--seed={seed}']
                for step, seconds, *losses in vf_idca_rows(base + ['--method=vf_idca']):
                    write('vf_idca', step, seconds, losses)
                runs = [('vf_starts', f'{t:g}', [f'--tolerance={t}']) for t in TOLERANCES[problem]]
                runs += [(method, None, []) for method in SEARCHES[problem]]
                for method, budget, more in runs:
                    fields = run(base + [f'--method={method}'] + more)
                    if fields is None:
                        write(method, '', LIMIT, [''] * 4)
                    else:
                        losses = [''] * 2 + fields[11:13]
                        write(method, fields[8] if budget is None else budget, fields[7], losses)


def read(path):
    """Returns rows by problem, method and seed, each as (seconds, losses of iterate and refit), None where there is none."""
    rows = {}
    for problem, method, seed, _, seconds, *losses in csv.reader(open(path)):
        losses = [float(v) if v else None for v in losses]
        rows.setdefault(problem, {}).setdefault(method, {}).setdefault(int(seed), []).append((float(seconds), losses))
    for methods in rows.values():
        for seed, points in methods['vf_idca'].items():
            # A run that went on past a step took at least as long as to that step.
            least = [min(t for t, _ in points[k:]) for k in range(len(points))]
            methods['vf_idca'][seed] = [(t, losses) for t, (_, losses) in zip(least, points)]
    return rows


def best_so_far(points, at):
    """Returns seconds and loss `at` (2 validation, 3 test) of the refit with the least validation loss so far."""
    seconds, values, best = [], [], float('inf')
    for time, losses in sorted(points, key=lambda point: point[0]):
        if losses[2] is None:
            continue
        if losses[2] < best:
            best, value = losses[2], losses[at]
        seconds.append(time)
        values.append(value)
    return seconds, values


def draw(path, figure_path):
    import matplotlib
    matplotlib.use('svg')
    matplotlib.rcParams.update({'svg.fonttype': 'none', 'svg.hashsalt': 'vf_idca', 'font.size': 9})
    from matplotlib import pyplot, ticker
    rows = read(path)
    figure, axes = pyplot.subplots(2, 3, figsize=(12, 7.5))
    handles = {}
    for row, (problem, methods) in zip(axes, rows.items()):
        for axis, at, name in zip(row, (2, 3), ('validation', 'test')):
            for method, seeds in methods.items():
                for points in seeds.values():
                    seconds, values = best_so_far(points, at)
                    if method.startswith('vf_'):
                        handles[method + ': best refit so far'], = axis.plot(
                            seconds, values, color=COLORS[method], drawstyle='steps-post', marker='o', markersize=3,
                            linewidth=1.2)
                    elif seconds:
                        handles[method + ': best model of its run'], = axis.plot(
                            seconds, values, color=COLORS[method], linestyle='', marker=MARKERS[method], markersize=6)
            axis.set_title(f'{problem}: {name} loss of refits')
        for points in methods['vf_idca'].values():
            for at, name, style in ((0, 'validation', '-'), (1, 'test', ':')):
                known = [(t, losses[at]) for t, losses in points if losses[at] is not None]
                handles[f'iterate: {name} loss'], = row[2].plot(*zip(*known), color='0.4', linestyle=style, marker='.',
                                                                markersize=4, linewidth=1)
        row[2].set_title(f'{problem}: iterate of vf_idca,\nwhich has seen the validation rows')
        for axis in row:
            axis.set_xscale('log')
            axis.set_yscale('log')
            axis.grid(True, color='0.9')
            axis.set_xlabel('CPU seconds')
            axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        for axis in row[:2]:
            axis.yaxis.set_major_locator(ticker.MaxNLocator(7))
            axis.yaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
            axis.yaxis.set_minor_locator(ticker.NullLocator())
    figure.legend(handles.values(), handles.keys(), loc='lower center', ncol=5, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    text = io.StringIO()
    figure.savefig(text, metadata={'Date': None})
    with open(figure_path, 'w') as out:  # Hundredths of a point are enough.
        out.write(re.sub(r'(\d\.\d\d)\d+', r'\1', re.sub(r'\n +', '\n', text.getvalue())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('task', choices=('collect', 'draw'))
    parser.add_argument('source')
    parser.add_argument('target')
    a = parser.parse_args()
    (collect if a.task == 'collect' else draw)(a.source, a.target)


if __name__ == '__main__':
    main()
