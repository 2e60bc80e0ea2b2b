"""Searches by `reproduce`: harmless, first-order and Lipschitz Bayesian optimization, with and without their parts."""

import bisect
import csv
import itertools
import math
import statistics
import subprocess
import tempfile

import rows
import svg
from verdict import Cell, bounds

TABLE = "search"
COLUMNS = ["problem", "setting", "seed", "evaluations", "best", "stuck", "repeated", "bind", "excluded", "seconds"]
TINY = 1e-12  # Added to errors before ratios.
LOSS_FLOOR = 1e-4  # Nats: smaller differences of the logistic task's loss mean nothing.
FUNCTIONS = ["branin", "camel", "goldstein_price", "michalewicz2", "rosenbrock2", "hartmann3", "rosenbrock3", "rosenbrock4",
             "michalewicz5", "rosenbrock5", "hartmann6", "michalewicz10"]
GROUPS = {
    "functions": FUNCTIONS,
    "plane": FUNCTIONS[:5],
    "smooth": ["branin", "camel", "hartmann3", "rosenbrock2", "rosenbrock3"],
    "fifteen": [*FUNCTIONS, "robot3", "robot4", "logistic"],
}
RECIPES = {"mcmc": "-mcmc", "map": ""}


class Run:
    def __init__(self, row):
        self.evaluations = int(row["evaluations"])
        self.at, self.value = [], []
        for step in row["best"].split():
            at, value = step.split(":")
            self.at.append(int(at))
            self.value.append(float(value))
        self.stuck, self.repeated = int(row["stuck"]), int(row["repeated"])
        self.bind = float(row["bind"]) if row["bind"] else None
        self.excluded = float(row["excluded"]) if row["excluded"] else None
        self.seconds = float(row["seconds"])

    def best(self, n):
        """The least value of the first n evaluations."""
        i = bisect.bisect_right(self.at, n)
        return self.value[i - 1] if i else math.inf


class Data:
    def __init__(self, folder=rows.FOLDER):
        self.problems = {row["problem"]: (int(row["dimension"]), float(row["optimum"]) if row["optimum"] else None)
                         for row in rows.read("search_problems", folder)}
        self.runs = {}  # (problem, setting) -> {seed: Run}
        for row in rows.read(TABLE, folder):
            self.runs.setdefault((row["problem"], row["setting"]), {})[int(row["seed"])] = Run(row)
        self.floor = {}  # The least value that any run found.
        for (problem, _), by_seed in self.runs.items():
            least = min(run.best(run.evaluations) for run in by_seed.values())
            self.floor[problem] = min(least, self.floor.get(problem, math.inf))

    def error(self, problem, value):
        optimum = self.problems[problem][1]
        return max(value - self.floor[problem], LOSS_FLOOR) if optimum is None else abs(value - optimum)

    def errors(self, problem, setting, n):
        """{seed: error after n evaluations}, of the runs that are long enough."""
        return {seed: self.error(problem, run.best(n)) for seed, run in self.runs.get((problem, setting), {}).items()
                if run.evaluations >= n}


def expand(part, recipe):
    """The comparisons of a part: (label, problem, setting a, evaluations of a, setting b or None, evaluations of b)."""
    problems = part.get("problems", "functions")
    problems = GROUPS[problems] if isinstance(problems, str) else problems
    budget = part.get("evaluations", 100)
    of_a, of_b = budget if isinstance(budget, list) else (budget, budget)
    out = []
    if "cells" in part:
        names = [(problem, a, b, (problem, a)) for problem, a, b in part["cells"]]
    else:
        lists = [part[key] if isinstance(part[key], list) else [part[key]] for key in ("a", "b") if key in part]
        names = []
        for problem, acquisition, *pair in itertools.product(problems, part.get("acquisitions", [""]), *lists):
            pair = [name.replace("{acq}", acquisition) for name in pair]
            tags = [acquisition.upper()] if acquisition else [name for name, given in zip(pair, lists) if len(given) > 1]
            names.append((problem, pair[0], pair[1] if len(pair) > 1 else None, (problem, *tags)))
    for problem, a, b, label in names:
        a, b = (name and name.replace("{r}", RECIPES[recipe]) for name in (a, b))
        out.append((label, problem, a, of_a, b, of_b))
    return out


def ratios(data, part, recipe):
    """A cell for each comparison: errors of a over those of b, seed by seed."""
    cells = []
    for label, problem, a, of_a, b, of_b in expand(part, recipe):
        first, second = data.errors(problem, a, of_a), data.errors(problem, b, of_b)
        samples = tuple((first[s] + TINY) / (second[s] + TINY) for s in sorted(first.keys() & second.keys()))
        cells.append(Cell(label, samples, bounds(part), paired="ratio" if of_a == of_b else ""))
    return cells


def shares(data, part, recipe):
    """How many seeds end with an error of at most `error` or, with b, below that of b."""
    cells = []
    for label, problem, a, of_a, b, of_b in expand(part, recipe):
        first = data.errors(problem, a, of_a)
        if b is None:
            samples = tuple(float(first[s] <= part["error"]) for s in sorted(first))
        else:
            second = data.errors(problem, b, of_b)
            samples = tuple(float(first[s] < second[s]) for s in sorted(first.keys() & second.keys()))
        cells.append(Cell((*label, a) if b is None else label, samples, bounds(part), "share"))
    return cells


def stuck(data, part, recipe):
    """How many proposals of a run had been tried before."""
    return [Cell(label, tuple(float(run.stuck) for _, run in sorted(data.runs.get((problem, a), {}).items())), bounds(part))
            for label, problem, a, _, _, _ in expand(part, recipe)]


def coupling(data, part, recipe):
    """1 for each run of a whose best after every n is at most that of b after a quarter of n."""
    cells = []
    for label, problem, a, of_a, b, _ in expand(part, recipe):
        samples = []
        for seed, run in sorted(data.runs.get((problem, a), {}).items()):
            other = data.runs.get((problem, b), {}).get(seed)
            if other is not None and other.evaluations >= of_a // 4:
                samples.append(float(all(run.best(n) <= other.best(n // 4) for n in range(4, min(of_a, run.evaluations) + 1))))
        cells.append(Cell(label, tuple(samples), bounds(part), "exact"))
    return cells


MEASURES = {"error_ratio": ratios, "error_share": shares, "stuck": stuck, "coupling": coupling}

# --- Running ---


def needs(part, recipe):
    """{(problem, setting): evaluations} that the part is judged by."""
    wanted = {}
    for _, problem, a, of_a, b, of_b in expand(part, recipe):
        for setting, n in ((a, of_a), (b, of_b)):
            if setting:
                wanted[problem, setting] = max(n, wanted.get((problem, setting), 0))
    return wanted


def done(place, folder=rows.FOLDER):
    """{(problem, setting, seed): evaluations} of rows and of results that are not yet rows."""
    found = {(r["problem"], r["setting"], int(r["seed"])): int(r["evaluations"]) for r in rows.read(TABLE, folder)}
    for path in place.glob("*/*/*.csv"):
        key = (path.parts[-3], path.parts[-2], int(path.stem))
        with path.open() as file:
            found[key] = max(sum(1 for _ in file) - 1, found.get(key, 0))
    return found


def jobs(claims, seeds, place, again=False):
    """Lines for `reproduce`, claim by claim; a run that several need once, at its largest budget."""
    largest, order = {}, []
    for claim in claims:
        for part in claim.parts:
            for key, n in needs(part, claim.recipe).items():
                largest[key] = max(n, largest.get(key, 0))
        for part in claim.parts:
            order += [(key, seed) for seed in range(min(seeds or claim.seeds, claim.seeds)) for key in needs(part, claim.recipe)]
    have = {} if again else done(place)
    return [f"{problem} {setting} {seed} {largest[problem, setting]}" for (problem, setting), seed in dict.fromkeys(order)
            if have.get((problem, setting, seed), 0) < largest[problem, setting]]


def run(lines, place, binaries, processes):
    """Makes the runs of `lines`, and returns whether all of them ended well. Rows of finished runs stay if others fail."""
    running = []
    for k in range(processes):
        with tempfile.TemporaryFile("w+") as file:
            file.write("".join(line + "\n" for line in lines[k::processes]))
            file.seek(0)
            running.append(subprocess.Popen([binaries / "reproduce", f"--results={place}"], stdin=file))
    try:
        return all([program.wait() == 0 for program in running])
    finally:
        for program in running:
            program.terminate()


def packed(path):
    best, steps, origins, numbers, seconds, count = math.inf, [], [], {"bind_rate": [], "excluded_share": []}, 0.0, 0
    with path.open(newline="") as file:
        for count, row in enumerate(csv.DictReader(file), 1):
            if row["best"] and float(row["best"]) < best:
                best = float(row["best"])
                steps.append(f"{count}:{best:.9g}")
            origins.append(row["origin"])
            for name, values in numbers.items():
                if row[name]:
                    values.append(float(row[name]))
            seconds += float(row["suggest_ms"]) / 1000
    means = [f"{statistics.mean(v):.3g}" if v else "" for v in numbers.values()]
    return [path.parts[-3], path.parts[-2], path.stem, count, " ".join(steps), origins.count("stuck_random"),
            origins.count("repeat"), *means, f"{seconds:.3g}"]


def pack(place, binaries, folder=rows.FOLDER):
    """Moves results into the rows; those that are there already give way to longer or newer ones."""
    table = {(r["problem"], r["setting"], r["seed"]): [r[c] for c in COLUMNS] for r in rows.read(TABLE, folder)}
    for path in sorted(place.glob("*/*/*.csv")):
        row = packed(path)
        old = table.get(tuple(row[:3]))
        if old is None or int(old[3]) <= row[3]:
            table[tuple(row[:3])] = row
    rows.write(TABLE, COLUMNS, table.values(), folder)
    text = subprocess.run([binaries / "reproduce", "--problems"], stdout=subprocess.PIPE, text=True, check=True).stdout
    header, *lines = text.splitlines()
    known = {r["problem"]: [r["problem"], r["dimension"], r["optimum"]] for r in rows.read("search_problems", folder)}
    known.update((line.split(",")[0], line.split(",")) for line in lines)
    rows.write("search_problems", header.split(","), known.values(), folder)


def compare(folder, other):
    """Runs that both have with the same values, and runs with different ones."""
    of = [{(r["problem"], r["setting"], r["seed"]): r["best"] for r in rows.read(TABLE, f)} for f in (folder, other)]

    def first(best, n):
        return [step for step in best.split() if int(step.split(":")[0]) <= n]

    same = differ = 0
    for key in of[0].keys() & of[1].keys():
        n = min(int(best.split()[-1].split(":")[0]) for best in (of[0][key], of[1][key]) if best)
        alike = first(of[0][key], n) == first(of[1][key], n)
        same, differ = same + alike, differ + (not alike)
    return same, differ


# --- Pages ---


def quantile(values, q):
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def line(data, problem, setting, limit, cost):
    """A figure's line: means and 10 % and 90 % quantiles of errors, evaluations counted `cost` each."""
    runs = data.runs.get((problem, setting), {}).values()
    count = min((r.evaluations for r in runs), default=0)
    count = min(count, limit // cost)
    points = []
    for n in sorted({max(1, round(count * k / 24)) for k in range(1, 25)}):
        values = sorted(data.error(problem, r.best(n)) for r in runs)
        if n <= count and values and math.isfinite(values[-1]):
            points.append((n * cost, statistics.mean(values), quantile(values, 0.1), quantile(values, 0.9)))
    return points


def figure(data, title, problems, lines, limit=100, costs=None):
    """Returns the figure as SVG, or None while one of its settings has no runs."""
    shown = [p for p in problems if all(data.runs.get((p, setting)) for _, setting in lines)]
    if not shown:
        return None
    panels = []
    for problem in shown:
        drawn = [line(data, problem, setting, limit, (costs or {}).get(setting, lambda d: 1)(data.problems[problem][0]))
                 for _, setting in lines]
        panels.append((problem, drawn))
    return svg.panels(title, [label for label, _ in lines], panels)


def figures(data):
    """(file, caption, picture or None) of the source's figures, under its own recipe and with the most probable hyperparameters."""
    out = []

    def add(name, caption, *rest, **more):
        out.append((name + ".svg", caption, figure(data, caption, *rest, **more)))

    for recipe, suffix in RECIPES.items():
        said = "MCMC" if recipe == "mcmc" else "MAP"
        for k, a in enumerate(["ts", "ei", "pi", "ucb"]):
            add(f"fig4_{a}_{recipe}", f"Figure 4.{k + 1}: {a.upper()}, {said}", FUNCTIONS,
                [("random", "random"), ("BO", f"se-bo-{a}{suffix}"), ("H-BO", f"se-hbo-{a}{suffix}")])
        for k, a in enumerate(["ei", "pi", "ucb"]):
            lines = [("random", "random"), ("BO", f"se-bo-{a}{suffix}"), ("G-BO", f"se-g-{a}{suffix}"),
                     ("D-BO", f"se-d-{a}{suffix}")]
            add(f"fig4_fobo_{a}_{recipe}", f"Figure 4.{k + 5}: {a.upper()} with derivatives, {said}, per iteration", FUNCTIONS, lines,
                limit=34)
            costs = {f"se-g-{a}{suffix}": lambda d: d + 1, f"se-d-{a}{suffix}": lambda d: 2}
            add(f"fig4_fobo_{a}_cost_{recipe}", f"Figure 4.{k + 8}: {a.upper()} with derivatives, {said}, per evaluation", FUNCTIONS,
                lines, costs=costs)
        for a in ["ei", "pi", "ucb", "ts"]:
            add(f"fig5_{a}_{recipe}", f"Figures 5.2 to 5.5: {a.upper()}, {said}", GROUPS["fifteen"],
                [("random", "random"), ("BO", f"m-hbo-{a}{suffix}"), ("LBO", f"m-lbo-{a}{suffix}")])
        add(f"fig5_6_{recipe}", f"Figure 5.6: acquisitions side by side, with bounds, {said}",
            ["michalewicz5", "rosenbrock3", "robot3", "hartmann6"],
            [("random", "random"), *[(a.upper(), f"m-lbo-{a}{suffix}") for a in ("ei", "pi", "ucb", "ts")]])
    add("fig5_7", "Figure 5.7: UCB with beta = 1e16", FUNCTIONS,
        [("random", "random"), ("BO", "m-bo-ucb-huge"), ("AR-UCB", "m-lbo-ucb-huge"), ("capped UCB", "m-lbo-ucb-huge-cap")])
    return out


def summary(data):
    """Returns the lines of the page that count its runs, and how often the Lipschitz bound binds."""
    count = sum(len(by_seed) for by_seed in data.runs.values())
    seconds = sum(run.seconds for by_seed in data.runs.values() for run in by_seed.values())
    lines = [f"{count:,} runs, {seconds / 60:.0f} CPU minutes for their suggestions."]
    table = []
    for a in ["EI", "PI", "UCB", "TS"]:
        row = [a]
        for suffix in ("-mcmc", ""):
            for name in (f"m-lbo-{a.lower()}{suffix}", f"m-lbo-{a.lower()}-true{suffix}"):
                found = [r for (_, s), by_seed in data.runs.items() if s == name for r in by_seed.values() if r.bind is not None]
                row.append(f"{100 * statistics.mean(r.bind for r in found):.2g} % ({len(found)} runs)" if found else "no runs")
        table.append(row)
    lines += ["", "Share of the points that the maximiser looked at whose value the Lipschitz bounds changed:", "",
              "| acquisition | MCMC | MCMC, true L | MAP | MAP, true L |", "|---|---|---|---|---|"]
    return lines + ["| " + " | ".join(row) + " |" for row in table]
