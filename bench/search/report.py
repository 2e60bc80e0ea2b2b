#!/usr/bin/env python3
"""Turns the results of peers/run_peers.py into one report.

  report.py --results build/release/peers/results

Writes search.md, search.csv (the numbers behind it) and two pictures to pages/. The first of the algorithms that
run_peers.py was told to run (--ours here takes others) is judged against the targets; the rest is shown beside it.
Needs matplotlib for the pictures only (--no_plots does without).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Sequence

sys.dont_write_bytecode = True
from plots import draw  # noqa: E402
from results import (  # noqa: E402
    BEST_OF_ALL_TARGET, Cell, GRADIENT_METHODS, JUDGED, LATENCY_TARGETS, MARKS, PEER_TARGETS, Run, TAIL_TARGET,
    TARGETS, TIE, TOTAL_TARGETS, WINDOW, at_or_below, cells_of, duel, judge, latency_of, load, paired, total_ms,
)


def number(value: float) -> str:
    """Two digits; 0 below 1e-15, which is the rounding of the functions themselves."""
    if math.isnan(value):
        return "–"
    if value < 1e-15:
        return "0"
    if 1e-3 <= value < 100:
        return f"{value:.2g}"
    return f"{value:.0f}" if 100 <= value < 1e5 else re.sub(r"(\.0)?e\+?(-?)0*", r"e\2", f"{value:.1e}")


def with_quartiles(cell: Cell) -> str:
    if cell.seeds < 3:
        return number(cell.median)
    return f"{number(cell.median)} ({number(cell.q25)} … {number(cell.q75)})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def yes(value: bool) -> str:
    return "yes" if value else "**no**"


def coverage(runs: Sequence[Run]) -> str:
    """What a method ran, e.g. "12 functions x 10 seeds x 200 evaluations"."""
    groups: dict[tuple[int, bool], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for run in runs:
        groups[run.planned, run.function.endswith("+shift")][run.function] += 1
    parts = []
    for (planned, shifted), functions in sorted(groups.items(), key=lambda item: (item[0][1], -item[0][0])):
        low, high = min(functions.values()), max(functions.values())
        names = f"{len(functions)} functions" if len(functions) > 2 else ", ".join(sorted(functions))
        seeds = f"{low} seed{'s' * (low > 1)}" if low == high else f"{low} to {high} seeds"
        parts.append(f"{names}{' shifted' * (shifted and len(functions) > 2)} × {seeds} × {planned}")
    return "; ".join(parts)


@dataclass
class Report:
    runs: list[Run]
    failures: list[tuple[str, str, str]]
    manifest: dict[str, Any]
    ours: list[str]

    def __post_init__(self) -> None:
        self.by_method: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            self.by_method[run.method].append(run)
        self.cells = cells_of(self.runs)
        self.main = self.ours[0]
        known = list(self.manifest["peers"])
        self.peers = [p for p in known if p in self.by_method and p not in GRADIENT_METHODS]
        self.functions = list(TARGETS)
        self.shifted = [f + "+shift" for f in self.functions]
        # In no target: those that ran in moved boxes only.
        self.others = sorted({r.function for r in self.by_method[self.main]} - {*self.functions, *self.shifted})
        self.methods = self.ours + ["random"] * ("random" not in self.ours) + self.peers
        self.methods += [p for p in GRADIENT_METHODS if p in self.by_method]
        # What is judged against: every peer, and random search.
        self.rivals = [m for m in ["random", *self.peers] if m != self.main]

    def runs_on(self, method: str, function: str) -> list[Run]:
        return [run for run in self.by_method.get(method, []) if run.function == function]

    def versions(self, package: str) -> str:
        for lines in self.manifest["versions"].values():
            for line in lines:
                name, _, version = line.partition("==")
                if name.lower() == package.lower():
                    return version
        return "?"

    def markdown(self, plots: bool) -> str:
        sections = [self.head(), self.short(), self.targets()]
        if plots:
            sections.append("![Regret against evaluations](search_regret.png)\n")
        sections += [self.best_of_all(), self.duels(), self.latency()]
        if plots:
            sections.append("![CPU time of a suggestion](search_latency.png)\n")
        sections += [self.totals(), self.gradients(), self.every_regret(), self.shifted_regret(), self.other_regret(), self.setup()]
        sections.append(self.not_run())
        return "\n".join(section for section in sections if section)

    def head(self) -> str:
        return (
            "# Search algorithms and their peers\n\n"
            "Written by `bench/search/report.py` from one set of runs; do not edit. How to run it again:\n"
            "[bench/search/README.md](../README.md). All numbers: [search.csv](search.csv).\n\n"
            "Regret is best value found minus the known minimum, after n evaluations; medians over seeds, quartiles in\n"
            f"brackets, 0 is below 1e-15. Regrets up to {TIE:g} count as ties. Time is the CPU time that a method takes\n"
            "between two evaluations, on one thread; the function's own time does not count.\n\n"
            "Targets are ours, set before the runs; no publication has them.\n\n"
            f"Ours: `{'`, `'.join(self.ours)}`. The first is judged; where the report says *ours* it means it.\n"
        )

    def short(self) -> str:
        verdicts = judge(self.cells, self.main, self.rivals, self.functions)
        met = sum(v.meets_target for v in verdicts)
        best = sum(v.beats_best for v in verdicts)
        shared = sum(v.best is not None for v in verdicts)
        lines = [
            f"- Targets for the median regret met: **{met} of {len(verdicts)}** cells (12 functions at n = 50, 100, 200).",
            f"- At or below the best of all peers: **{best} of {shared}** (target {BEST_OF_ALL_TARGET} of 36). "
            "All peers that ran: those that did not are at the end.",
        ]
        moved = [v for v in judge(self.cells, self.main, self.rivals, self.shifted) if v.best]
        if moved:
            lines.append(
                f"- The same in shifted boxes: **{sum(v.beats_best for v in moved)} of {len(moved)}** "
                "(all peers that ran there)."
            )
        other = [v for v in judge(self.cells, self.main, self.rivals, self.others) if v.best]
        if other:
            lines.append(
                f"- On {len(self.others)} functions that are in no target, four to 25 parameters, shifted boxes: "
                f"**{sum(v.beats_best for v in other)} of {len(other)}** at or below the best of all peers that ran there."
            )
        for peer, target in PEER_TARGETS.items():
            won, shared = duel(self.cells, self.main, peer, self.functions)
            if shared and won < min(target, shared):
                lines.append(f"- Missed: against {peer} {won} of {shared}, target {target}.")
        for n, (p50, p95) in LATENCY_TARGETS.items():
            measured = latency_of(self.runs_on(self.main, "hartmann6"), n)
            if measured:
                good = measured[0] <= p50 and measured[1] <= p95
                lines.append(
                    f"- A suggestion at n = {n} on hartmann6: {measured[0]:.2g} ms median, {measured[1]:.2g} ms at the 95th "
                    f"percentile (targets {p50:g} and {p95:g}: {'met' if good else '**missed**'})."
                )
        total = total_ms(self.runs_on(self.main, "hartmann6"), 200)
        for peer, target in TOTAL_TARGETS.items():
            theirs = total_ms(self.runs_on(peer, "hartmann6"), 200)
            if total is not None and theirs:
                lines.append(
                    f"- A whole run of 200 evaluations on hartmann6 takes 1/{number(theirs / total)} of {peer}'s CPU time "
                    f"(target 1/{1 / target:.0f}: {'met' if total <= target * theirs else '**missed**'})."
                )
        return "## In short\n\n" + "\n".join(lines) + "\n"

    def targets(self) -> str:
        rows = []
        for v in judge(self.cells, self.main, self.rivals, self.functions):
            assert v.target is not None
            best = f"{with_quartiles(v.best)} {v.best_peer}" if v.best else "–"
            if v.best and v.best.seeds < 5:
                best += f", {v.best.seeds} seed{'s' * (v.best.seeds > 1)}"
            rows.append(
                (v.function, str(v.n), with_quartiles(v.ours), number(v.target), yes(v.meets_target), best)
                + (yes(v.beats_best) if v.best else "–",)
            )
        header = ("function", "n", "ours", "target", "met", "best peer", "ours at or below it")
        text = "## Cell by cell\n\n" + table(header, rows)
        text += "\nBest peer: the smallest median of all peers that ran this cell, random search included.\n"
        hartmann = self.runs_on(self.main, "hartmann6")
        if hartmann:
            at100, at200 = (
                sum(regret is not None and regret <= limit for regret in (r.regret_at(n) for r in hartmann))
                for n, limit in ((100, 1e-3), (200, 1e-12))
            )
            text += (
                f"\nSeeds of hartmann6 within 1e-3 at n = 100: {at100} of {len(hartmann)} (target 9 of 10); within 1e-12 at "
                f"n = 200: {at200} of {len(hartmann)} (target 10 of 10). "
                "Ten seeds are few for a function of two good basins: [ninety](bo.md#hartmann-6).\n"
            )
        return text

    def best_of_all(self) -> str:
        verdicts = judge(self.cells, self.main, self.rivals, self.functions + self.shifted + self.others)
        rows = []
        for v in verdicts:
            if v.best is None or v.beats_best:
                continue
            better = [
                f"{p} {self.cells[p, v.function, v.n].median:.3g}"
                for p in self.rivals
                if (p, v.function, v.n) in self.cells
                and not at_or_below(v.ours.median, self.cells[p, v.function, v.n].median)
            ]
            rows.append((f"{v.function}, n = {v.n}", f"{v.ours.median:.3g}", ", ".join(better)))
        if not rows:
            return "## Cells lost to a peer\n\nNone.\n"
        return "## Cells lost to a peer\n\nCustomary boxes, shifted ones, and functions that are in no target.\n\n" + table(("cell", "ours", "better"), rows)

    def duels(self) -> str:
        rows = []
        for peer in self.rivals:
            won, shared = duel(self.cells, self.main, peer, self.functions)
            moved, moved_shared = duel(self.cells, self.main, peer, self.shifted)
            other, other_shared = duel(self.cells, self.main, peer, self.others)
            target = PEER_TARGETS.get(peer)
            verdict = "" if target is None or shared < 36 else yes(won >= target)
            rows.append(
                (peer, f"{won} of {shared}", str(target) if target else "", verdict)
                + (f"{moved} of {moved_shared}" if moved_shared else "–",)
                + (f"{other} of {other_shared}" if other_shared else "–",)
            )
        return "## Against each peer\n\nCells where our median is at or below theirs.\n\n" + table(
            ("peer", "cells", "target", "met", "shifted boxes", "other functions"), rows
        )

    def latency(self) -> str:
        rows = []
        for method in self.methods:
            row = [method]
            for n in MARKS:
                measured = latency_of(self.runs_on(method, "hartmann6"), n)
                row.append(f"{measured[0]:.3g} / {measured[1]:.3g}" if measured else "–")
            rows.append(row)
        rows.append(["target (ours)"] + [
            f"{LATENCY_TARGETS[n][0]:g} / {LATENCY_TARGETS[n][1]:g}" if n in LATENCY_TARGETS else "" for n in MARKS
        ])
        text = f"## CPU time of a suggestion\n\nMilliseconds on hartmann6, median / 95th percentile over the last {WINDOW} "
        text += "suggestions before n and all seeds. Every refit counts.\n\n"
        text += table(["method"] + [f"n = {n}" for n in MARKS], rows)
        tails = []
        for n in JUDGED:
            measured = latency_of(self.runs_on(self.main, "hartmann6"), n)
            if measured:
                tails.append(f"{measured[1] / measured[0]:.2g} at n = {n}")
        if tails:
            text += f"\n95th percentile over median, ours: {', '.join(tails)} (target at most {TAIL_TARGET:g}).\n"
        return text

    def totals(self) -> str:
        ours = total_ms(self.runs_on(self.main, "hartmann6"), 200)
        if ours is None:
            return ""
        rows = [(self.main, f"{ours / 1000:.3g}", "", "", "")]
        for peer in self.rivals:
            theirs = total_ms(self.runs_on(peer, "hartmann6"), 200)
            if theirs is None:
                continue
            target = TOTAL_TARGETS.get(peer)
            ratio = ours / theirs if theirs else math.inf
            text = f"1/{number(1 / ratio)}" if ratio < 1 else number(ratio)
            rows.append(
                (peer, f"{theirs / 1000:.3g}", text)
                + ((f"1/{1 / target:.0f}", yes(ratio <= target)) if target else ("", ""))
            )
        return "## A whole run: hartmann6, 200 evaluations\n\nCPU seconds of all suggestions, median over seeds.\n\n" + table(
            ("method", "CPU s", "ours over theirs", "target at most", "met"), rows
        )

    def gradients(self) -> str:
        rows = []
        for method in GRADIENT_METHODS:
            for function in self.functions:
                cells = [self.cells.get((method, function, n)) for n in MARKS]
                ours = [self.cells.get((self.main, function, n)) for n in MARKS]
                if any(cells):
                    rows.append(
                        [function]
                        + [number(c.median) if c else "–" for c in cells]
                        + [number(c.median) if c else "–" for c in ours]
                    )
        if not rows:
            return ""
        return (
            "## With gradients\n\nSciPy's L-BFGS-B, restarted from our initial points (not the first, the centre), gets the exact gradient with every "
            "value; ours does not.\nOne value with its gradient counts as one evaluation. Medians.\n\n"
            + table(
                ["function"] + [f"L-BFGS-B {n}" for n in MARKS] + [f"ours {n}" for n in MARKS],
                rows,
            )
        )

    def every_regret(self) -> str:
        parts = ["## Regret of every method\n\nMedian (quartiles, from three seeds on).\n"]
        for function in self.functions:
            rows = []
            for method in self.methods:
                cells = [self.cells.get((method, function, n)) for n in MARKS]
                if any(cells):
                    seeds = max(c.seeds for c in cells if c)
                    rows.append([method, str(seeds)] + [with_quartiles(c) if c else "–" for c in cells])
            if rows:
                parts.append(f"### {function}\n\n" + table(["method", "seeds"] + [f"n = {n}" for n in MARKS], rows))
        return "\n".join(parts)

    def shifted_regret(self) -> str:
        found = self.medians(self.shifted)
        return found and (
            "## Shifted boxes\n\nEach seed moves the box by up to a fifth of its width along every axis, the best point "
            "staying inside: the\ncentre, where ours, dlib and DIRECT begin and whoever is given our points too, is too good a "
            "guess in the customary\nboxes. Medians at n = 50 / 100 / 200.\n\n" + found
        )

    def other_regret(self) -> str:
        found = self.medians(self.others)
        return found and (
            "## Functions that are in no target\n\nIn boxes moved by the seed; `_rotated`: turned about the minimizer, so that no "
            "parameter acts by itself; sparse25: five of 25\nparameters act (`bench/search/wide_functions.h`). Chosen before any peer ran on them; other sizes and boxes of some\nwere looked at when our switches were made. Medians "
            "at n = 50 / 100 / 200.\n\n" + found
        )

    def medians(self, functions: Sequence[str]) -> str:
        """A row a function, a column a method; empty where nothing ran."""
        methods = [m for m in self.methods if any(self.runs_on(m, f) for f in functions)]
        rows = []
        for function in functions:
            if not any(self.runs_on(m, function) for m in methods):
                continue
            row = [function.removesuffix("+shift")]
            for method in methods:
                cells = [self.cells.get((method, function, n)) for n in JUDGED]
                row.append(" / ".join(number(c.median) if c else "–" for c in cells))
            rows.append(row)
        return table(["function"] + methods, rows) if rows else ""

    def setup(self) -> str:
        m = self.manifest
        names = ["optuna", "cmaes", "dlib-bin", "nlopt", "bayesian-optimization", "scikit-optimize", "scipy", "torch"]
        names += ["gpytorch", "botorch", "HEBO", "smac", "numpy"]
        rows = []
        for method in self.methods:
            info = m["peers"].get(method, {"title": "ours (`search_bench`)", "start": "its own"})
            start = info["start"]
            if start.startswith("our points"):
                count = int(re.findall(r"\d+", start)[-1]) if re.search(r", \d+$", start) else 3
                same = paired(self.by_method[self.main], self.by_method[method], min(count, 3))
                start += ", checked" if same else ", **not the same values**"
            rows.append((method, info["title"], start, coverage(self.by_method.get(method, []))))
        return (
            "## What ran\n\n"
            + table(("method", "what", "begins with", "ran (functions × seeds × evaluations)"), rows)
            + f"\n- Ours: lib/ as of {m['ours_version']}. Packages: "
            + ", ".join(f"{n} {self.versions(n)}" for n in names)
            + f".\n- Machine: {m['cpu']}, {m['cores']} cores, {m['clock_mhz']:.0f} MHz as reported, {m['system']}, "
            + f"Python {m['python']}. One process at a time, one thread each, at low priority; other work ran beside it: load "
            + f"{min(m['loads']):.1f} to {max(m['loads']):.1f}. CPU times are therefore noisy upwards; ratios "
            + "less so.\n- Seeds are 0, 1, …. \"Our points\": the first initial points of `bo` under the same seed, as many as "
            + "the peer would draw itself; checked by comparing values. The first of them is the centre of the box. Others begin as they do when a user calls them.\n"
            + "- Peers that take tenths of a second and more for a suggestion ran on fewer functions, seeds and evaluations, as many as the machine had time for (`full` in run_peers.py "
            + "is all of it): branin, michalewicz5, rosenbrock4 and hartmann6 first. Medians of three runs and fewer are indications.\n"
        )

    def not_run(self) -> str:
        lines = []
        known = self.manifest["peers"]
        not_installed = self.manifest["environment_failures"]
        for environment, reason in not_installed.items():
            peers = [n for n, p in known.items() if p["environment"] == environment]
            lines.append(f"- {', '.join(peers)}: could not be installed: {reason}")
        grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
        for method, run, reason in self.failures:
            grouped[method, re.sub(r"after \d+ evaluations", "midway", reason)].append(run)
        for (method, reason), failed in sorted(grouped.items()):
            lines.append(f"- {method}, {len(failed)} run{'s' * (len(failed) > 1)} failed ({', '.join(failed[:4])}{', …' * (len(failed) > 4)}): {reason}")
        if self.failures:
            lines.append("- Medians above are over the runs that did not fail, which flatters whoever failed.")
        for peer, info in known.items():
            failed = any(f[0] == peer for f in self.failures) or info["environment"] in not_installed
            if peer not in self.by_method and not failed:
                lines.append(f"- {peer}: not run yet.")
        lines.append("- bayesopt and limbo (C++): in no package index; not compared.")
        lines.append("- Vizier: its Gaussian-process designers need JAX beside all the above; not tried.")
        return "## Failed and not run\n\n" + "\n".join(lines) + "\n"

    def csv_rows(self) -> list[list[str]]:
        rows = [["algorithm", "function", "n", "seeds", "regret_q25", "regret_median", "regret_q75", "ms_p50", "ms_p95"]]
        for method in self.methods:
            for function in self.functions + self.shifted + self.others:
                runs = self.runs_on(method, function)
                for n in MARKS:
                    cell = self.cells.get((method, function, n))
                    if not cell:
                        continue
                    times = latency_of(runs, n)
                    rows.append(
                        [method, function, str(n), str(cell.seeds)]
                        + [f"{v:.6g}" for v in (cell.q25, cell.median, cell.q75)]
                        + ([f"{v:.4g}" for v in times] if times else ["", ""])
                    )
        return rows


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=root / "build" / "release" / "peers" / "results")
    parser.add_argument("--ours", default="", help="as for run_peers.py; the first is judged")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "pages")
    parser.add_argument("--no_plots", action="store_true")
    args = parser.parse_args()
    manifest = json.loads((args.results / "manifest.json").read_text())
    runs, failures = load(args.results, manifest["ours_folder"])
    ours = list(dict.fromkeys(a.strip() for a in args.ours.split(";") if a.strip())) or manifest["ours"]
    present = {run.method for run in runs}
    if missing := [a for a in ours if a not in present]:
        raise SystemExit(f"no results of {', '.join(missing)} in {args.results}: run run_peers.py with the same --ours")
    report = Report(runs, failures, manifest, ours)
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.no_plots:
        draw(report, args.out)
    (args.out / "search.md").write_text(report.markdown(plots=not args.no_plots))
    with (args.out / "search.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(report.csv_rows())
    print(f"{args.out / 'search.md'}: {len(runs)} runs of {len(present)} methods")


if __name__ == "__main__":
    main()
