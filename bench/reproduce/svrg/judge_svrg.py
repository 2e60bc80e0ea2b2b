#!/usr/bin/env python3
"""Makes pages/reproduction_linear.md from what luthier-reproduce-svrg printed: tables, verdicts, figures.

  build/release/bin/luthier-reproduce-svrg --data=DATA_DIR > build/release/reproduce_svrg.csv
  bench/reproduce/svrg/judge_svrg.py build/release/reproduce_svrg.csv > bench/reproduce/svrg/pages/reproduction_linear.md

Figures, to pages, need matplotlib and Pillow and are left as they are without. What is not in the
file is said to be missing, not guessed.
"""

import collections
import csv
import io
import os
import statistics
import sys

LOSSES = {"logistic": "logistic loss", "hsvm": "Huberized hinge"}
LEVELS = ["1e-2", "1e-3", "1e-4", "1e-6", "error"]
INF = float("inf")
COLORS = {"full": "#888888", "grow": "#0072b2", "mixed": "#d55e00"}


class Results:
    def __init__(self, path):
        self.problems = collections.OrderedDict()  # (name, loss) -> fields
        # (name, loss, variant) -> seed -> ...
        self.looks = collections.defaultdict(lambda: collections.defaultdict(list))
        self.reach = collections.defaultdict(dict)
        with open(path) as f:
            for row in csv.reader(f):
                kind, key = row[0], tuple(row[1:3])
                if kind == "problem":
                    self.problems[key] = row[3:]
                elif kind == "look":
                    self.looks[key + (row[3],)][int(row[4])].append(tuple(float(x) for x in row[5:8]))
                elif kind == "reach":
                    self.reach[key + (row[3],)][int(row[4])] = dict(zip(LEVELS, (float(x) for x in row[5:])))

    def names(self, loss):
        return [n for n, l in self.problems if l == loss]

    def largest(self, loss, count):
        """The data sets with the most rows."""
        return sorted(self.names(loss), key=lambda n: -int(self.problems[n, loss][0]))[:count]

    def at(self, key, passes, column):
        """Median over seeds of what is in hand: column 1 is the gap, 2 the test error."""
        values = []
        for looks in self.looks.get(key, {}).values():
            found = [look for look in looks if abs(look[0] - passes) < 1e-9]
            if found:
                values.append(found[0][column])
        return statistics.median(values) if values else INF

    def to(self, key, level):
        """Passes to a level: the median over seeds where most got there, for gaps seed 1's longer run else."""
        values = [r[level] for r in self.reach.get(key, {}).values()]
        if not values:
            return INF
        median = statistics.median(values)
        return median if median < INF else self.reach[key].get(1, {}).get(level, INF)


def number(x, form="%.1f"):
    return "-" if x == INF else form % x


def count(names, test):
    wins = [n for n in names if test(n)]
    return wins, f"{len(wins)} of {len(names)}"


def judge(r):
    out = []

    def add(claim, text, verdict, evidence):
        verdict = {True: "holds", False: "does not hold"}.get(verdict, verdict)
        out.append(f"| {claim} | {text} | **{verdict}** | {evidence} |")

    # CT11: test error, by passes to the optimum's error; objective after 5 passes on the three largest.
    parts, wins, cells, ahead = [], 0, 0, []
    for loss in LOSSES:
        names = r.names(loss)
        better, text = count(names, lambda n: r.to((n, loss, "grow"), "error") <= 1.02 * r.to((n, loss, "full"), "error"))
        wins, cells = wins + len(better), cells + len(names)
        for n in names:
            looks = [0.5 * k for k in range(1, 41)]
            pairs = [(r.at((n, loss, "grow"), p, 2), r.at((n, loss, "full"), p, 2)) for p in looks]
            ahead += [g <= f + 1e-9 for g, f in pairs if g < INF and f < INF]
        lines = [f"{n} {number(r.to((n, loss, 'grow'), 'error'))} against {number(r.to((n, loss, 'full'), 'error'))}" for n in names]
        parts.append(f"{LOSSES[loss]}: {text} ({'; '.join(lines)})")
    parts.append(f"At {100 * sum(ahead) / max(1, len(ahead)):.0f} % of the looks, one every half pass, what is in hand is no worse")
    add("CT11", "growing batches have the better test error: no more passes to within 0.2 % of the optimum's error",
        wins == cells if wins in (0, cells) else f"in part: {wins} of {cells}", ". ".join(parts))
    parts, good = [], []
    for loss in LOSSES:
        names = r.largest(loss, 3)
        better, text = count(names, lambda n: r.at((n, loss, "grow"), 5, 1) < r.at((n, loss, "full"), 5, 1))
        good.append(len(better) == len(names))
        lines = [f"{n} {number(r.at((n, loss, 'grow'), 5, 1), '%.1e')} against {number(r.at((n, loss, 'full'), 5, 1), '%.1e')}"
                 for n in names]
        parts.append(f"{LOSSES[loss]}: {text} ({'; '.join(lines)})")
    add("CT11", "... and the better objective on large data: gap after 5 passes, the three data sets with most rows",
        all(good), ". ".join(parts))
    # CT12: the sign of mixed steps against growing batches.
    parts, signs = [], set()
    for loss in LOSSES:
        lines = []
        for n in r.names(loss):
            ratios = [r.at((n, loss, "mixed"), p, 1) / max(r.at((n, loss, "grow"), p, 1), 1e-300) for p in (1, 5, 20)]
            signs.update("helps" if q < 0.95 else "hurts" if q > 1.05 else "neither" for q in ratios)
            lines.append(f"{n} {', '.join('%.2f' % q for q in ratios)}")
        parts.append(f"{LOSSES[loss]}: {'; '.join(lines)}")
    add("CT12", "mixed steps help sometimes and hurt sometimes", {"helps", "hurts"} <= signs,
        "gap of mixed over gap of grow after 1, 5, 20 passes. " + ". ".join(parts))
    # CT13: support vectors.
    lines, late, early, moved = [], [], [], []
    for n in r.names("hsvm"):
        saved = []
        for level in ("1e-2", "1e-6"):
            plain, kept = (r.to((n, "hsvm", v), level) for v in ("grow", "grow-sv"))
            if plain == INF and level == "1e-6":
                level = "1e-4"
                plain, kept = (r.to((n, "hsvm", v), level) for v in ("grow", "grow-sv"))
            saved.append((level, 1.0 - kept / plain if plain < INF and kept < INF else None, plain, kept))
        shown = [f"to {level} {number(kept)} instead of {number(plain)}" for level, _, plain, kept in saved]
        lines.append(f"{n} {', '.join(shown)}")
        if saved[0][1] is not None:
            early.append(saved[0][1])
        if saved[1][1] is not None:
            late.append(saved[1][1])
        gaps, errors = ([r.at((n, "hsvm", v), 20, column) for v in ("grow", "grow-sv")] for column in (1, 2))
        share = [1.0 - after / before if before > 0 else 0.0 for before, after in (gaps, errors)]
        moved.append((share[0] > abs(share[1]), f"{n} {100 * share[0]:.0f} % of the gap, {100 * share[1]:.1f} % of the error"))
    cut = all(s > 0 for s in late)
    later = statistics.mean(late) >= statistics.mean(early) if late and early else None
    add("CT13", "support vectors cut evaluations, mainly late", (True if cut and later else "cut: yes; mainly late: no" if cut else False),
        "growing batches, passes: " + "; ".join(lines)
        + (f". Mean saving {100 * statistics.mean(early):.0f} % early, {100 * statistics.mean(late):.0f} % late" if early and late else ""))
    add("CT13", "... for the objective more than for the test error", all(m for m, _ in moved),
        "less after 20 passes, of what there is without: " + "; ".join(t for _, t in moved))
    # Beside the claims: support vectors and growing batches together.
    names = r.names("hsvm")
    wins, text = count(names, lambda n: r.to((n, "hsvm", "grow-sv"), "1e-3") < r.to((n, "hsvm", "full"), "1e-3"))
    lines = [f"{n} {number(r.to((n, 'hsvm', 'grow-sv'), '1e-3'))} against {number(r.to((n, 'hsvm', 'full'), '1e-3'))}" for n in names]
    add("–", "beside the claims: growing batches with support vectors beat full ones in passes to 1e-3 on four of six, Huberized hinge",
        len(wins) >= 4, f"{text}: {'; '.join(lines)}")
    return out


def table(r, name, loss):
    variants = [v for n, l, v in r.looks if (n, l) == (name, loss)]
    variants = list(dict.fromkeys(variants))
    lines = ["| variant | gap after 1 | 3 | 5 | 10 | 20 | test error after 1 | 5 | 20 | passes to 1e-2 | 1e-4 | 1e-6 |", "|" + "---|" * 12]
    for v in variants:
        key = (name, loss, v)
        cells = [number(r.at(key, p, 1), "%.1e") for p in (1, 3, 5, 10, 20)]
        cells += [number(100 * r.at(key, p, 2) if r.at(key, p, 2) < INF else INF, "%.2f %%") for p in (1, 5, 20)]
        cells += [number(r.to(key, level)) for level in ("1e-2", "1e-4", "1e-6")]
        lines.append(f"| {v.replace('-sv', ', sv')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figures(r, folder):
    """Two pictures a loss: objective and test error. The names of those that are there."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from PIL import Image
    except ImportError:
        return [n for n in (f"linear_{loss}.png" for loss in LOSSES) if os.path.exists(os.path.join(folder, n))]
    made = []
    for loss in LOSSES:
        names = r.names(loss)
        if not names:
            continue
        fig, axes = plt.subplots(2, len(names), figsize=(2.1 * len(names), 4.0), squeeze=False)
        for c, name in enumerate(names):
            for variant in [v for n, l, v in r.looks if (n, l) == (name, loss)]:
                seeds = list(r.looks[name, loss, variant].values())
                length = min(len(s) for s in seeds)
                xs = [seeds[0][k][0] for k in range(length)]
                color, style = COLORS[variant.split("-")[0]], "--" if variant.endswith("-sv") else "-"
                for row, column in ((0, 1), (1, 2)):
                    values = [[s[k][column] for s in seeds] for k in range(length)]
                    scale = 100.0 if column == 2 else 1.0
                    axes[row][c].plot(xs, [scale * statistics.mean(v) for v in values], style, color=color, linewidth=1.1,
                                      label=variant.replace("-sv", ", sv"))
                    axes[row][c].fill_between(xs, [scale * min(v) for v in values], [scale * max(v) for v in values],
                                              color=color, alpha=0.15, linewidth=0)
            best = 100.0 * float(r.problems[name, loss][5])
            axes[0][c].set_yscale("log")
            axes[1][c].set_ylim(best - 0.5, best + 6.0)
            axes[0][c].set_title(name, fontsize=8)
            for row in (0, 1):
                axes[row][c].tick_params(labelsize=6)
        axes[0][0].set_ylabel("(f - f*) / f*", fontsize=7)
        axes[1][0].set_ylabel("test error, %", fontsize=7)
        fig.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncol=6, fontsize=8, frameon=False)
        fig.suptitle(f"{LOSSES[loss]}: against passes (mean, least and largest of the seeds)", fontsize=9)
        fig.tight_layout(rect=(0, 0.05, 1, 1))
        path = f"linear_{loss}.png"
        with io.BytesIO() as buffer:
            fig.savefig(buffer, dpi=80)
            plt.close(fig)
            # 128 colours are enough, and half of the bytes.
            Image.open(buffer).convert("RGB").quantize(128).save(os.path.join(folder, path), optimize=True)
        made.append(path)
    return made


def main(path):
    here = os.path.dirname(os.path.abspath(__file__))
    r = Results(path)
    with open(os.path.join(here, "preface.md")) as f:
        print(f.read().rstrip().replace("(README)", "([README](../../README.md))") + "\n")
    print("## The claims\n\n| | claim | verdict | numbers |\n|---|---|---|---|")
    print("\n".join(judge(r)))
    print("\n## The curves (figures 3.1 to 3.5)\n")
    for name in figures(r, os.path.join(here, "pages")):
        print(f"![{LOSSES[name[7:-4]]}]({name})\n")
    print("## The numbers\n\nMedians of the seeds; passes beyond 20 are of one run that goes on; - : not reached.\n")
    for (name, loss), fields in r.problems.items():
        rows, columns, entries, test_rows, optimum, error, spread, tested = fields
        where = "rows of a file of their own" if tested == "own" else "a fifth of the rows"
        print(f"### {name}, {LOSSES[loss]}\n")
        print(f"{int(rows):,} rows, {int(columns):,} columns, {int(entries):,} entries; tested on {where}, {int(test_rows):,}; "
              f"f* = {float(optimum):.9f}, test error there {100 * float(error):.2f} %; largest squared row norm "
              f"{float(spread):.1f} times the mean.\n")
        print(table(r, name, loss) + "\n")
    with open(os.path.join(here, "discussion.md")) as f:
        print(f.read().rstrip().replace("(training.md)", "([training.md](../../../train/pages/training.md))"))


if __name__ == "__main__":
    main(sys.argv[1])
