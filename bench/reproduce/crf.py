"""Conditional random fields by `reproduce_crf`: a row is a look at a run, or a combination of sampling and step."""

import concurrent.futures
import csv
import math
import statistics
import subprocess
import sys

import rows
import svg
from draws import bounds, listed
from verdict import Cell

COLUMNS = ["job", "seed", "kind", "problem", "method", "detail", "passes", "seconds", "value", "error", "more"]
TITLES = {"letters": "OCR letters", "chunking": "CoNLL-2000", "names": "CoNLL-2002 Dutch", "tags": "UD-EWT parts of speech"}
PASSES = {"letters": 100, "chunking": 80, "names": 70, "tags": 70}  # Of every method, if it does not reach 1e-6 before.
GROUPS = {"sag": ["sag-ms", "sag-ms-checked", "sag-pl", "sag"], "stochastic": ["sg", "asg", "pegasos", "adagrad", "smd"],
          "others": ["hybrid", "oeg"], "lbfgs": ["lbfgs"]}
METHODS = [method for group in GROUPS.values() for method in group]
STEPS = ["const", "lmean", "lmax", "hedge", "opt", "averagehedgeopt1", "averagehedgeopt2"]
SAMPLINGS = ["u", "rp", "cyclic", "cyclic2", "pl", "ms"]
GRIDS = ["sag", "saga", "saga2"]
FEW = {"sag": "u:opt,u:hedge,pl:hedge,pl:lmean,ms:lmean,ms:hedge", "saga2": "u:lmean,pl:lmean,pl:hedge,ms:lmean,ms:hedge"}
FLOOR = 1e-6  # Of gaps in ratios: runs end there, and some optima are known no better.


def every_job():
    """{name: arguments}; a name is what runs, the problem, and a part of it. L-BFGS draws nothing: seed 1 alone."""
    jobs = {}
    for problem in TITLES:
        for what in ("start", "dual"):
            if problem in ("letters", "chunking"):
                jobs[f"{what}.{problem}"] = [f"--what={what}", f"--problem={problem}"]
        for group, methods in GROUPS.items():
            passes = 400 if group == "lbfgs" else PASSES[problem]
            jobs[f"race.{problem}.{group}"] = ["--what=race", f"--problem={problem}", f"--methods={','.join(methods)}",
                                               f"--passes={passes}", f"--long_passes={passes}"]
        for part, method in enumerate(GRIDS):
            if problem == "letters" or method in FEW:
                cells = [] if problem == "letters" else [f"--cells={FEW[method]}"]
                jobs[f"grid.{problem}.{method}"] = ["--what=grid", f"--problem={problem}", f"--part={part}", *cells]
    return jobs


JOBS = every_job()


def alone(job):
    """Returns whether all seeds have the same rows."""
    return job.endswith(".lbfgs")


class Data:
    def __init__(self, folder=rows.FOLDER):
        self.curves, self.grid, self.dual = {}, {}, {}  # Of each key: {seed: looks (passes, seconds, gap, error), or a number}
        self.diverged = {}  # Of each problem, the gap from which on a combination diverges.
        self.memory, self.sizes, self.optima = {}, {}, {}
        self.count = 0
        for r in rows.read("crf", folder):
            self.count += 1
            kind, problem, seed = r["kind"], r["problem"], int(r["seed"])
            if kind in ("curve", "diverged"):
                method = f"{r['method']} {r['detail']}" if r["method"] == "sag-start" or r["method"].endswith("-try") else r["method"]
                look = (float(r["passes"]), float(r["seconds"]), *((float(r["value"]), float(r["error"])) if kind == "curve" else (math.inf, 1.0)))
                self.curves.setdefault((problem, method), {}).setdefault(seed, []).append(look)
            elif kind == "grid":
                self.grid.setdefault((problem, r["method"], *r["detail"].split()), {})[seed] = float(r["value"])
                # The source's rule: |f - f*| is at least |f0 - f|.
                self.diverged[problem] = 0.5 * float(r["more"])
            elif kind == "dual":
                self.dual.setdefault((problem, float(r["detail"]), float(r["more"]) > 0), {})[seed] = float(r["value"])
            elif kind == "memory":
                self.memory[problem, r["method"]] = float(r["value"])
            elif kind == "problem":
                self.sizes[problem] = [int(x) for x in r["detail"].split()]
            elif kind == "optimum":
                self.optima[problem] = (float(r["value"]), float(r["error"]), float(r["more"]))
        for by_seed in self.curves.values():
            for looks in by_seed.values():
                looks.sort()

    def runs(self, problem, method):
        found = self.curves.get((problem, method), {})
        return {seed: found[1] for seed in range(1, 101)} if method == "lbfgs" and 1 in found else found

    def number(self, looks, of):
        """`gap` or `error` after so many passes, `passes` or `seconds` to a level; None where the run ended before."""
        name, at = of.split(" ")
        at = float(at)
        if name in ("passes", "seconds"):
            return next((look[name == "seconds"] for look in looks if look[2] <= at), math.inf)
        if looks[-1][0] < 0.98 * at and 1e-6 < looks[-1][2] < math.inf:
            return None
        found = [look for look in looks if look[0] <= 1.02 * at]
        if not found:
            return math.inf
        return max(found[-1][2], FLOOR) if name == "gap" else found[-1][3]


def quotient(a, b):
    """Returns a / b, of costs: one that is never reached is infinite, and two that are alike have the quotient 1."""
    if a == b:
        return 1.0
    return math.inf if a == math.inf else 0.0 if b == math.inf else a / b if b else math.inf


def paired(part):
    return [(problem, a, b) for problem in part["problems"] for a in listed(part["a"]) for b in listed(part["b"]) if a != b]


def ratios(data, part, recipe):
    """For each seed, a's number over b's."""
    cells = []
    for problem, a, b in paired(part):
        if "smd" in (a, b) and problem != "letters":
            continue  # Dense in the weights: for small problems alone.
        first, second = data.runs(problem, a), data.runs(problem, b)
        numbers = [(data.number(first[s], part["of"]), data.number(second[s], part["of"])) for s in sorted(first.keys() & second.keys())]
        samples = tuple(quotient(x, y) for x, y in numbers if x is not None and y is not None)
        cells.append(Cell((TITLES[problem], a, b, part["of"]), samples, bounds(part), paired="ratio"))
    return cells


def closer(data, part, recipe):
    """For each seed, how far a and b are apart in seconds over how far in passes, as logarithms, to a level that both reach."""
    cells = []
    for problem, a, b in paired(part):
        first, second = data.runs(problem, a), data.runs(problem, b)
        samples = []
        for s in sorted(first.keys() & second.keys()):
            apart = [quotient(*(data.number(run[s], f"{name} {part['level']}") for run in (first, second))) for name in ("seconds", "passes")]
            if all(0 < x < math.inf for x in apart):
                samples.append(abs(math.log(apart[0])) / abs(math.log(apart[1])) if apart[1] != 1 else math.inf)
        cells.append(Cell((TITLES[problem], a, b), tuple(samples), bounds(part)))
    return cells


def dominated(data, part, recipe):
    """For each seed, the largest, over the problems, of a method's gap over the least of the others'."""
    cells = []
    for method in part["a"]:
        samples = []
        for seed in range(1, 101):
            found = {(p, m): data.number(data.runs(p, m)[seed], part["of"]) if seed in data.runs(p, m) else None
                     for p in part["problems"] for m in part["a"]}
            if None not in found.values():
                samples.append(max(quotient(found[p, method], min(found[p, m] for m in part["a"] if m != method)) for p in part["problems"]))
        cells.append(Cell((method, f"of {len(part['problems'])} problems"), tuple(samples), bounds(part)))
    return cells


def second_best(data, part, recipe):
    """For each seed, the test error after three passes with the second best step over that with the best, by the objective."""
    cells = []
    for problem in part["problems"]:
        for method in part["a"]:
            tries = [by_seed for (p, m), by_seed in data.curves.items() if p == problem and m.startswith(f"{method}-try ")]
            samples = []
            for seed in sorted(set().union(*tries)):
                ends = sorted((looks[-1][2], looks[-1][3]) for by_seed in tries for s, looks in by_seed.items() if s == seed)
                if len(ends) == 5:
                    samples.append(quotient(ends[1][1], ends[0][1]))
            cells.append(Cell((TITLES[problem], method), tuple(samples), bounds(part)))
    return cells


def equal_seconds(data, part, recipe):
    """For each seed, a's gap over b's after the CPU seconds of so many passes of b."""
    cells = []
    for problem, a, b in paired(part):
        first, second = data.runs(problem, a), data.runs(problem, b)
        samples = []
        for s in sorted(first.keys() & second.keys()):
            gap = data.number(second[s], f"gap {part['passes']}")
            within = [look for look in second[s] if look[0] <= 1.02 * part["passes"]]
            if gap is None or not within:
                continue
            looks = [look for look in first[s] if look[1] <= within[-1][1]]
            samples.append(quotient(max(looks[-1][2], FLOOR) if looks else math.inf, gap))
        cells.append(Cell((TITLES[problem], a, b), tuple(samples), bounds(part)))
    return cells


def among_best(data, part, recipe):
    """For each seed, a's test error at the end over the least of any method's."""
    cells = []
    for problem in part["problems"]:
        for a in listed(part["a"]):
            samples = []
            for seed, looks in sorted(data.runs(problem, a).items()):
                ends = [data.runs(problem, m)[seed][-1][3] for m in METHODS if seed in data.runs(problem, m)]
                if len(ends) >= len(METHODS) - 1:
                    samples.append(quotient(looks[-1][3], min(ends)))
            cells.append(Cell((TITLES[problem], a), tuple(samples), bounds(part)))
    return cells


def duals(data, part, recipe):
    """For each seed, the duality gap after 20 passes with the penalty a over that with b, in units of 1/n."""
    cells = []
    for problem in part["problems"]:
        for a, b in part["penalties"]:
            first, second = (data.dual.get((problem, x, True), {}) for x in (a, b))
            samples = tuple(quotient(first[s], second[s]) for s in sorted(first.keys() & second.keys()))
            cells.append(Cell((TITLES[problem], f"{a:g}/n", f"{b:g}/n"), samples, bounds(part)))
    return cells


def printed(data, part, recipe):
    """The share of memory, to two digits, over what the source prints. Nothing is drawn."""
    return [Cell((TITLES[p], mode, f"printed {value:g}"), (float(f"{data.memory[p, mode]:.1e}") / value,) if (p, mode) in data.memory else (),
                 bounds(part), "fixed") for p, mode, value in part["printed"]]


def combinations(data, problem, method):
    """{seed: {(sampling, step): gap}} of the seeds that ran all that others did."""
    found = {}
    for (p, m, sampling, step), by_seed in data.grid.items():
        for seed, gap in by_seed.items() if (p, m) == (problem, method) else ():
            found.setdefault(seed, {})[sampling, step] = max(gap, FLOOR)
    most = max(map(len, found.values()), default=0)
    return {seed: cells for seed, cells in sorted(found.items()) if len(cells) == most}


def grid_least(data, part, recipe):
    """For each seed, the least gap of a sampling over all steps after 30 passes, over that at which one diverges."""
    return [Cell((part["method"], sampling), tuple(min(gap for (s, _), gap in cells.items() if s == sampling) / data.diverged["letters"]
                                                   for cells in combinations(data, "letters", part["method"]).values()), bounds(part))
            for sampling in part["samplings"]]


def grid_count(data, part, recipe):
    """For each seed, how many combinations of each sampling, or of all, do not diverge."""
    return [Cell((part["method"], names), tuple(float(sum(gap < data.diverged["letters"] for (s, _), gap in cells.items() if names in (s, "all")))
                                                for cells in combinations(data, "letters", part["method"]).values()), bounds(part))
            for names in part["samplings"]]


def grid_ratio(data, part, recipe):
    """For each seed, the gap of a combination over another's after 30 passes; b `others`: over the least of the rest of its method's."""
    cells = []
    for problem in part["problems"]:
        for a in listed(part["a"]):
            method, *key = a.split(" ")
            here = combinations(data, problem, method)
            for b in listed(part["b"]):
                if a == b:
                    continue
                other, *key_b = b.split(" ")
                there = here if b == "others" else combinations(data, problem, other)
                samples = []
                for s in sorted(here.keys() & there.keys()):
                    mine = here[s].get(tuple(key))
                    apart = {tuple(x.split(" ")[1:]) for x in listed(part["a"])}
                    if b == "others":
                        rest = min((gap for k, gap in here[s].items() if k not in apart), default=None)
                    else:
                        rest = there[s].get(tuple(key_b))
                    if mine is not None and rest is not None:
                        samples.append(quotient(mine, rest))
                cells.append(Cell((TITLES[problem], a, b), tuple(samples), bounds(part)))
    return cells


def grid_gap(data, part, recipe):
    """The gap of a combination after 30 passes over that at which it diverges."""
    return [Cell((TITLES[p], a), tuple(gap / data.diverged[p] for _, gap in sorted(data.grid.get((p, *a.split(" ")), {}).items())), bounds(part))
            for p in part["problems"] for a in listed(part["a"])]


MEASURES = {"ratio": ratios, "closer": closer, "dominated": dominated, "second_best": second_best, "equal_seconds": equal_seconds,
            "among_best": among_best, "dual": duals, "printed": printed, "grid_least": grid_least, "grid_count": grid_count,
            "grid_ratio": grid_ratio, "grid_gap": grid_gap}

# --- Running ---


def needs(part):
    """The jobs whose rows a part is judged by."""
    measure, problems = part["measure"], part.get("problems", ["letters"])
    if measure == "printed":
        return list(dict.fromkeys(f"start.{problem}" for problem, _, _ in part["printed"]))
    if measure == "dual":
        return [f"dual.{problem}" for problem in problems]
    if measure.startswith("grid"):
        named = listed(part["a"]) + listed(part.get("b", [])) if "a" in part else [part["method"]]
        wanted = {f"grid.{problem}.{name.split(' ')[0]}" for problem in problems for name in named}
        return [job for job in JOBS if job in wanted]
    named = METHODS if measure == "among_best" else listed(part["a"]) + listed(part.get("b", []))
    if any(name.startswith("sag-start") for name in named):
        return [f"start.{problem}" for problem in problems]
    groups = [group for group, methods in GROUPS.items() if any(name in methods for name in named)]
    return [f"race.{problem}.{group}" for problem in problems for group in groups]


def jobs(claims, seeds, place, again=False):
    have = set() if again else {(r["job"], r["seed"]) for r in rows.read("crf")}
    have |= set() if again else {tuple(path.stem.split("|")) for path in place.glob("*.txt")}
    wanted = dict.fromkeys((job, str(seed)) for claim in claims for seed in range(1, min(seeds or claim.seeds, claim.seeds) + 1)
                           for part in claim.parts for job in needs(part) if seed == 1 or not alone(job))
    return ["|".join(key) for key in sorted(wanted, key=lambda key: (int(key[1]), list(JOBS).index(key[0]))) if key not in have]


def run(lines, place, binaries, processes):
    place.mkdir(parents=True, exist_ok=True)

    def one(line):
        job, seed = line.split("|")
        done = subprocess.run([binaries / "reproduce_crf", f"--data={rows.sources()}", f"--seed={seed}", *JOBS[job]],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode or not done.stdout:
            print(f"run: {line} did not end", file=sys.stderr)
            return False
        scratch = place / f"{line}.part"
        scratch.write_text(done.stdout)
        scratch.rename(place / f"{line}.txt")
        return True

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        return all(list(pool.map(one, lines)))


def parse(job, seed, text):
    """Rows of a program's output."""
    out = []
    for fields in csv.reader(text.splitlines()):
        kind, problem, *rest = fields
        if kind == "problem":
            out.append([job, seed, kind, problem, "", " ".join(rest[:4]), "", "", "", "", ""])
        else:
            method, detail, _, *numbers = rest
            out.append([job, seed, kind, problem, method, detail, *numbers, *[""] * (5 - len(numbers))])
    return out


def pack(place, binaries, folder=rows.FOLDER):
    new = {path.stem: parse(*path.stem.split("|"), path.read_text()) for path in sorted(place.glob("*.txt"))}
    kept = [[r[c] for c in COLUMNS] for r in rows.read("crf", folder) if f"{r['job']}|{r['seed']}" not in new]
    rows.write("crf", COLUMNS, kept + [row for found in new.values() for row in found], folder)


def compare(folder, other):
    """Losses alone: seconds differ."""
    of = [{tuple(r[c] for c in COLUMNS[:7]): r["value"] for r in rows.read("crf", f)} for f in (folder, other)]
    both = of[0].keys() & of[1].keys()
    same = sum(of[0][key] == of[1][key] for key in both)
    return same, len(both) - same


def price(line):
    """CPU seconds, from the same job's rows with another seed."""
    seconds, last = {}, {}
    for r in rows.read("crf"):
        if r["job"] == line.split("|")[0] and r["seconds"]:
            key = (r["seed"], r["method"], r["detail"])
            last[key] = max(last.get(key, 0.0), float(r["seconds"]))
    for (seed, _, _), value in last.items():
        seconds[seed] = seconds.get(seed, 0.0) + value
    return f"{statistics.median(seconds.values()):.0f} CPU s of steps" if seconds else "no row tells its price"


# --- Pages ---


def races(data, x, column):
    """Panels of gaps or errors against passes or seconds: medians of the seeds at whole passes."""
    panels = []
    for problem in TITLES:
        lines = []
        for method in METHODS:
            by_seed, line = data.curves.get((problem, method), {}), []
            for k in range(1, PASSES[problem] + 1):
                points = [found[-1] for looks in by_seed.values() if looks[-1][0] >= k
                          for found in [[look for look in looks if look[0] <= k and look[2] < math.inf]] if found]
                if points:
                    values = [max(point[column], FLOOR) for point in points]
                    line.append((k if x == "passes" else statistics.median(p[1] for p in points), statistics.median(values), min(values), max(values)))
            lines.append(line)
        if any(lines):
            panels.append((TITLES[problem], lines))
    return panels


def figures(data):
    out = []
    for number, x, column in [("2.1", "passes", 2), ("2.3", "passes", 3), ("2.4", "seconds", 2), ("2.5", "seconds", 3)]:
        caption = f"Figure {number}: " + ("(f - f*) / f*" if column == 2 else "test error") + f" against {x}"
        panels = races(data, x, column)
        out.append((f"fig{number.replace('.', '_')}.svg", caption, svg.panels(caption, METHODS, panels) if panels else None))
    for number, method in zip(("2.6", "2.7", "2.8"), GRIDS):
        lines = []
        for sampling in SAMPLINGS:
            gaps = [[c[sampling, step] for c in combinations(data, "letters", method).values() if (sampling, step) in c] for step in STEPS]
            lines.append([(k + 1, statistics.median(g)) for k, g in enumerate(gaps) if g and statistics.median(g) < math.inf])
        caption = f"Figure {number}: gap of {method} on the letters after 30 passes by step ({', '.join(STEPS)}) and sampling"
        out.append((f"fig{number.replace('.', '_')}.svg", caption, svg.panels(f"Figure {number}", SAMPLINGS, [(method, lines)]) if any(lines) else None))
    return [*out, ("", "Figures 2.9 to 2.14, curves of the best combinations: the program keeps what they end with after 30 passes", None)]


def short(value, form="%.1f"):
    return "–" if value is None or value == math.inf else form % value


def summary(data):
    out = [f"{data.count} rows. Medians of the seeds; – : not reached, or no row.", ""]
    for problem, (sequences, tokens, weights, labels) in sorted(data.sizes.items()):
        known = data.optima.get(problem)
        out.append(f"- {TITLES[problem]}: {sequences:,} sequences, {tokens:,} tokens, {labels} labels, {weights:,} weights"
                   + (f"; h* = {known[0]:.3f}, proven to {known[2]:.1e}, test error there {100 * known[1]:.2f} %." if known else "."))
    out += ["", "| problem | method | seeds | passes to 1e-2 | 1e-4 | 1e-6 | CPU s to 1e-2 | 1e-4 | gap after 10 | 20 | test error after 3 | 10 | end |",
            "|" + "---|" * 13]
    for problem in TITLES:
        for method in [*METHODS, *sorted(m for p, m in data.curves if p == problem and m.startswith("sag-start"))]:
            by_seed = data.curves.get((problem, method), {})
            if not by_seed:
                continue

            def middle(of):
                numbers = [data.number(looks, of) for looks in by_seed.values()]
                numbers = [x for x in numbers if x is not None]
                return statistics.median_low(numbers) if numbers else None

            cells = [short(middle(f"{name} {level}"), form) for name, level, form in
                     [("passes", "1e-2", "%.1f"), ("passes", "1e-4", "%.1f"), ("passes", "1e-6", "%.1f"), ("seconds", "1e-2", "%.1f"),
                      ("seconds", "1e-4", "%.1f"), ("gap", "10", "%.1e"), ("gap", "20", "%.1e")]]
            errors = [middle("error 3"), middle("error 10"), statistics.median(looks[-1][3] for looks in by_seed.values())]
            cells += ["–" if e is None or e == math.inf else f"{100 * e:.2f} %" for e in errors]
            out.append(f"| {TITLES[problem]} | {method} | {len(by_seed)} | " + " | ".join(cells) + " |")
    for problem, method in sorted({key[:2] for key in data.grid}):
        found = combinations(data, problem, method)
        out += ["", f"{TITLES[problem]}, {method}: |f - f*| / f* after 30 passes, {len(found)} seeds; – : diverged by the source's rule, or not run.", "",
                "| | " + " | ".join(STEPS) + " |", "|" + "---|" * (len(STEPS) + 1)]
        for sampling in SAMPLINGS:
            gaps = [[c[sampling, step] for c in found.values() if (sampling, step) in c] for step in STEPS]
            out.append(f"| {sampling} | " + " | ".join(short(statistics.median_low(g) if g else None, "%.1e") for g in gaps) + " |")
    return out
