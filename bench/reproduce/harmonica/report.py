#!/usr/bin/env python3
"""Writes pages/harmonica.md and its figures from the results of `harmonica_experiment`.

    bench/reproduce/harmonica/report.py [RESULTS [OUTPUT]]

RESULTS: the folder it wrote to (build/release/harmonica). What is written by hand is in
preface.md, discussion.md and verdict.md.
Needs matplotlib for the figures; without it there are none.
"""

import csv
import glob
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
METHODS = ["harmonica2", "harmonica3", "harmonica2_tpe", "harmonica2_hyperband",
           "harmonica2_cheap_hyperband", "random", "successive_halving", "hyperband", "tpe", "bo"]
BUDGETS = [100, 150, 300, 400, 600, 700, 1000, 1400]
WHOLE = {"network": 9, "synthetic": 1}  # Steps of a whole training.


def load(folder):
    """problem -> method -> seed -> rows."""
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "*", "*", "*.csv"))):
        problem, method, seed = path[:-4].split(os.sep)[-3:]
        rows = []
        with open(path) as f:
            for r in csv.DictReader(f):
                rows.append({"spent": int(r["spent"]) / WHOLE[problem], "whole": int(r["step"]) == WHOLE[problem],
                             "value": float(r["value"]) if r["value"] else None,
                             "truth": float(r["truth"]) if r["truth"] else None,
                             "origin": r["origin"], "stage": int(r["stage"]),
                             "suggest_ms": float(r["suggest_ms"]), "evaluate_ms": float(r["evaluate_ms"])})
        runs.setdefault(problem, {}).setdefault(method, {})[int(seed)] = rows
    return runs


def incumbent(rows, budget):
    """The row of the best observed value among whole trainings within the budget; None: the run is shorter, or there is none."""
    best = None
    if rows[-1]["spent"] < budget - 1:
        return None
    for row in rows:
        if row["spent"] > budget:
            break
        if row["whole"] and row["value"] is not None and (best is None or row["value"] < best["value"]):
            best = row
    return best


def table(columns, rows):
    lines = ["| " + " | ".join(map(str, columns)) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def best_table(methods, column):
    rows = []
    for method in (m for m in METHODS if m in methods):
        row = [f"`{method}`", len(methods[method])]
        for budget in BUDGETS:
            found = [incumbent(r, budget) for r in methods[method].values()]
            row.append("" if None in found else f"{statistics.mean(r[column] for r in found):.2f}")
        rows.append(row)
    return table(["method", "seeds", *BUDGETS], rows)


def stage_of(row):
    return f"stage {row['stage']}" if row["stage"] else "base"


def stage_means(rows):
    """Mean value of all settings of each stage and of the base; not of a base with rungs, where few get all their training."""
    groups = {}
    rungs = any(row["origin"] == "base_promote" for row in rows)
    for row in rows:
        if row["value"] is not None and (row["stage"] or not rungs):
            groups.setdefault(stage_of(row), []).append(row["value"])
    return {name: statistics.mean(values) for name, values in groups.items()}


def stage_table(methods):
    names = ["stage 1", "stage 2", "stage 3", "base"]
    rows = []
    for method in (m for m in METHODS if m in methods and m.startswith("harmonica")):
        means = [stage_means(r) for r in methods[method].values()]
        cells = []
        for name in names:
            values = [m[name] for m in means if name in m]
            cells.append(f"{statistics.mean(values):.2f}" if values else "")
        rows.append([f"`{method}`", *cells])
    return table(["method", *names], rows)


def wins(methods, a, count_a, b, count_b, column):
    pairs = []
    for seed in sorted(set(methods.get(a, {})) & set(methods.get(b, {}))):
        x, y = incumbent(methods[a][seed], count_a), incumbent(methods[b][seed], count_b)
        if x and y:
            pairs.append((x[column], y[column]))
    better = sum(x < y for x, y in pairs)
    equal = sum(x == y for x, y in pairs)
    return [f"`{a}`, {count_a}", f"`{b}`, {count_b}", f"{better} of {len(pairs)}", equal,
            f"{statistics.mean(x - y for x, y in pairs):+.2f}" if pairs else ""]


def wins_table(methods, column):
    rivals = [("random", 700), ("random", 1400), ("successive_halving", 700), ("hyperband", 700), ("tpe", 700)]
    rows = []
    for a in ("harmonica2", "harmonica2_tpe", "harmonica2_hyperband", "harmonica2_cheap_hyperband"):
        for b, count in rivals:
            if a in methods and b in methods:
                rows.append(wins(methods, a, 700, b, count, column))
    return table(["method, trainings", "against", "better in", "equal in", "mean difference"], rows)


def cost_table(methods):
    rows = []
    for method in (m for m in METHODS if m in methods):
        all_rows = [row for run in methods[method].values() for row in run]
        rows.append([f"`{method}`", f"{statistics.mean(r['suggest_ms'] for r in all_rows):.2f} ms",
                     f"{max(r['suggest_ms'] for r in all_rows):.0f} ms",
                     f"{sum(r['evaluate_ms'] for r in all_rows) / len(methods[method]) / 1e3:.1f} s"])
    return table(["method", "a suggestion", "the slowest", "training, a run"], rows)


def terms_table(folder, problem, method):
    """Terms by in how many seeds a stage that was believed found them."""
    found, weights, dummies, selected, singles = {}, {}, 0, 0, 0
    paths = glob.glob(os.path.join(folder, problem, method, "*.csv.terms"))
    for path in paths:
        with open(path) as f:
            for row in csv.DictReader(f):
                if row["believed"] != "1":
                    continue
                selected += 1
                singles += " x " not in row["term"]
                dummies += "dummy" in row["term"]
                found.setdefault(row["term"], []).append((int(row["stage"]), row["better"], float(row["found_again"])))
                weights.setdefault(row["term"], []).append(float(row["weight"]))
    rows = []
    for term in sorted(found, key=lambda t: (-len(found[t]), -abs(statistics.mean(weights[t])), t))[:16]:
        stages = ", ".join(str(s) for s in sorted({s for s, _, _ in found[term]}))
        better = sorted({b for _, b, _ in found[term]})
        rows.append([term.replace(" x ", " × "), len(found[term]), stages, f"{statistics.mean(weights[term]):+.2f}",
                     " / ".join(better), f"{100 * statistics.mean(f for _, _, f in found[term]):.0f} %"])
    text = table(["term", f"runs of {len(paths)}", "stages", "weight", "better", "found again"], rows)
    return text + f"\n\nOf {selected} terms that believed stages selected, {singles} are single switches and {dummies} have a dummy."


def curve(rows, xs, column):
    values, best, k = [], None, 0
    for x in xs:
        while k < len(rows) and rows[k]["spent"] <= x:
            row = rows[k]
            if row["whole"] and row["value"] is not None and (best is None or row["value"] < best["value"]):
                best = row
            k += 1
        values.append(best[column] if best else None)
    return values


def figures(runs, folder):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("report.py: no matplotlib, so no figures", file=sys.stderr)
        return False
    os.makedirs(folder, exist_ok=True)
    panels = [(p, c, t) for p, c, t in (("network", "value", "network: validation error, %"),
                                        ("network", "truth", "network: test error of that setting, %"),
                                        ("synthetic", "truth", "polynomial: true value")) if p in runs]
    fig, axes = plt.subplots(1, len(panels), figsize=(5.0 * len(panels), 3.8), squeeze=False)
    colours = {m: plt.get_cmap("tab20")(2 * k if k < 10 else 2 * k - 19) for k, m in enumerate(METHODS)}
    for axis, (problem, column, title) in zip(axes[0], panels):
        shown = []
        for method in (m for m in METHODS if m in runs[problem]):
            all_runs = list(runs[problem][method].values())
            xs = list(range(20, int(min(r[-1]["spent"] for r in all_runs)) + 1, 5))
            curves = [curve(r, xs, column) for r in all_runs]
            known = [k for k in range(len(xs)) if all(c[k] is not None for c in curves)]
            ys = [statistics.mean(c[k] for c in curves) for k in known]
            style = "-" if method.startswith("harmonica") else "--"
            axis.plot([xs[k] for k in known], ys, style, label=method, color=colours[method], linewidth=1.3)
            shown += ys[len(ys) // 4:]
        axis.set_ylim(min(shown) - 0.05 * (max(shown) - min(shown)), max(shown))
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("whole trainings")
        axis.legend(fontsize=6)
    fig.tight_layout()
    fig.savefig(os.path.join(folder, "harmonica_best.png"), dpi=110, metadata={"Software": None})
    if "network" in runs and "harmonica3" in runs["network"]:
        fig, axis = plt.subplots(figsize=(5.0, 3.2))
        names = ["stage 1", "stage 2", "stage 3", "base"]
        for k, run in enumerate(runs["network"]["harmonica3"].values()):
            means = stage_means(run)
            axis.plot(range(4), [means.get(n) for n in names], "o-", color="0.7", label="a run" if k == 0 else None)
        means = [stage_means(run) for run in runs["network"]["harmonica3"].values()]
        axis.plot(range(4), [statistics.mean(m[n] for m in means if n in m) if any(n in m for m in means) else None
                             for n in names], "s-", color="tab:blue", label="mean")
        axis.set_xticks(range(4), names)
        axis.set_ylabel("mean validation error, %")
        axis.legend(fontsize=7)
        fig.tight_layout()
        fig.savefig(os.path.join(folder, "harmonica_stages.png"), dpi=110, metadata={"Software": None})
    return True


def hand_written(name):
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        return f.read().rstrip() + "\n\n"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "harmonica")
    output = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "pages", "harmonica.md")
    runs = load(folder)
    drawn = figures(runs, os.path.dirname(os.path.abspath(output)))
    text = hand_written("preface.md")
    if drawn:
        text += "![Best value against total training](harmonica_best.png)\n\n"
    if "network" in runs:
        network = runs["network"]
        text += "## The network: 39 switches and 21 dummies\n\n" + hand_written("discussion.md")
        text += "Validation error in per cent of the best setting after so many whole trainings' worth of epochs, mean over seeds:\n\n"
        text += best_table(network, "value") + "\n\nTest error of that setting:\n\n" + best_table(network, "truth") + "\n\n"
        text += "By seeds, test error:\n\n" + wins_table(network, "truth") + "\n\n"
        text += "Validation error of all settings of a stage (`cheap`: after 3 epochs), then of the base, mean over settings and seeds:\n\n" + stage_table(network) + "\n\n"
        if drawn:
            text += "![Mean error of the stages of harmonica3](harmonica_stages.png)\n\n"
        text += "What `harmonica3` selected:\n\n" + terms_table(folder, "network", "harmonica3") + "\n\n"
        text += "What it costs:\n\n" + cost_table(network) + "\n\n"
    if "synthetic" in runs:
        text += "## A polynomial: twenty terms on 25 of 60 switches\n\nNoise of deviation 0.1. True value of the best setting tried, mean over seeds:\n\n"
        text += best_table(runs["synthetic"], "truth") + "\n\n" + wins_table(runs["synthetic"], "truth") + "\n"
    text += "\n" + hand_written("verdict.md")
    with open(output, "w") as f:
        f.write(re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n")


if __name__ == "__main__":
    main()
