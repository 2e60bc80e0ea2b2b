"""The figures of the thesis' chapters 4 and 5, from our runs: error against evaluations."""

import io
import math
import os
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402

GREY, BLUE, RED, GREEN, ORANGE = "#888888", "#0072b2", "#d55e00", "#009e73", "#cc79a7"
# Spread of a function's errors, above which the thesis' figures are logarithmic.
LOG_SPAN = 30.0


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def curves(results, problem, setting, limit, cost):
    """Per evaluation, the errors of all seeds; evaluations count `cost` each."""
    runs = results.seeds(problem, setting).values()
    if not runs:
        return [], []
    count = min(min(len(r.best) for r in runs), limit // cost)
    xs, ys = [], []
    for i in range(count):
        values = [results.error(problem, r.best[i]) for r in runs]
        if all(math.isfinite(v) for v in values):
            xs.append((i + 1) * cost)
            ys.append(values)
    return xs, ys


def panel(axis, results, problem, lines, limit, costs):
    data = {label: curves(results, problem, s, limit, costs.get(s, lambda d: 1)(results.problems[problem][0]))
            for label, s, _ in lines}
    ends = [max(statistics.mean(ys[-1]), 1e-16) for _, ys in data.values() if ys]
    starts = [statistics.mean(ys[0]) for _, ys in data.values() if ys]
    logarithmic = bool(ends) and max(starts) / min(ends) > LOG_SPAN
    for label, _, color in lines:
        xs, ys = data[label]
        if not xs:
            continue
        mean = [statistics.mean(y) for y in ys]
        if logarithmic:
            low, high = [quantile(y, 0.1) for y in ys], [quantile(y, 0.9) for y in ys]
        else:
            spread = [statistics.pstdev(y) for y in ys]
            low, high = [m - s for m, s in zip(mean, spread)], [m + s for m, s in zip(mean, spread)]
        floor = 1e-16
        axis.plot(xs, [max(m, floor) for m in mean], color=color, label=label, linewidth=1.2)
        axis.fill_between(xs, [max(v, floor) if logarithmic else v for v in low],
                          [max(v, floor) if logarithmic else v for v in high], color=color, alpha=0.15, linewidth=0)
    if logarithmic:
        axis.set_yscale("log")
    axis.set_title(problem, fontsize=8)
    axis.tick_params(labelsize=6)


def figure(results, path, title, problems, lines, limit=100, costs=None, xlabel="evaluations"):
    """lines: (label, setting, colour). costs: setting -> function of the dimension. False when nothing was run."""
    problems = [p for p in problems if any(results.seeds(p, s) for label, s, _ in lines if label != "random")]
    if not problems:
        return False
    columns = min(4, len(problems))
    rows = -(-len(problems) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(2.4 * columns, 1.8 * rows + 0.5), squeeze=False)
    for axis in axes.flat[len(problems):]:
        axis.axis("off")
    for axis, problem in zip(axes.flat, problems):
        panel(axis, results, problem, lines, limit, costs or {})
    handles = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    fig.legend(handles.values(), handles.keys(), loc="lower center", ncol=len(handles), fontsize=8, frameon=False)
    fig.suptitle(f"{title} — error against {xlabel}", fontsize=9)
    fig.tight_layout(rect=(0, 0.6 / (1.8 * rows + 0.5) * 0.5, 1, 1))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with io.BytesIO() as buffer:
        fig.savefig(buffer, dpi=80)
        plt.close(fig)
        # 128 colours are enough, and half of the bytes.
        Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)
    return True


def all_figures(results, folder):
    """(file, caption) of every figure that could be drawn."""
    functions, everything = results.functions, list(results.problems)
    random = ("random", "random", GREY)
    made = []

    def add(name, caption, *arguments, **more):
        if figure(results, os.path.join(folder, name + ".png"), *arguments, **more):
            made.append((name + ".png", caption))

    numbers = {"ts": "4.1", "ei": "4.2", "pi": "4.3", "ucb": "4.4"}
    for a, n in numbers.items():
        add(f"fig4_{a}", f"Figure {n} and appendix A.1: {a.upper()}, squared exponential, MAP", f"{a.upper()}, chapter 4",
            functions, [random, ("BO", f"se-bo-{a}", BLUE), ("H-BO", f"se-hbo-{a}", RED)])
    for a, n in numbers.items():
        add(f"fig4_{a}_old", f"Figure {n}, the full old recipe (MCMC" + (", 100 Fourier features)" if a == "ts" else ")"),
            f"{a.upper()}, chapter 4, old recipe", functions,
            [random, ("BO", f"se-bo-{a}-old", BLUE), ("H-BO", f"se-hbo-{a}-old", RED)])
    for a in ("ei", "pi", "ucb"):
        lines = [random, ("BO", f"se-bo-{a}", BLUE), ("G-BO", f"se-g-{a}", GREEN), ("D-BO", f"se-d-{a}", RED)]
        n = {"ei": 5, "pi": 6, "ucb": 7}[a]
        add(f"fig4_fobo_{a}", f"Figure 4.{n} and appendix A.1: {a.upper()} with gradients (G) and directional derivatives "
            "(D), per iteration", f"{a.upper()}, first order", functions, lines, limit=34, xlabel="iterations")
        add(f"fig4_fobo_{a}_cost", f"Figure 4.{n + 3}: the same per function evaluation (1, d + 1, 2 an iteration)",
            f"{a.upper()}, first order", functions, lines,
            costs={f"se-g-{a}": lambda d: d + 1, f"se-d-{a}": lambda d: 2}, xlabel="function evaluations")
    for a in ("ei", "pi", "ucb", "ts"):
        add(f"fig5_{a}", f"Figures 5.2 to 5.5 and appendix B.1: {a.upper()}, Matérn-5/2, MAP; all explore every fourth trial",
            f"{a.upper()}, chapter 5", everything,
            [random, ("BO", f"m-hbo-{a}", BLUE), ("LBO, estimated L", f"m-lbo-{a}", RED),
             ("LBO, true L", f"m-lbo-{a}-true", GREEN)])
    add("fig5_ts_old", "Figures 5.2 to 5.4, TS under the full old recipe (MCMC, 100 Fourier features)",
        "TS, chapter 5, old recipe", everything,
        [random, ("BO", "m-hbo-ts-old", BLUE), ("LBO, estimated L", "m-lbo-ts-old", RED),
         ("LBO, true L", "m-lbo-ts-true-old", GREEN)])
    add("fig5_6", "Figure 5.6: the acquisitions side by side, with (solid colours) bounds",
        "All acquisitions, LBO", ["michalewicz5", "rosenbrock3", "robot3", "hartmann6"],
        [random, ("TEI", "m-lbo-ei", BLUE), ("TPI", "m-lbo-pi", GREEN), ("AR-UCB", "m-lbo-ucb", ORANGE),
         ("AR-TS", "m-lbo-ts", RED)])
    add("fig5_7", "Figure 5.7: UCB with beta = 1e16", "UCB, beta = 1e16", functions,
        [random, ("BO", "m-bo-ucb-huge", BLUE), ("AR-UCB", "m-lbo-ucb-huge", RED),
         ("capped UCB", "m-lbo-ucb-huge-cap", ORANGE), ("AR-UCB, true L", "m-lbo-ucb-huge-true", GREEN)])
    return made
