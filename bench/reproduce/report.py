#!/usr/bin/env python3
"""Judges the claims from the results of `reproduce` and writes pages/reproduction.md with its figures.

    bench/reproduce/report.py [RESULTS [OUTPUT]]

RESULTS: the folder `reproduce` wrote to (build/release/reproduce). OUTPUT: the page (bench/reproduce/pages/reproduction.md);
figures go beside it. Needs matplotlib (Debian: python3-matplotlib); without it there are no figures.
"""

import os
import re
import statistics
import sys

sys.dont_write_bytecode = True
import claims  # noqa: E402
from results import Results  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def table(columns, rows):
    lines = ["| " + " | ".join(str(c) for c in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)


def seeds_of(results):
    """Settings by how many seeds they were run with: (seeds, settings)."""
    by = {}
    for (problem, setting), runs in results.runs.items():
        by.setdefault(setting, []).append(len(runs))
    counts = {}
    for setting, numbers in sorted(by.items()):
        counts.setdefault((min(numbers), max(numbers)), []).append(setting)
    return counts


def cost_of(results):
    """Seconds of CPU for a run's suggestions, median over problems and seeds."""
    rows = []
    for setting in ["se-bo-ei", "se-bo-ei-old", "se-bo-ts", "se-bo-ts-old", "m-hbo-ei", "m-lbo-ei", "own-hbo-ei",
                    "se-g-ei", "se-d-ei"]:
        seconds = {}
        for (problem, s), runs in results.runs.items():
            if s == setting and problem in ("branin", "hartmann6"):
                seconds[problem] = [sum(r.suggest_ms[:100]) / 1000 for r in runs.values()]
        if seconds:
            rows.append([f"`{setting}`", *[f"{statistics.median(seconds[p]):.2g}" if seconds.get(p) else "–"
                                           for p in ("branin", "hartmann6")]])
    return rows


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "reproduce")
    output = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "pages", "reproduction.md")
    results = Results(folder)
    verdicts = [judge(results) for judge in claims.ALL]
    figures = []
    try:
        import plots
        figures = plots.all_figures(results, os.path.dirname(os.path.abspath(output)))
    except ImportError:
        print("report.py: no matplotlib, so no figures", file=sys.stderr)
    def by_hand(name):
        with open(os.path.join(HERE, name)) as file:
            # Links to files begin at this folder; the page lies one below, and its own headings need no file.
            text = re.sub(r"\]\((?!#|https?:)", "](../", file.read().rstrip())
            return text.replace("](../pages/reproduction.md#", "](#") + "\n"

    text = [by_hand("preface.md"), "## Verdicts\n"]
    later = [[c, s, "apart", place] for c, s, place in claims.ELSEWHERE]
    def summary(v):
        return v.summary + ("; PI [has a margin](#pis-margin)" if v.claim in claims.PI_HAS_A_MARGIN else "")

    rows = [[f"[{v.claim}](#{v.claim.lower()})", v.statement, f"**{v.verdict}**", summary(v)] for v in verdicts]
    text.append(table(["", "claim", "", "in numbers"], rows[:18] + later + rows[18:]))
    text.append("\n" + by_hand("discussion.md"))
    text.append("## Runs\n")
    text.append("Seeds (fewest to most over problems) of each setting:\n")
    text.append(table(["seeds", "settings"], [[f"{low}" if low == high else f"{low}–{high}",
                                               ", ".join(f"`{s}`" for s in names)]
                                              for (low, high), names in sorted(seeds_of(results).items(), reverse=True)]))
    text.append("\nCPU seconds for the suggestions of a run's first 100 evaluations, medians:\n")
    text.append(table(["setting", "Branin", "Hartmann-6"], cost_of(results)))
    text.append("\n## How often the bounds bind\n")
    text.append("Share of the points the maximiser looked at where the bounds changed the acquisition; last, the share of "
                "the space they exclude under EI:\n")
    text.append(table(*claims.bounds_table(results)))
    for v in verdicts:
        text.append(f"\n## {v.claim}\n")
        text.append(f"**Claim.** {v.statement}.\n\n**Check.** {v.check or '–'}.\n\n**{v.verdict.capitalize()}.** {summary(v)}\n")
        if v.rows:
            text.append("<details><summary>Numbers</summary>\n")
            text.append(table(v.columns, v.rows))
            text.append("\n</details>")
    if figures:
        text.append("\n## Figures\n")
        text.append("Mean and deviation where the axis is linear, mean and 10 % and 90 % quantiles where it is "
                    "logarithmic.")
        for name, caption in figures:
            text.append(f"\n{caption}.\n\n![{caption}]({name})")
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with open(output, "w") as file:
        file.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
