"""Searches on the BBOB suite's functions, on instances that nothing here was tuned on: a row is a run of 200 evaluations."""

import concurrent.futures
import csv
import math
import statistics
import subprocess
import sys

import draws
import rows
import svg
import verdict
from draws import listed
from verdict import Cell, bounds

TABLE = "bbob"
LOOKS = [10, 20, 50, 100, 150, 200]
COLUMNS = ["dimension", "method", "instance", "function", "seconds", *map(str, LOOKS)]
METHODS = {"auto": "`auto`", "tpe": "Optuna TPE", "cmaes": "Optuna CMA-ES", "direct": "NLopt DIRECT", "dlib": "dlib", "random": "random search"}
PEERS = [method for method in METHODS if method != "auto"]
FIRST = 71  # Instances 1 to 8 and 41 to 45 chose or judged a rule of `auto` (bench/search/pages/auto.md).
TARGET = 1e-8  # The suite's: regrets below are as good.
GROUPS = {"separable": range(1, 6), "moderate": range(6, 10), "ill-conditioned": range(10, 15), "many basins": range(15, 20),
          "weak structure": range(20, 25)}
NAMES = ["sphere", "ellipsoid", "Rastrigin", "Büche-Rastrigin", "slope", "attractive sector", "step ellipsoid", "Rosenbrock",
         "Rosenbrock, rotated", "ellipsoid, rotated", "discus", "bent cigar", "sharp ridge", "different powers", "Rastrigin, rotated",
         "Weierstrass", "Schaffer F7", "Schaffer F7, ill-conditioned", "Griewank-Rosenbrock", "Schwefel", "Gallagher, 101 peaks",
         "Gallagher, 21 peaks", "Katsuura", "Lunacek"]


class Data:
    def __init__(self, folder=rows.FOLDER):
        self.regrets = {}  # (dimension, method, function) -> {instance: {evaluations: regret}}
        self.seconds = {}  # (dimension, method) -> those of all its runs
        for r in rows.read(TABLE, folder):
            key = (int(r["dimension"]), r["method"], int(r["function"]))
            self.regrets.setdefault(key, {})[int(r["instance"])] = {n: max(float(r[str(n)]), TARGET) for n in LOOKS}
            self.seconds.setdefault(key[:2], []).append(float(r["seconds"]))

    def ratios(self, dimension, function, a, b, n):
        """{instance: a's regret over b's after n evaluations}."""
        first, second = (self.regrets.get((dimension, m, function), {}) for m in (a, b))
        return {k: first[k][n] / second[k][n] for k in sorted(first.keys() & second.keys())}


def group_ratios(data, part, recipe):
    """For each instance, the median over a group's functions of a's regret over b's."""
    cells = []
    functions = [f for name in listed(part["groups"]) for f in GROUPS[name]]
    for dimension in listed(part["dimensions"]):
        for b in listed(part["b"]):
            for n in part["evaluations"]:
                of = [data.ratios(dimension, f, part["a"], b, n) for f in functions]
                both = sorted(set.intersection(*map(set, of)))
                samples = tuple(math.exp(statistics.median(math.log(found[k]) for found in of)) for k in both)
                cells.append(Cell((f"d = {dimension}", b, f"{n} evaluations"), samples, bounds(part), paired="ratio"))
    return cells


MEASURES = {"group_ratio": group_ratios}

# --- Running ---


def jobs(claims, seeds, place, again=False):
    have = set() if again else {(r["dimension"], r["method"], r["instance"]) for r in rows.read(TABLE)}
    have |= set() if again else {tuple(path.stem.split("|")) for path in place.glob("*.txt")}
    wanted = dict.fromkeys((str(dimension), method, str(FIRST + k)) for claim in claims for part in claim.parts
                           for k in range(min(seeds or claim.seeds, claim.seeds)) for dimension in listed(part["dimensions"])
                           for method in [part["a"], *listed(part["b"])])
    return ["|".join(key) for key in sorted(wanted, key=lambda key: (int(key[0]), int(key[2]))) if key not in have]


def run(lines, place, binaries, processes):
    place.mkdir(parents=True, exist_ok=True)

    def one(line):
        dimension, method, instance = line.split("|")
        done = subprocess.run([sys.executable, draws.HERE / "bbob/one_run.py", binaries, method, dimension, instance],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"run: {line} did not end", file=sys.stderr)
            return False
        scratch = place / f"{line}.part"
        scratch.write_text(done.stdout)
        scratch.rename(place / f"{line}.txt")
        return True

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        return all(list(pool.map(one, lines)))


def pack(place, binaries, folder=rows.FOLDER):
    new = {tuple(path.stem.split("|")): list(csv.reader(path.read_text().splitlines())) for path in sorted(place.glob("*.txt"))}
    kept = [[r[c] for c in COLUMNS] for r in rows.read(TABLE, folder) if (r["dimension"], r["method"], r["instance"]) not in new]
    rows.write(TABLE, COLUMNS, kept + [[*key, *line] for key, lines in new.items() for line in lines], folder)


def compare(folder, other):
    """Regrets alone: seconds differ."""
    of = [{tuple(r[c] for c in COLUMNS[:4]): [r[str(n)] for n in LOOKS] for r in rows.read(TABLE, f)} for f in (folder, other)]
    both = of[0].keys() & of[1].keys()
    same = sum(of[0][key] == of[1][key] for key in both)
    return same, len(both) - same


def price(line):
    """CPU seconds of the suggestions, from other instances."""
    dimension, method, _ = line.split("|")
    seconds = [float(r["seconds"]) for r in rows.read(TABLE) if (r["dimension"], r["method"]) == (dimension, method)]
    return f"{24 * statistics.mean(seconds):.0f} CPU s of suggestions" if seconds else "no row tells its price"


# --- Pages ---


def cells(data):
    """Every function, dimension, budget and peer: (word, median ratio, its interval, instances, label), the worst first."""
    found = []
    for dimension in sorted({d for d, _, _ in data.regrets}):
        for f in range(1, 25):
            for n in (50, 100, 200):
                for b in PEERS:
                    ratios = tuple(data.ratios(dimension, f, "auto", b, n).values())
                    if ratios:
                        cell = Cell((f, dimension, n, b), ratios, verdict.Bounds(high=1.0))
                        low, high = verdict.interval(cell, verdict.LEVEL)
                        word = "lost" if low > 1 else "won" if high < 1 else "open"
                        found.append((word, cell.centre, low, high, len(ratios), cell.label))
    return sorted(found, key=lambda c: (-c[1], c[5]))


def short(value):
    return "∞" if value == math.inf else "0" if value in (0, -math.inf) else f"{value:.2g}"


def listing(found):
    out = ["| function | d | evaluations | beside | instances | `auto`'s regret is, times | interval |", "|---|---|---|---|---|---|---|"]
    for _, centre, low, high, count, (f, dimension, n, b) in found:
        out.append(f"| f{f} {NAMES[f - 1]} | {dimension} | {n} | {METHODS[b]} | {count} | {short(centre)} | {short(low)} … {short(high)} |")
    return out


def summary(data):
    found = cells(data)
    lost = [c for c in found if c[0] == "lost"]
    out = [f"{sum(map(len, data.regrets.values())):,} runs. A cell is a function, a dimension, a budget and a peer: `auto`'s regret over the peer's, its median "
           "over the instances and that median's interval by the sign test, at 95 % for each cell alone. Of cells that are level, one in forty would be lost by "
           "chance.", "",
           "| | cells | lost | open, behind | open, level or ahead | won | CPU ms a suggestion |", "|---|---|---|---|---|---|---|"]
    for dimension in sorted({d for d, _, _ in data.regrets}):
        for b in PEERS:
            mine = [c for c in found if c[5][1] == dimension and c[5][3] == b]
            if mine:
                words = [len([c for c in mine if c[0] == "lost"]), len([c for c in mine if c[0] == "open" and c[1] > 1]),
                         len([c for c in mine if c[0] == "open" and c[1] <= 1]), len([c for c in mine if c[0] == "won"])]
                milliseconds = 1000 / 200 * statistics.mean(data.seconds[dimension, b])
                out.append(f"| d = {dimension}, {METHODS[b]} | {len(mine)} | " + " | ".join(map(str, words)) + f" | {milliseconds:.2g} |")
        if (dimension, "auto") in data.seconds:
            out.append(f"| d = {dimension}, `auto` itself | | | | | | {1000 / 200 * statistics.mean(data.seconds[dimension, 'auto']):.2g} |")
    behind = [c for c in found if c[0] == "open" and c[1] > 1]
    out += ["", f"**Lost**: {len(lost)} of {len(found)} cells, the worst first.", "", *listing(lost)]
    out += ["", f"<details><summary>Behind, but open: {len(behind)} cells</summary>", "", *listing(behind), "", "</details>"]
    out += ["", "Median regrets; the least of a row is bold.", ""]
    for dimension in sorted({d for d, _, _ in data.regrets}):
        out += [f"| d = {dimension}, after | instances | " + " | ".join(METHODS.values()) + " |", "|---|" + "---|" * (len(METHODS) + 1)]
        for f in range(1, 25):
            for n in (50, 100, 200):
                medians = {m: statistics.median(run[n] for run in by.values()) for m in METHODS for by in [data.regrets.get((dimension, m, f))] if by}
                count = max((len(data.regrets.get((dimension, m, f), {})) for m in METHODS), default=0)
                least = min(medians.values(), default=0)
                texts = ["–" if m not in medians else f"**{medians[m]:.2g}**" if medians[m] == least else f"{medians[m]:.2g}" for m in METHODS]
                out.append(f"| f{f} {NAMES[f - 1]}, {n} | {count} | " + " | ".join(texts) + " |")
        out.append("")
    return out


def figures(data):
    out = []
    for dimension in (2, 5, 10):
        drawn = []
        for f in range(1, 25):
            lines = [[(n, statistics.median(run[n] for run in by.values())) for n in LOOKS] if by else []
                     for m in METHODS for by in [data.regrets.get((dimension, m, f))]]
            if any(lines):
                drawn.append((f"f{f} {NAMES[f - 1]}", lines))
        caption = f"Median regrets against evaluations, d = {dimension}"
        out.append((f"bbob_{dimension}.svg", caption, svg.panels(caption, list(METHODS), drawn, columns=6) if drawn else None))
    return out
