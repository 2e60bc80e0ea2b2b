"""Growing batches, mixed steps and support vectors by `luthier-reproduce-svrg`: a row is what is in hand from some pass on."""

import math
import statistics
import subprocess

import rows
import svg
from draws import bounds, listed
from verdict import Cell

LOOKS, REACH, PROBLEMS = "linear_looks", "linear_reach", "linear_problems"
KEYS = ["data", "loss", "variant", "seed"]
LOOK_COLUMNS = [*KEYS, "passes", "gap", "error"]
LEVELS = ["1e-2", "1e-3", "1e-4", "1e-6", "error"]
PROBLEM_COLUMNS = ["data", "loss", "rows", "columns", "entries", "test_rows", "optimum", "optimum_error", "spread", "tested"]
SETS = ["a9a", "w8a", "mushrooms", "spambase", "sparse", "20news", "MNIST"]  # By what a run costs.
LOSSES = {"logistic": "logistic loss", "hsvm": "Huberized hinge"}
EVERY, LAST = 0.5, 20.0  # Passes between looks, and of a run.


class Data:
    def __init__(self, folder=rows.FOLDER):
        self.problems = {(r["data"], r["loss"]): r for r in rows.read(PROBLEMS, folder)}
        self.looks = {}  # (data, loss, variant) -> {seed: [(passes, gap, error), …]}, a look from where either changes
        for r in sorted(rows.read(LOOKS, folder), key=lambda r: float(r["passes"])):
            by_seed = self.looks.setdefault((r["data"], r["loss"], r["variant"]), {})
            by_seed.setdefault(int(r["seed"]), []).append((float(r["passes"]), float(r["gap"]), float(r["error"])))
        self.reach = {}
        for r in rows.read(REACH, folder):
            self.reach.setdefault((r["data"], r["loss"], r["variant"]), {})[int(r["seed"])] = {k: float(r[k]) for k in LEVELS}

    def at(self, key, seed, passes):
        """(gap, error) in hand after so many passes."""
        found = [look for look in self.looks[key][seed] if look[0] <= passes]
        return found[-1][1:]

    def number(self, key, seed, of):
        """`gap` or `error`: after `of[1]` passes; `mean error`: over all looks."""
        if of == "mean error":
            return statistics.mean(self.at(key, seed, EVERY * k)[1] for k in range(1, round(LAST / EVERY) + 1))
        name, passes = of.split(" ")
        return self.at(key, seed, float(passes))[0 if name == "gap" else 1]


def settings(part):
    """(data, loss) of a part."""
    return [(name, loss) for name in part.get("data", SETS) for loss in part.get("losses", list(LOSSES))]


def pairs(data, part):
    """((data, loss), key of a, key of b, seeds of both)."""
    for name, loss in settings(part):
        a, b = (name, loss, part["a"]), (name, loss, part["b"])
        yield (name, loss), a, b, sorted(data.looks.get(a, {}).keys() & data.looks.get(b, {}).keys())


def ratios(data, part, recipe):
    """For each seed, a's number over b's."""
    return [Cell((name, LOSSES[loss], part["a"], part["b"]),
                 tuple(data.number(a, s, part["of"]) / data.number(b, s, part["of"]) for s in seeds), bounds(part), paired="ratio")
            for (name, loss), a, b, seeds in pairs(data, part)]


def effects(data, part, recipe):
    """For each seed, how far a and b are apart in test error over how far in the gap, as logarithms; errors + 1e-4."""
    cells = []
    for (name, loss), a, b, seeds in pairs(data, part):
        samples = []
        for s in seeds:
            (gap_a, error_a), (gap_b, error_b) = data.at(a, s, part["passes"]), data.at(b, s, part["passes"])
            gap, error = abs(math.log(gap_a / gap_b)), abs(math.log((error_a + 1e-4) / (error_b + 1e-4)))
            samples.append(error / gap if gap > 0 else math.inf)
        cells.append(Cell((name, LOSSES[loss]), tuple(samples), bounds(part)))
    return cells


MEASURES = {"ratio": ratios, "effect": effects}

# --- Running ---


def jobs(claims, seeds, place, again=False):
    have = {}
    for r in [] if again else rows.read(REACH):
        have[r["data"]] = max(have.get(r["data"], 0), int(r["seed"]))
    wanted = {}
    for claim in claims:
        for part in claim.parts:
            for name, _ in settings(part):
                wanted[name] = max(wanted.get(name, 0), min(seeds or claim.seeds, claim.seeds))
    return [f"{name}|{wanted[name]}" for name in SETS if name in wanted
            if wanted[name] > have.get(name, 0) and not (place / f"{name}|{wanted[name]}.txt").exists()]


def run(lines, place, binaries, processes):
    place.mkdir(parents=True, exist_ok=True)
    ok = True
    for line in lines:
        name, seeds = line.split("|")
        done = subprocess.run([binaries / "luthier-reproduce-svrg", f"--data={rows.sources()}", f"--only={name}",
                               f"--seeds={seeds}", f"--long_passes={100 if name in ('20news', 'MNIST') else 300}"],
                              stdout=subprocess.PIPE, text=True)
        ok = ok and done.returncode == 0
        if done.returncode == 0 and done.stdout:
            (place / f"{line}.txt").write_text(done.stdout)
    return ok


def parse(text):
    """(looks, reach, problems) of a program's output."""
    looks, reach, problems, before = [], [], [], None
    for line in text.splitlines():
        kind, *fields = line.split(",")
        if kind == "look":
            if before is None or before[:4] != fields[:4] or before[5:] != fields[5:]:
                looks.append(fields)
            before = fields
        elif kind == "reach":
            reach.append(fields)
        elif kind == "problem":
            problems.append(fields)
    return looks, reach, problems


def pack(place, binaries, folder=rows.FOLDER):
    new = [parse(path.read_text()) for path in sorted(place.glob("*.txt"))]
    fresh = {row[0] for _, _, problems in new for row in problems}
    for k, (table, columns) in enumerate([(LOOKS, LOOK_COLUMNS), (REACH, [*KEYS, *LEVELS]), (PROBLEMS, PROBLEM_COLUMNS)]):
        kept = [[r[c] for c in columns] for r in rows.read(table, folder) if r["data"] not in fresh]
        rows.write(table, columns, kept + [row for found in new for row in found[k]], folder)


def compare(folder, other):
    of = [{tuple(r[c] for c in LOOK_COLUMNS[:5]): r["gap"] for r in rows.read(LOOKS, f)} for f in (folder, other)]
    both = of[0].keys() & of[1].keys()
    same = sum(of[0][key] == of[1][key] for key in both)
    return same, len(both) - same


# --- Pages ---


def figures(data):
    out = []
    for number, loss, column in [("3.2", "logistic", "gap"), ("3.3", "logistic", "error"), ("3.4", "hsvm", "gap"), ("3.5", "hsvm", "error")]:
        variants = ["full", "grow", "mixed"] + ([f"{v}-sv" for v in ("full", "grow", "mixed")] if loss == "hsvm" else [])
        caption = f"Figure {number}: {LOSSES[loss]}, " + ("(f - f*) / f*" if column == "gap" else "test error") + " against passes"
        panels = []
        for name in SETS:
            if any((name, loss, v) not in data.looks for v in variants):
                continue
            lines = []
            for variant in variants:
                runs, line = data.looks[name, loss, variant], []
                for k in range(1, 21):
                    values = [max(data.at((name, loss, variant), seed, k)[column == "error"], 1e-7) for seed in runs]
                    line.append((k, statistics.mean(values), min(values), max(values)))
                lines.append(line)
            panels.append((name, lines))
        picture = svg.panels(caption, variants, panels) if panels else None
        out.append((f"fig{number.replace('.', '_')}.svg", caption + "; mean, least and largest of the seeds", picture))
    return out


def summary(data):
    out = ["Medians of the seeds; passes to a level beyond 20 are of seed 1, which goes on; – : not reached.", "",
           "| data | loss | variant | seeds | gap after 1 | 5 | 20 | test error after 1 | 5 | 20 | passes to 1e-2 | 1e-4 | 1e-6 |",
           "|" + "---|" * 13]
    for key, by_seed in sorted(data.looks.items()):
        cells = [f"{statistics.median(data.number(key, s, f'gap {p}') for s in by_seed):.1e}" for p in (1, 5, 20)]
        cells += [f"{100 * statistics.median(data.number(key, s, f'error {p}') for s in by_seed):.2f} %" for p in (1, 5, 20)]
        for level in ("1e-2", "1e-4", "1e-6"):
            median = statistics.median(r[level] for r in data.reach[key].values())
            passes = median if math.isfinite(median) else data.reach[key].get(1, {}).get(level, math.inf)
            cells.append(f"{passes:.1f}" if math.isfinite(passes) else "–")
        out.append(f"| {key[0]} | {LOSSES[key[1]]} | {key[2]} | {len(by_seed)} | " + " | ".join(cells) + " |")
    return out
