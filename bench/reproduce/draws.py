"""Experiments of which a run is one row of numbers: a setting, a method, a draw by a seed, and losses at its end."""

import concurrent.futures
import csv
import math
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys

import rows
from verdict import Cell, bounds

HERE = pathlib.Path(__file__).resolve().parent


def listed(value):
    return value if isinstance(value, list) else [value]


class Data:
    def __init__(self, table):
        self.found = {}  # (setting, method) -> {seed: {column: number}}
        for row in table:
            numbers = {name: float(value) for name, value in row.items() if name not in ("setting", "method", "seed") and value != ""}
            self.found.setdefault((row["setting"], row["method"]), {})[int(row["seed"])] = numbers

    def column(self, setting, method, name):
        return {seed: row[name] for seed, row in self.found.get((setting, method), {}).items() if name in row}


def compared(data, part, make, paired):
    """For each seed that both ended, what `make` makes of a's number and b's."""
    cells = []
    for setting in part["settings"]:
        for a in listed(part["a"]):
            for b in listed(part["b"]):
                first, second = data.column(setting, a, part["of"]), data.column(setting, b, part.get("of_b", part["of"]))
                samples = tuple(make(first[s], second[s]) for s in sorted(first.keys() & second.keys()))
                what = [part["of"], part["of_b"]] if "of_b" in part else [part["of"]]
                cells.append(Cell((setting, a, b, *what), samples, bounds(part), paired=paired))
    return cells


def ratios(data, part, recipe):
    return compared(data, part, lambda a, b: a / b if b else math.inf, "ratio")


def differences(data, part, recipe):
    return compared(data, part, lambda a, b: a - b, "difference")


def numbers(data, part, recipe, kind="median"):
    """The number of each seed."""
    return [Cell((setting, a), tuple(number for _, number in sorted(data.column(setting, a, part["of"]).items())), bounds(part), kind)
            for setting in part["settings"] for a in listed(part["a"])]


def every(data, part, recipe):
    """The number of each seed; all must keep the bound."""
    return numbers(data, part, recipe, "exact")


def published(data, part, recipe):
    """For each seed, the number over the source's mean."""
    cells = []
    for setting, method, mean in part["published"]:
        column = data.column(setting, method, part["of"])
        cells.append(Cell((setting, method, f"published {mean:g}"), tuple(column[s] / mean for s in sorted(column)), bounds(part)))
    return cells


def shares(data, part, recipe):
    """The share of seeds whose number is at most `limit`."""
    cells = []
    for setting in part["settings"]:
        for a in listed(part["a"]):
            column = data.column(setting, a, part["of"])
            cells.append(Cell((setting, a), tuple(float(column[s] <= part["limit"]) for s in sorted(column)), bounds(part), "share"))
    return cells


def needs(part):
    if "published" in part:
        return [(setting, method) for setting, method, _ in part["published"]]
    methods = [*listed(part["a"]), *listed(part.get("b", []))]
    return [(setting, method) for setting in part["settings"] for method in methods]


class Family:
    """`columns` follow setting, method and seed; `command` makes the arguments of a run from those and the programs'
    folder, and `parse` its numbers from its output, None where it did not end. No process of a run may take more than
    `limit` CPU seconds: a busy machine changes nothing."""

    MEASURES = {"ratio": ratios, "difference": differences, "number": numbers, "published": published, "share": shares, "every": every}

    def __init__(self, name, columns, command, parse, limit=600, shown=()):
        self.name, self.columns, self.command, self.parse = name, ["setting", "method", "seed", *columns], command, parse
        self.limit, self.shown = limit, shown

    def Data(self, folder=rows.FOLDER):
        return Data(rows.read(self.name, folder))

    def jobs(self, claims, seeds, place, again=False):
        have = set() if again else {(r["setting"], r["method"], r["seed"]) for r in rows.read(self.name)}
        have |= set() if again else {tuple(path.stem.split("|")) for path in place.glob("*.txt")}
        wanted = dict.fromkeys((setting, method, str(seed)) for claim in claims
                               for seed in range(1, min(seeds or claim.seeds, claim.seeds) + 1)
                               for part in claim.parts for setting, method in needs(part))
        return ["|".join(key) for key in wanted if key not in have]

    def run(self, lines, place, binaries, processes):
        place.mkdir(parents=True, exist_ok=True)

        def one(line):
            setting, method, seed = line.split("|")
            done = subprocess.run(self.command(setting, method, int(seed), binaries), stdout=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit + 1)))
            text = done.stdout if done.returncode == 0 else ""
            if not text:
                print(f"run: {line} did not end", file=sys.stderr)
            if done.returncode in (-signal.SIGINT, -signal.SIGTERM):
                return False
            (place / f"{line}.txt").write_text(text)  # What did not end is kept, too: it would not end the next time either.
            return True

        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            return all(list(pool.map(one, lines)))

    def pack(self, place, binaries, folder=rows.FOLDER):
        table = {(r["setting"], r["method"], r["seed"]): [r[c] for c in self.columns] for r in rows.read(self.name, folder)}
        for path in sorted(place.glob("*.txt")):
            key = tuple(path.stem.split("|"))
            numbers = self.parse(path.read_text())
            if numbers is not None:
                table[key] = [*key, *numbers]
        rows.write(self.name, self.columns, table.values(), folder)

    def compare(self, folder, other):
        """Losses alone, to four digits: seconds differ, and so do last digits on another processor."""
        of = [{(r["setting"], r["method"], r["seed"]): [v for c, v in list(r.items())[3:] if c != "seconds"] for r in rows.read(self.name, f)}
              for f in (folder, other)]

        def alike(x, y):
            return x == y or (x != "" and y != "" and math.isclose(float(x), float(y), rel_tol=1e-4, abs_tol=1e-8))

        both = of[0].keys() & of[1].keys()
        same = sum(all(map(alike, of[0][key], of[1][key])) for key in both)
        return same, len(both) - same

    def figures(self, data):
        return []

    def summary(self, data):
        """Means of what is shown, by setting and method."""
        out = [f"Means ± deviations over the draws that ended; {sum(map(len, data.found.values()))} rows.", ""]
        out += ["| setting | method | draws | " + " | ".join(self.shown) + " |", "|---|---|---|" + "---|" * len(self.shown)]
        for (setting, method), by_seed in sorted(data.found.items()):
            cells = []
            for name in self.shown:
                values = [row[name] for row in by_seed.values() if name in row]
                cells.append(f"{statistics.mean(values):.3g} ± {statistics.pstdev(values):.2g}" if values else "–")
            out.append(f"| {setting} | {method} | {len(by_seed)} | " + " | ".join(cells) + " |")
        return out


# --- VF-iDCA (Gao et al. 2022) ---

VF_COLUMNS = ["seconds", "models", "iterate_validation", "iterate_test", "refit_validation", "refit_test", "degenerate", "gap"]
VF_SETTINGS = {
    "elastic net, 20 validation rows": ["elastic_net", 100, 20, 250, 250, 0],
    "elastic net, 100 validation rows": ["elastic_net", 100, 100, 250, 250, 0],
    "elastic net, 2500 columns": ["elastic_net", 100, 100, 100, 2500, 0],
    "30 groups": ["sparse_group_lasso", 100, 100, 100, 600, 30],
    "300 groups": ["sparse_group_lasso", 100, 100, 100, 600, 300],
    "300 groups, 1200 columns": ["sparse_group_lasso", 100, 100, 100, 1200, 300],
    "matrices": None,
}


def vf_command(setting, method, seed, binaries):
    if VF_SETTINGS[setting] is None:
        return [binaries / "matrix_experiment", f"--method={method}", f"--seed={seed}"]
    problem, train, validation, test, columns, groups = VF_SETTINGS[setting]
    return [binaries / "vf_idca_experiment", f"--problem={problem}", f"--method={method}", f"--train={train}",
            f"--validation={validation}", f"--test={test}", f"--columns={columns}", f"--groups={groups or 30}", f"--seed={seed}"]


def vf_parse(text):
    fields = next(csv.reader(text.splitlines()), [])
    return fields[-len(VF_COLUMNS):] if len(fields) == 15 else None


VF = Family("vf_idca", VF_COLUMNS, vf_command, vf_parse,
            shown=["seconds", "models", "degenerate", "iterate_validation", "iterate_test", "refit_validation", "refit_test"])

# --- A decay for each input (Bengio 2000) ---


def bengio_command(setting, method, seed, binaries):
    if setting == "inverse of 6 x 6":
        return [sys.executable, HERE / "bengio" / "equations.py", "--draw", str(seed), "--equation", method]
    if setting == "volatility":
        return [sys.executable, HERE / "bengio" / "volatility.py", "--draw", str(seed), "--method", method]
    return [sys.executable, HERE / "bengio" / "soft_selection.py", binaries / "luthier", "--rows", re.match(r"\d+", setting)[0],
            "--draw", str(seed), "--method", method]


def bengio_parse(text):
    fields = next(csv.reader(text.splitlines()), [])
    return fields[2:4] if len(fields) == 4 else None


BENGIO = Family("bengio", ["seconds", "loss"], bengio_command, bengio_parse, shown=["seconds", "loss"])

# --- Harmonica (Hazan et al. 2018) ---

HARMONICA_COLUMNS = ["seconds", *[f"{what}_{n}" for what in ("value", "truth") for n in (100, 300, 700, 1400)],
                     "stage_1", "stage_2", "stage_3", "base", "terms", "singles", "dummies"]


def harmonica_command(setting, method, seed, binaries):
    return [sys.executable, HERE / "harmonica" / "one_run.py", binaries / "harmonica_experiment", setting, method, str(seed)]


def harmonica_parse(text):
    run = next(csv.DictReader(text.splitlines()), None)
    return [run[name] for name in HARMONICA_COLUMNS] if run else None


HARMONICA = Family("harmonica", HARMONICA_COLUMNS, harmonica_command, harmonica_parse,
                   shown=["truth_100", "truth_300", "truth_700", "truth_1400", "stage_1", "stage_2", "stage_3", "base", "seconds"])
