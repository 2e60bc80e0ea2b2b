#!/usr/bin/env python3
"""Makes pages/reproduction_crf.md from what reproduce_crf printed: tables and the verdict on each claim.

  bench/reproduce/crf/run.sh DATA_DIR          # runs everything; build/release/reproduce_crf.csv
  bench/reproduce/crf/judge_crf.py build/release/reproduce_crf.csv > bench/reproduce/crf/pages/reproduction_crf.md

Figures, to pages, need matplotlib and Pillow and are left as they are without. What is not in the
file is said to be missing, not guessed.
"""

import collections
import csv
import io
import os
import statistics
import sys

TITLES = {
    "letters": "OCR letters",
    "chunking": "CoNLL-2000",
    "names": "CoNLL-2002 Dutch",
    "tags": "UD-EWT parts of speech",
}
METHODS = ["sag-ms", "sag-ms-checked", "sag-pl", "sag", "lbfgs", "hybrid", "oeg", "asg", "sg", "adagrad", "pegasos", "smd"]
STEPS = ["const", "lmean", "lmax", "hedge", "opt", "averagehedgeopt1", "averagehedgeopt2"]
SAMPLINGS = ["u", "rp", "cyclic", "cyclic2", "pl", "ms"]
INF = float("inf")
# Passes of longer runs, bench/train/pages/training.md.
RECORDED = {("letters", "lbfgs"): 325.0, ("chunking", "lbfgs"): 266.0}


class Curve:
    """Suboptimality and test error against passes and seconds of one run."""

    def __init__(self):
        self.points = []  # (passes, seconds, gap, error)
        self.diverged = False
        self.detail = ""

    def passes_to(self, level):
        return next((p for p, _, gap, _ in self.points if gap <= level), INF)

    def seconds_to(self, level):
        return next((s for _, s, gap, _ in self.points if gap <= level), INF)

    def at(self, passes, column):
        """The value of the last point that cost no more than that."""
        found = [point for point in self.points if point[0] <= passes * 1.02]
        return found[-1][column] if found else INF

    def last_passes(self):
        return self.points[-1][0] if self.points else 0.0


class Runs:
    """All runs with one seed."""

    def __init__(self):
        self.data = {name: {} for name in TITLES}
        self.grid, self.other_grid, self.dual, self.tries = {}, {}, [], {}
        self.start = collections.defaultdict(Curve)


def read(path):
    """Problems, optima, memory, and the runs by seed, 1 first."""
    problems, optima, memory, seeds = {}, {}, {}, collections.defaultdict(Runs)
    with open(path) as f:
        for row in csv.reader(f):
            kind, name, method, detail = row[:4]
            if kind == "problem":
                problems[name] = [int(row[k]) for k in (2, 3, 4, 5)]
                continue
            if kind == "memory":
                memory[name, method] = float(row[7])
                continue
            if kind == "optimum":
                optima[name] = (float(row[7]), float(row[8]), float(row[9]))
                continue
            runs = seeds[int(row[4])]
            if kind == "grid":
                sampling, step = detail.split()
                (runs.grid if name == "letters" else runs.other_grid)[method, sampling, step] = (float(row[7]), float(row[6]))
            elif kind == "dual":
                runs.dual.append((name, float(detail), float(row[9]), float(row[7])))
            elif kind in ("curve", "diverged"):
                if method == "sag-start":
                    curve = runs.start[name, detail]
                elif method.endswith("-try"):
                    curve = runs.tries.setdefault((name, method[:-4], detail), Curve())
                else:
                    curve = runs.data[name].setdefault(method, Curve())
                curve.detail = detail
                if kind == "diverged":
                    curve.diverged = True
                else:
                    curve.points.append(tuple(float(row[k]) for k in (5, 6, 7, 8)))
    # L-BFGS draws nothing: it ran once.
    for runs in seeds.values():
        for name in TITLES:
            if "lbfgs" in seeds[1].data[name] and runs.data[name]:
                runs.data[name].setdefault("lbfgs", seeds[1].data[name]["lbfgs"])
    return problems, optima, memory, dict(sorted(seeds.items()))


def number(x, form="%.1f"):
    return "-" if x == INF else form % x


def middle(values, form="%.1f", spread=False):
    """The median, and the least and largest where asked for."""
    values = list(values)
    text = number(statistics.median_low(values), form)
    if spread and len(values) > 1 and min(values) < INF:
        text += f" ({number(min(values), form)} … {number(max(values), form)})"
    return text


def race_table(seeds, name):
    out = ["| method | seeds | step | passes to 1e-2 | 1e-4 | 1e-6 | s to 1e-2, 1e-4, 1e-6 | gap at 10 | gap at 20 | test error at 3, 10, end |",
           "|" + "---|" * 10]
    for method in METHODS:
        curves = [runs.data[name][method] for runs in seeds.values() if method in runs.data[name]]
        curves = list(dict.fromkeys(curves))
        if not curves:
            continue
        passes = [middle((c.passes_to(level) for c in curves), spread=True) for level in (1e-2, 1e-4, 1e-6)]
        seconds = ", ".join(middle(c.seconds_to(level) for c in curves) for level in (1e-2, 1e-4, 1e-6))
        gaps = [middle((c.at(p, 2) for c in curves), "%.1e") for p in (10, 20)]
        errors = ", ".join(middle((100 * c.at(p, 3) for c in curves), "%.2f") for p in (3, 10, INF))
        steps = ", ".join(dict.fromkeys(c.detail for c in curves))
        out.append(f"| {method} | {len(curves)} | {steps} | {' | '.join(passes)} | {seconds} | {' | '.join(gaps)} | {errors} % |")
    return "\n".join(out)


def grid_table(seeds, method):
    out = [f"| {method} | " + " | ".join(STEPS) + " |", "|" + "---|" * (len(STEPS) + 1)]
    for sampling in SAMPLINGS:
        cells = []
        for step in STEPS:
            gaps = [runs.grid[method, sampling, step][0] for runs in seeds.values() if (method, sampling, step) in runs.grid]
            cells.append(middle(gaps, "%.1e") if gaps else "not run")
        out.append(f"| {sampling} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def works(grid, method, sampling, limit=0.5):
    """Steps with which it is well below the start (whose gap is above 1) after 30 passes."""
    return [step for step in STEPS if grid.get((method, sampling, step), (INF, 0))[0] < limit]


def claims(runs, memory):
    """Of one seed: claim, its text, the verdict, the numbers."""
    data, grid, other_grid, dual, start, tries = runs.data, runs.grid, runs.other_grid, runs.dual, runs.start, runs.tries
    present = [name for name in TITLES if "sag-ms" in data[name]]
    verdicts = []

    def judge(claim, text, holds, evidence):
        verdict = "no data" if holds is None else {True: "holds", False: "does not hold"}.get(holds, holds)
        verdicts.append((claim, text, verdict, evidence))

    rivals = ["sg", "asg", "adagrad", "lbfgs", "hybrid"]
    evidence, ratios, first = [], [], True
    for name in present:
        sag = data[name]["sag-ms"]
        if not any(r in data[name] for r in rivals):
            continue
        reached = sag.passes_to(1e-6)
        best = min(((min(data[name][r].passes_to(1e-6), RECORDED.get((name, r), INF)), r) for r in rivals if r in data[name]),
                   default=(INF, "none"))
        if best[0] < INF:
            ratios.append(best[0] / reached)
            evidence.append(f"{TITLES[name]}: {reached:.0f} passes, {best[1]} {best[0]:.0f} ({ratios[-1]:.1f} x)")
        else:
            most = max(data[name][r].last_passes() for r in rivals if r in data[name])
            ratios.append(most / reached)
            evidence.append(f"{TITLES[name]}: {reached:.0f} passes, no other in its {most:.0f} (more than {ratios[-1]:.1f} x)")
        for level in (1e-4, 1e-6):
            first = first and all(sag.passes_to(level) <= data[name][r].passes_to(level) for r in rivals if r in data[name])
    if present:
        fast = all(r >= 5 for r in ratios)
        judge("CT1", "SAG-MS first on every problem; to 1e-6 with a fifth of the best other's passes",
              True if first and fast else "first: yes; a fifth: no" if first else False, "; ".join(evidence))
    both = [n for n in present if "sag-pl" in data[n]]
    if both:
        pairs = [(TITLES[n], data[n]["sag-ms-checked"], data[n]["sag-pl"]) for n in both]
        holds = all(ms.passes_to(1e-4) <= 1.05 * pl.passes_to(1e-4) for _, ms, pl in pairs)
        judge("CT2", "MS needs no more passes than PL; less of an advantage in time", holds,
              "; ".join(f"{t}: to 1e-4 {number(ms.passes_to(1e-4))} against {number(pl.passes_to(1e-4))} passes, "
                        f"{number(ms.seconds_to(1e-4))} against {number(pl.seconds_to(1e-4))} s" for t, ms, pl in pairs)
              + "; both search at every visit")
    trio = [n for n in present if all(m in data[n] for m in ("sag", "asg", "hybrid"))]
    if trio:
        orders = {n: sorted(("sag", "asg", "hybrid"), key=lambda m: data[n][m].at(20, 2)) for n in trio}
        judge("CT3", "plain SAG, ASG, Hybrid: ranks differ between problems",
              len({tuple(o) for o in orders.values()}) > 1 if len(orders) > 1 else None,
              "at 20 passes, best first: " + "; ".join(f"{TITLES[n]}: {', '.join(o)}" for n, o in orders.items()))
    pairs = [("sg", "pegasos"), ("asg", "sg"), ("asg", "adagrad"), ("asg", "smd"), ("hybrid", "lbfgs")]
    lines, good = [], True
    for a, b in pairs:
        names = [n for n in present if a in data[n] and b in data[n]]
        wins = [n for n in names if data[n][a].at(10, 2) < data[n][b].at(10, 2)]
        good = good and len(wins) == len(names)
        lines.append(f"{a} before {b} on {len(wins)} of {len(names)}")
    slower = [n for n in present if "adagrad" in data[n] and "sg" in data[n]]
    per_pass = {n: [data[n][m].points[-1][1] / data[n][m].last_passes() for m in ("adagrad", "sg")] for n in slower}
    lines.append("a pass of adagrad costs " + ", ".join(f"{a / b:.1f}" for a, b in per_pass.values()) + " of sg's")
    if present:
        judge("CT4", "SG before Pegasos; ASG before SG, AdaGrad, SMD; Hybrid before L-BFGS (at 10 passes); AdaGrad slow", good,
              "; ".join(lines))
    if dual:
        # By problem, penalty and start (true labels likely, or all alike).
        gaps = {(n, l2, potential > 0): gap for n, l2, potential, gap in dual}
        names = [n for n in TITLES if (n, 0.1, True) in gaps]
        worse = all(gaps[n, 0.1, True] > gaps[n, 1.0, True] > gaps[n, 10.0, True] for n in names) if names else None
        text = "; ".join(f"{TITLES[n]}, {l2:g}/n: {gap:.1e} (from uniform {number(gaps.get((n, l2, False), INF), '%.1e')})"
                         for (n, l2, sure), gap in gaps.items() if sure)
        judge("CT5", "OEG is worse for small lambda", worse, "duality gap over objective after 20 passes: " + text)
    lines, sensitive = [], []
    for name in present:
        for method in ("asg", "adagrad", "sg"):
            if method not in data[name]:
                continue
            best = data[name][method].detail
            power = int(best[2:])
            errors = [tries.get((name, method, f"1e{p}"), Curve()) for p in (power, power - 1, power + 1)]
            values = [100 * c.points[-1][3] if c.points and not c.diverged else INF for c in errors]
            sag = 100 * data[name]["sag-ms"].at(3, 3)
            sensitive.append((values[0] <= 1.1 * sag, min(values[1:]) > 1.1 * values[0]))
            lines.append(f"{TITLES[name]} {method} {', '.join(number(v, '%.2f') for v in values)} (sag-ms {sag:.2f})")
    if lines:
        match, worse = sum(a for a, _ in sensitive), sum(b for _, b in sensitive)
        judge("CT6", "tuned SG methods reach SAG's test error after 3 passes; with the next best step they do not",
              f"matches in {match}, sensitive in {worse} of {len(sensitive)}",
              "error in % with the best step, a tenth, ten times: " + "; ".join(lines))
    if start:
        lines, good, too_large = [], True, False
        for name in [n for n in TITLES if (n, "1") in start]:
            gaps = [start[name, d].at(8, 2) for d in ("0.001", "1", "1000")]
            early = [start[name, d].at(2.5, 2) for d in ("0.001", "1", "1000")]
            small, right, large = gaps
            good = good and max(small, right) <= 1.1 * min(small, right)
            too_large = too_large or max(large, right) > 1.1 * min(large, right)
            lines.append(f"{TITLES[name]} at 2 and 8 passes: {', '.join('%.3g' % g for g in early)}; {', '.join('%.3g' % g for g in gaps)}")
        judge("CT7", "SAG does not mind the first L_g (0.001, 1, 1000): within a tenth",
              "too small: holds; too large: no" if good and too_large else good, "; ".join(lines))
    if grid:
        sag = {s: works(grid, "sag", s) for s in SAMPLINGS}
        judge("CT8", "SAG works with U, PL, MS only",
              all(sag[s] for s in ("u", "pl", "ms")) and not any(sag[s] for s in ("rp", "cyclic", "cyclic2")),
              "steps with which it does: " + "; ".join(f"{s} {len(sag[s])} of 7" for s in SAMPLINGS))
        saga = {s: works(grid, "saga", s) for s in SAMPLINGS}
        if ("saga", "cyclic2", "hedge") in grid and ("saga", "ms", "averagehedgeopt2") in grid:
            rp = [grid["saga", s, "hedge"][0] for s in ("rp", "cyclic2")]
            best = min(((v[0], k[1], k[2]) for k, v in grid.items() if k[0] == "saga"))
            names = "; ".join(f"{sampling} {step} {number(gap, '%.1e')}" for (_, sampling, step), (gap, _) in other_grid.items())
            judge("CT9", "SAGA works with RP and Cyclic2 with hedge (and these are its best); never Cyclic; SAGA2 with PL and "
                  "lmean can fail on names",
                  "in part" if max(rp) < 0.5 else False,
                  f"hedge: rp {number(rp[0], '%.1e')}, cyclic2 {number(rp[1], '%.1e')}; best: {best[1]} {best[2]} {best[0]:.1e}; "
                  f"cyclic works with {len(saga['cyclic'])} of 7 steps; SAGA2 on names after 30 passes: {names or 'not run'}")
    printed = {("letters", "sparse"): 7.8e-1, ("letters", "marginals"): 1.1, ("letters", "mixed"): 2.1e-1,
               ("chunking", "sparse"): 4.8e-3, ("chunking", "marginals"): 7.0e-3, ("chunking", "mixed"): 6.1e-4}
    got = {k: memory[k] for k in printed if k in memory}
    if got:
        # Sparse depends on which features there are, and the text names kinds alone.
        right = all(abs(got[k] / printed[k] - 1) < 0.06 for k in got if k[1] != "sparse")
        judge("CT10", "the table of memory", right,
              "; ".join(f"{TITLES[n]} {m} {v:.1e} (printed {printed[n, m]:.1e})" for (n, m), v in got.items()))
    return verdicts


def claims_table(seeds, memory):
    """Verdicts of seed 1 with its numbers, and on how many seeds they are the same, by what ran with those."""
    first, others = claims(seeds[1], memory), {seed: claims(runs, memory) for seed, runs in seeds.items() if seed != 1}
    lines = ["| | claim | verdict | numbers (seed 1) |", "|---|---|---|---|"]
    for claim, text, verdict, evidence in first:
        also = {seed: found[2] for seed, list_of in others.items() for found in list_of
                if found[0] == claim and found[2] != "no data"}
        same = sum(v == verdict for v in also.values())
        # A claim that needs no sampling (the table of memory) is one for all seeds; a count (CT6) is not the same by chance.
        counted = also and claim != "CT10" and not any(c.isdigit() for c in verdict)
        note = f", {1 + same} of {1 + len(also)} seeds" if counted else ""
        differing = "; ".join(f"seed {seed}: {v}" for seed, v in also.items() if v != verdict)
        note += f" ({differing})" if differing else ""
        lines.append(f"| {claim} | {text} | **{verdict}**{note} | {evidence} |")
    return "\n".join(lines)


def figure(seeds, optimal_errors, folder):
    """Every run of the races; the picture's name if it is there."""
    path = "crf_races.png"
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from PIL import Image
    except ImportError:
        return path if os.path.exists(os.path.join(folder, path)) else None
    names = [name for name in TITLES if any(runs.data[name] for runs in seeds.values())]
    fig, axes = plt.subplots(2, len(names), figsize=(3.2 * len(names), 5.6), squeeze=False)
    colors = dict(zip(METHODS, plt.get_cmap("tab20").colors))
    handles = {}
    for c, name in enumerate(names):
        for method in METHODS:
            for curve in dict.fromkeys(runs.data[name][method] for runs in seeds.values() if method in runs.data[name]):
                passes = [p[0] for p in curve.points]
                line, = axes[0][c].plot(passes, [max(p[2], 1e-7) for p in curve.points], color=colors[method], linewidth=0.9)
                axes[1][c].plot(passes, [100 * p[3] for p in curve.points], color=colors[method], linewidth=0.9)
                handles[method] = line
        axes[0][c].set_yscale("log")
        axes[0][c].set_ylim(1e-6, 20)
        best = 100 * optimal_errors[name]
        axes[1][c].set_ylim(0.93 * best, 1.7 * best)
        axes[0][c].set_title(TITLES[name], fontsize=9)
        for row in (0, 1):
            axes[row][c].set_xlim(0, 80)
            axes[row][c].tick_params(labelsize=7)
    axes[0][0].set_ylabel("(f - f*) / f*", fontsize=8)
    axes[1][0].set_ylabel("test error, % of tokens", fontsize=8)
    order = [m for m in METHODS if m in handles]
    fig.legend([handles[m] for m in order], order, loc="lower center", ncol=12, fontsize=7, frameon=False)
    fig.suptitle("Races against passes, a line for each seed", fontsize=10)
    fig.tight_layout(rect=(0, 0.04, 1, 1))
    with io.BytesIO() as buffer:
        fig.savefig(buffer, dpi=80)
        plt.close(fig)
        # 128 colours are enough, and half of the bytes.
        Image.open(buffer).convert("RGB").quantize(128).save(os.path.join(folder, path), optimize=True)
    return path


# What the hand-written parts name, seen from the page.
LINKS = {"(README)": "([README](../../README.md))", "training.md": "[training.md](../../../train/pages/training.md)"}


def linked(text):
    for name, link in LINKS.items():
        text = text.replace(name, link)
    return text.rstrip()


def main(path):
    here = os.path.dirname(os.path.abspath(__file__))
    problems, optima, memory, seeds = read(path)
    with open(os.path.join(here, "preface.md")) as f:
        print(linked(f.read()) + "\n")
    print("## The claims\n")
    print(claims_table(seeds, memory))
    print("\n## The races (figures 2.1 to 2.5)\n")
    errors = {name: error for name, (_, error, _) in optima.items()}
    # Where h* is known beforehand: the best error of a method that ended there.
    for name in TITLES:
        ends = [c.points[-1][3] for runs in seeds.values() for m, c in runs.data[name].items() if m == "sag-ms"]
        if ends:
            errors.setdefault(name, min(ends))
    picture = figure(seeds, errors, os.path.join(here, "pages"))
    if picture:
        print(f"![Suboptimality and test error against passes]({picture})\n")
    print("Passes to a relative suboptimality: median (least … largest) of the seeds; the rest are medians. Seconds are CPU seconds.\n")
    for name in TITLES:
        if name not in problems or not any(runs.data[name] for runs in seeds.values()):
            print(f"### {TITLES[name]}\n\nskipped: not run, or no data\n")
            continue
        n, tokens, weights, labels = problems[name]
        print(f"### {TITLES[name]}: {n:,} sequences, {tokens:,} tokens, {labels} labels, {weights:,} weights\n")
        if name in optima:
            value, error, bound = optima[name]
            print(f"h* = {value:.3f}, proven to {bound:.1e}; test error there {100 * error:.2f} %.\n")
        print(race_table(seeds, name) + "\n")
    # Whole ones: all three methods.
    grids = [runs.grid for runs in seeds.values() if len({key[0] for key in runs.grid}) == 3]
    if grids:
        seconds = min(sum(s for _, s in grid.values()) for grid in grids)
        print("## Samplings and steps (figures 2.6 to 2.8)\n")
        print(f"Relative |f - f*| on the letters after 30 passes, medians of {len(grids)} seeds; - : diverged by the source's rule. `const` is the best of")
        print(f"1e-3, 1e-2, 1e-1. {len(grids[0])} cells, {seconds:.0f} CPU seconds for a seed.\n")
        for method in ("sag", "saga", "saga2"):
            if any(k[0] == method for k in grids[0]):
                print(grid_table(seeds, method) + "\n")
    with open(os.path.join(here, "discussion.md")) as f:
        print(linked(f.read()))


if __name__ == "__main__":
    main(sys.argv[1])
