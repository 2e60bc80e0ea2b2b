"""Searches along hypergradients by `hoag_experiment`: a row is an evaluation."""

import math
import statistics
import subprocess
import sys

import draws
import rows
import svg
from draws import bounds, listed
from verdict import Cell

TABLE = "hoag"
COLUMNS = ["problem", "method", "split", "evaluation", "seconds", "passes", "value", "third"]
# Most evaluations, and CPU seconds, of every method on the problem. At least 20 evaluations each: the seconds are a last resort.
CAPS = {"20news": (40, 120), "a9a": (40, 40), "parkinsons": (40, 120), "mnist": (25, 600)}


class Data:
    def __init__(self, folder=rows.FOLDER):
        self.runs = {}  # (problem, method) -> {split: [row, …]}
        for row in sorted(rows.read(TABLE, folder), key=lambda row: int(row["evaluation"])):
            numbers = {name: float(row[name]) for name in ("evaluation", "seconds", "passes", "value", "third")}
            self.runs.setdefault((row["problem"], row["method"]), {}).setdefault(int(row["split"]), []).append(numbers)
        self.least = {}  # (problem, split) -> the least value that any run found
        for (problem, _), by_split in self.runs.items():
            for split, run in by_split.items():
                values = [row["value"] for row in run if math.isfinite(row["value"])]
                self.least[problem, split] = min([*values, self.least.get((problem, split), math.inf)])

    def splits(self, problem, method):
        return self.runs.get((problem, method), {})

    def start(self, problem, split):
        """The value at the start of the searches by gradients, HOAG's first."""
        run = self.splits(problem, "hoag").get(split)
        return run[0]["value"] if run else math.nan

    def target(self, problem, split, level):
        return self.least[problem, split] + level * (self.start(problem, split) - self.least[problem, split])

    def first(self, problem, method, split, level):
        """The first row at or below the level; None where there is none."""
        target = self.target(problem, split, level)
        return next((row for row in self.splits(problem, method)[split] if row["value"] <= target), None)

    def cost(self, problem, method, split, level, of):
        row = self.first(problem, method, split, level)
        return math.inf if row is None else row[of]


def reach(data, part, recipe):
    """For each split, what a spends to the level over what b spends; infinite where a does not come there, 0 where only b
    doesn't."""
    cells = []
    for problem in part["problems"]:
        of = "evaluation" if problem == "parkinsons" else "passes"  # A kernel's model has no passes.
        for a in listed(part["a"]):
            for b in listed(part["b"]):
                samples = []
                for split in sorted(data.splits(problem, a).keys() & data.splits(problem, b).keys()):
                    ours, theirs = (data.cost(problem, m, split, part["level"], of) for m in (a, b))
                    samples.append(math.inf if math.isinf(ours) else ours / theirs)
                cells.append(Cell((problem, a, b), tuple(samples), bounds(part)))
    return cells


def ends(data, part, recipe):
    """For each split, the suboptimality of the last evaluation over that of the first."""
    cells = []
    for problem in part["problems"]:
        for method in listed(part["a"]):
            samples = []
            for split, run in sorted(data.splits(problem, method).items()):
                least = data.least[problem, split]
                begin, end = run[0]["value"] - least, run[-1]["value"] - least
                samples.append(end / begin if begin > 0 else math.inf)
            cells.append(Cell((problem, method), tuple(samples), bounds(part), part.get("kind", "median")))
    return cells


def third_after(data, part, recipe):
    """For each split, the third set's loss where the level is reached over that at the best value."""
    cells = []
    for problem in part["problems"]:
        samples = []
        for split, run in sorted(data.splits(problem, part["a"]).items()):
            row = data.first(problem, part["a"], split, part["level"])
            if row is not None:
                samples.append(row["third"] / min(run, key=lambda row: row["value"])["third"])
        cells.append(Cell((problem, part["a"]), tuple(samples), bounds(part)))
    return cells


def third_rises(data, part, recipe):
    """For each split, the third set's loss at the end over its least."""
    return [Cell((problem, part["a"]), tuple(run[-1]["third"] / min(row["third"] for row in run)
                                             for _, run in sorted(data.splits(problem, part["a"]).items())), bounds(part))
            for problem in part["problems"]]


MEASURES = {"reach": reach, "ends": ends, "third_after": third_after, "third_rises": third_rises}

# --- Running ---


def jobs(claims, seeds, place, again=False):
    have = set() if again else {(r["problem"], r["method"], r["split"]) for r in rows.read(TABLE)}
    have |= set() if again else {tuple(path.stem.split("|")) for path in place.glob("*.txt")}
    # HOAG's start is the level's measure everywhere.
    wanted = dict.fromkeys((problem, method, str(seed)) for claim in claims
                           for seed in range(1, min(seeds or claim.seeds, claim.seeds) + 1) for part in claim.parts
                           for problem in part["problems"] for method in ["hoag", *listed(part["a"]), *listed(part.get("b", []))])
    return ["|".join(key) for key in wanted if key not in have]


def run(lines, place, binaries, processes):
    data = place / "data"
    for problem in sorted({line.split("|")[0] for line in lines}):
        if not (data / f"{problem}.done").exists():
            subprocess.run([sys.executable, draws.HERE / "hoag/prepare.py", rows.sources(), data, problem], check=True)
            (data / f"{problem}.done").touch()
    ok = True
    for line in lines:  # One at a time: rows have seconds.
        problem, method, split = line.split("|")
        evaluations, seconds = CAPS[problem]
        limits = [f"--evaluations={evaluations}", f"--seconds={seconds}"]
        if method == "scipy":
            command = [sys.executable, draws.HERE / "hoag/peers.py", binaries / "hoag_experiment", data, problem, method, "--split",
                       split, "--evaluations", str(evaluations), "--seconds", str(seconds)]
        else:
            command = [binaries / "hoag_experiment", f"--data_root={data}", f"--problem={problem}", f"--method={method}",
                       f"--split={split}", "--exact", *limits]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        ok = ok and done.returncode == 0
        if done.returncode == 0:
            (place / f"{line}.txt").write_text(done.stdout)
    return ok


def parse(text):
    """Rows of a run's output. The value is the exact one where there is one."""
    found = []
    for line in text.splitlines():
        problem, method, split, evaluation, seconds, value, exact, third, _, passes = line.split(",")
        found.append([problem, method, split, evaluation, seconds, passes, value if exact == "nan" else exact, third])
    return found


def pack(place, binaries, folder=rows.FOLDER):
    new = {tuple(path.stem.split("|")): parse(path.read_text()) for path in sorted(place.glob("*.txt"))}
    old = [[r[c] for c in COLUMNS] for r in rows.read(TABLE, folder)]
    kept = [row for row in old if tuple(row[:3]) not in new]
    rows.write(TABLE, COLUMNS, kept + [row for run in new.values() for row in run], folder)


def compare(folder, other):
    of = [{(r["problem"], r["method"], r["split"], r["evaluation"]): r["value"] for r in rows.read(TABLE, f)}
          for f in (folder, other)]
    both = of[0].keys() & of[1].keys()
    same = sum(of[0][key] == of[1][key] for key in both)
    return same, len(both) - same


# --- Pages ---


def curve(data, problem, method, column):
    """Against passes or evaluations: the median over splits of the best value so far (relative suboptimality), or of the third
    set's loss there."""
    runs = data.splits(problem, method)
    of = "evaluation" if problem == "parkinsons" else "passes"
    last = statistics.median(run[-1][of] for run in runs.values())
    points = []
    for k in range(1, 25):
        at, found = last * k / 24, []
        for split, run in runs.items():
            before = [row for row in run if row[of] <= at]
            if before:
                best = min(before, key=lambda row: row["value"])
                scale = data.start(problem, split) - data.least[problem, split]
                found.append(max((best["value"] - data.least[problem, split]) / scale, 1e-6) if column == "value" else best["third"])
        if len(found) == len(runs) and all(map(math.isfinite, found)):
            points.append((at, statistics.median(found)))
    return points


def figures(data):
    variants = ["hoag_exact", "hoag_quadratic", "hoag_cubic", "hoag"]
    methods = ["random", "hoag", "iterdiff", "grid", "bo", "fobo", "projected_gradient"]
    out = []
    for name, caption, problems, lines, column in [
            ("fig2", "Figure 2: suboptimality by tolerance sequences", ["20news", "a9a", "parkinsons"], variants, "value"),
            ("fig3_top", "Figure 3, top: suboptimality by methods", ["20news", "a9a", "parkinsons"], methods, "value"),
            ("fig3_bottom", "Figure 3, bottom: the third set's loss", ["20news", "a9a", "parkinsons"], methods, "third"),
            ("fig5_top", "Figure 5, top: suboptimality with 1,440 strengths", ["mnist"], ["hoag", "fobo"], "value"),
            ("fig5_bottom", "Figure 5, bottom: the third set's loss", ["mnist"], ["hoag", "fobo"], "third")]:
        shown = [p for p in problems if all(data.splits(p, m) for m in lines)]
        panels = [(f"{p}, {'evaluations' if p == 'parkinsons' else 'passes'}", [curve(data, p, m, column) for m in lines])
                  for p in shown]
        out.append((name + ".svg", caption, svg.panels(caption, lines, panels) if shown else None))
    return out


def summary(data):
    """Splits, evaluations, and what the levels cost."""
    out = [f"{sum(len(run) for by_split in data.runs.values() for run in by_split.values()):,} evaluations. Medians over splits of the passes "
           "to a relative suboptimality (Parkinsons: of evaluations), and of CPU seconds, which no claim is judged by; – : not reached.", "",
           "| problem | method | splits | evaluations | 1e-2 | 1e-3 | 1e-4 | s to 1e-2 | s to 1e-4 | third set's loss at the best |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for problem, method in sorted(data.runs):
        runs = data.splits(problem, method)
        if any(math.isnan(data.start(problem, split)) for split in runs):
            continue
        of = "evaluation" if problem == "parkinsons" else "passes"
        cells = [statistics.median(data.cost(problem, method, split, level, column) for split in runs)
                 for column, level in [(of, 1e-2), (of, 1e-3), (of, 1e-4), ("seconds", 1e-2), ("seconds", 1e-4)]]
        third = statistics.median(min(run, key=lambda row: row["value"])["third"] for run in runs.values())
        counts = [len(run) for run in runs.values()]
        out.append(f"| {problem} | {method} | {len(runs)} | {min(counts)} to {max(counts)} | "
                   + " | ".join("–" if math.isinf(c) else f"{c:.3g}" for c in cells) + " | "
                   + ("–" if math.isnan(third) else f"{third:.4g}") + " |")
    return out
