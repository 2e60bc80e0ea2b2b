#!/usr/bin/env python3
"""Makes the tables of pages/several_metrics.md from the rows of metrics_bench and metrics_peers.py.

  metrics_page.py            writes the tables anew
  metrics_page.py --check    fails where the page differs from what its rows give

A row of rows/several_metrics.csv is: problem, searcher, seed, trials, what the results are worth by then, milliseconds
of an ask in the last fifth of the search. Tables have medians over the seeds; cells that lose to a peer come first.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "rows" / "several_metrics.csv", HERE / "pages" / "several_metrics.md"
PROBLEMS = {  # Name on the page, the best that is known, and the trials of the columns.
    "branin_currin": ("BraninCurrin, 2 objectives", "59.36", (20, 40, 60)),
    "vehicle_safety": ("VehicleSafety, 3", "246.8", (20, 40, 60)),
    "dtlz2": ("DTLZ2, d = 6, 3", ".807", (20, 40, 60)),
    "dtlz2_5": ("DTLZ2, d = 8, 5", "", (20, 60, 100)),
    "tension_string": ("tension string, 4 bounds", ".012665", (30, 50, 100)),
    "welded_beam": ("welded beam, 6", "1.7249", (30, 50, 100)),
    "speed_reducer": ("speed reducer, 11 in 7 metrics", "2996.3482", (30, 50, 100)),
}
OBJECTIVES = ("branin_currin", "vehicle_safety", "dtlz2", "dtlz2_5")
OURS = ("auto (reference)", "auto", "tpe", "nsga2", "random")
PEERS = ("TPE", "NSGA-II", "NSGA-III", "GP", "BoTorch")
NAMES = {
    "auto (reference)": "`auto`, with reference", "TPE": "Optuna TPE", "NSGA-II": "Optuna NSGA-II",
    "NSGA-III": "Optuna NSGA-III", "GP": "Optuna GP",
}

Worths = dict[tuple[str, str, int], list[float]]


def load(path: Path) -> tuple[Worths, dict[tuple[str, str], list[float]]]:
    """What the searches of a problem by a searcher are worth after some trials, and the milliseconds of asks."""
    worths: Worths = defaultdict(list)
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with path.open(encoding="utf-8") as rows:
        for problem, searcher, seed, trials, worth, milliseconds in csv.reader(rows):
            worths[problem, searcher, int(trials)].append(float(worth))
            if trials == "10":
                times[problem, searcher].append(float(milliseconds))
    return worths, times


def number(value: float, digits: int = 4) -> str:
    """The value for a table; a dash where no search has one."""
    if not math.isfinite(value):
        return "-"
    text = f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.2f}"
    return text[1:] if text.startswith("0.") else text


def cell(worths: Worths, problem: str, searcher: str) -> str:
    """Medians after the columns' trials; with bounds also how many searches have a feasible result by then."""
    parts = []
    for trials in PROBLEMS[problem][2]:
        found = worths.get((problem, searcher, trials), [])
        if not found:
            return ""
        feasible = sum(map(math.isfinite, found))
        median = number(statistics.median(found), 5 if problem not in OBJECTIVES else 4)
        parts.append(median if problem in OBJECTIVES else f"{median} ({feasible})")
    return " / ".join(parts)


def seeds(worths: Worths, problems: list[str], searcher: str) -> str:
    """How many seeds the searcher has on those of the problems that it was run on: "2 to 3" where these differ."""
    counts = [len(worths.get((p, searcher, PROBLEMS[p][2][0]), [])) for p in problems]
    least, most = min(filter(None, counts)), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def table(worths: Worths, times: dict[tuple[str, str], list[float]], problems: list[str]) -> list[str]:
    """A table with a column a searcher."""
    present = [s for s in OURS + PEERS if any((p, s, PROBLEMS[p][2][0]) in worths for p in problems)]
    heads = [NAMES.get(s, s if s in PEERS else f"`{s}`") + f" ({seeds(worths, problems, s)})" for s in present]
    lines = ["| | best known | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for problem in problems:
        title, best, _ = PROBLEMS[problem]
        lines.append(f"| {title} | {best} | " + " | ".join(cell(worths, problem, s) for s in present) + " |")
        asks = [number(statistics.median(times[problem, s]), 3) if (problem, s) in times else "" for s in present]
        lines.append("| ms an ask | | " + " | ".join(asks) + " |")
    return lines


def lost(worths: Worths) -> list[str]:
    """Cells in which a peer's median is better than that of `auto`, without and with reference."""
    lines = []
    for problem, (title, _, columns) in PROBLEMS.items():
        for trials in columns:
            ours = worths.get((problem, "auto", trials), [])
            for peer in PEERS:
                theirs = worths.get((problem, peer, trials), [])
                if not ours or not theirs:
                    continue
                a, b = statistics.median(ours), statistics.median(theirs)
                if (b > a) if problem in OBJECTIVES else (b < a):
                    peer_name = NAMES.get(peer, peer)
                    lines.append(f"- {title}, after {trials}: `auto` {number(a, 5)}, {peer_name} {number(b, 5)}.")
    return lines or ["- none."]


def pieces(path: Path) -> dict[str, list[str]]:
    """The parts of the page that rows make."""
    worths, times = load(path)
    bounded = [p for p in PROBLEMS if p not in OBJECTIVES]
    return {
        "lost": lost(worths),
        "objectives": table(worths, times, list(OBJECTIVES)),
        "bounds": table(worths, times, bounded),
    }


def render(page: str, parts: dict[str, list[str]]) -> str:
    """The page with its parts made anew: they stand between `<!-- rows: NAME -->` and `<!-- end -->`."""
    for name, lines in parts.items():
        begin = f"<!-- rows: {name} -->\n"
        head, rest = page.split(begin)
        page = head + begin + "\n".join(lines) + "\n" + rest[rest.index("<!-- end -->") :]
    return page


def main() -> int:
    """Writes the page, or checks it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rows", type=Path, default=ROWS)
    arguments = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = render(old, pieces(arguments.rows))
    if arguments.check:
        if new != old:
            print(f"{PAGE.name} differs from what its rows give; run {Path(__file__).name}", file=sys.stderr)
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
