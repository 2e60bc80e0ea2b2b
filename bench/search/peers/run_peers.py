#!/usr/bin/env python3
"""Runs our search algorithms and their peers on the same functions, seeds, boxes and budgets.

  run_peers.py --build build/release --plan standard --ours "auto;random"

Peers come as packages from PyPI, each into an environment under BUILD/peers/envs (never the source tree or the home);
requirements/*.txt pin them. Results go to BUILD/peers/results, one file a (method, function, seed): a run that was
interrupted goes on where it stopped, and what is there is not computed again. One process at a time, one thread each.
A peer that cannot be installed, fails or runs out of time leaves a file that says why; report.py lists it. --retry tries
those again. --only takes a comma-separated list of peers.

Ours are run by search_bench with the same seeds, and like the peers without gradients; their results are kept apart for each build of it, so after a change
they are computed anew and the peers' are not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from methods import PEERS, write_whole  # noqa: E402

FUNCTIONS = (
    "branin camel goldstein_price michalewicz2 michalewicz5 michalewicz10 "
    "rosenbrock2 rosenbrock3 rosenbrock4 rosenbrock5 hartmann3 hartmann6"
).split()
# In no target and no claim of the design: chosen before they were run. Always in boxes moved by the seed.
WIDE = (
    "ackley4_rotated ackley10 griewank5_rotated levy10_rotated rastrigin4 rosenbrock7 styblinski_tang6 sparse25"
).split()
# Both numeric libraries and their thread pools, so that CPU time is that of one thread.
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS".split()
    )
}


@dataclass(frozen=True)
class Part:
    """Some peers on some functions. Shifted: in boxes moved by the run's seed."""

    peers: tuple[str, ...]
    functions: tuple[str, ...]
    seeds: int
    evaluations: int
    shifted: bool = False


CHEAP = ("dlib", "direct", "direct_l", "direct_l_rand", "lbfgsb", "cmaes", "tpe")
GRADIENT_FREE = tuple(peer for peer in CHEAP if peer != "lbfgsb")
ALL = tuple(FUNCTIONS)
TWO = ("branin", "hartmann6")
FOUR = ("branin", "michalewicz5", "rosenbrock4", "hartmann6")
# In order of running: what is dear comes late, and gets fewer seeds, functions and evaluations.
PLANS: dict[str, tuple[Part, ...]] = {
    "quick": (Part(CHEAP, TWO, 3, 100),),
    "standard": (
        Part(CHEAP, ALL, 10, 200),
        Part(("optuna_gp_det", "optuna_gp"), ("hartmann6",), 3, 200),
        Part(("botorch",), ("hartmann6",), 1, 200),
        Part(("optuna_gp_det",), ALL, 3, 200),
        Part(CHEAP, ALL, 10, 200, shifted=True),
        Part(GRADIENT_FREE, tuple(WIDE), 10, 200, shifted=True),
        Part(("optuna_gp_det",), tuple(WIDE), 3, 200, shifted=True),
        Part(("bayes_opt", "skopt", "smac"), ("hartmann6",), 1, 100),
        # Seconds an evaluation and more: fifty, on one easy function and three hard ones.
        Part(("bayes_opt", "optuna_gp", "skopt", "botorch"), FOUR, 3, 50),
        Part(("bayes_opt",), ALL, 3, 50),
        Part(("smac", "hebo"), TWO, 1, 50),
    ),
    # Hours.
    "full": (
        Part(CHEAP, ALL, 10, 200),
        Part(CHEAP, ALL, 10, 200, shifted=True),
        Part(GRADIENT_FREE, tuple(WIDE), 10, 200, shifted=True),
        Part(("optuna_gp_det", "optuna_gp", "bayes_opt"), ALL, 10, 200),
        Part(("optuna_gp_det",), ALL, 10, 200, shifted=True),
        Part(("botorch", "skopt", "smac", "hebo"), ALL, 3, 200),
    ),
}
OUR_SEEDS = 10
OUR_EVALUATIONS = 200


def output_of(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def clock_mhz() -> float:
    found = re.findall(r"cpu MHz\s*:\s*([0-9.]+)", Path("/proc/cpuinfo").read_text())
    return float(found[0]) if found else float("nan")


def slug(text: str) -> str:
    """A file name for an algorithm's text; different texts get different names."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    return plain if plain == text else f"{plain[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class Environments:
    """The peers' virtual environments, made when first needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.failures: dict[str, str] = {}

    def python(self, name: str) -> Path | None:
        """The environment's interpreter, or None when it cannot be made (failures has the reason)."""
        requirements = HERE / "requirements" / f"{name}.txt"
        folder = self._root / name
        stamp = folder / "installed.sha256"
        digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
        python = folder / "bin" / "python"
        if name in self.failures:
            return None
        if not (stamp.exists() and stamp.read_text() == digest):
            print(f"installing {name} ({len(requirements.read_text().splitlines())} packages)", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            cache = self._root / "pip-cache"
            for command in (
                [sys.executable, "-m", "venv", str(folder)],
                [str(python), "-m", "pip", "install", "-q", "--cache-dir", str(cache), "-r", str(requirements)],
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
                    self.failures[name] = lines[-1][:300]
                    return None
            stamp.write_text(digest)
        return python


@dataclass
class Runner:
    build: Path
    results: Path
    retry: bool
    limit_minutes: float
    nice: int

    def _missing(self, folder: Path, function: str, seeds: int, evaluations: int) -> list[int]:
        result = []
        for seed in range(seeds):
            stem = f"{function}-s{seed}-n{evaluations}"
            failed = folder / f"{stem}.failed"
            if self.retry:
                failed.unlink(missing_ok=True)
            if not (folder / f"{stem}.csv").exists() and not failed.exists():
                result.append(seed)
        return result

    def _run(self, command: list[str]) -> str:
        """The reason of a failure, or nothing."""
        environment = os.environ | ONE_THREAD
        process = subprocess.Popen(
            ["nice", "-n", str(self.nice), *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=60.0 * self.limit_minutes)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # Its own function_server included.
            process.communicate()
            return f"not done after {self.limit_minutes:g} minutes"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode == 0:
            return ""
        lines = output.strip().splitlines() or ["no message"]
        return f"exit status {process.returncode}: {lines[-1][:300]}"

    def peers(self, part: Part, environments: Environments, only: set[str]) -> None:
        for peer in part.peers:
            if only and peer not in only:
                continue
            folder = self.results / peer
            for plain in part.functions:
                function = plain + ("+shift" if part.shifted else "")
                seeds = self._missing(folder, function, part.seeds, part.evaluations)
                if not seeds:
                    continue
                python = environments.python(PEERS[peer].environment)
                if python is None:
                    return
                begin = time.monotonic()
                reason = self._run(
                    [str(python), str(HERE / "methods.py"), "--server", str(self.build / "bin" / "function_server")]
                    + ["--peer", peer, "--function", function, "--seeds", ",".join(map(str, seeds))]
                    + ["--evaluations", str(part.evaluations), "--out", str(folder)]
                )
                print(f"{peer} {function} x{len(seeds)}: {time.monotonic() - begin:.0f} s {reason}", flush=True)
                if reason:
                    for seed in self._missing(folder, function, part.seeds, part.evaluations):
                        write_whole(folder / f"{function}-s{seed}-n{part.evaluations}.failed", reason + "\n")

    def ours(self, algorithm: str, root: Path) -> None:
        folder = root / slug(algorithm)
        folder.mkdir(parents=True, exist_ok=True)
        for shift in (False, True):
            for plain in FUNCTIONS + WIDE * shift:
                function = plain + ("+shift" if shift else "")
                for seed in self._missing(folder, function, OUR_SEEDS, OUR_EVALUATIONS):
                    path = folder / f"{function}-s{seed}-n{OUR_EVALUATIONS}"
                    partial = path.with_name(path.name + ".partial")
                    reason = self._run(
                        [str(self.build / "bin" / "search_bench"), f"--algorithms={algorithm}", f"--functions={plain}"]
                        + ["--seeds=1", f"--first_seed={seed}", f"--evaluations={OUR_EVALUATIONS}"]
                        + [f"--shift={str(shift).lower()}", f"--csv={partial}"]
                    )
                    if reason:
                        write_whole(path.with_name(path.name + ".failed"), reason + "\n")
                        partial.unlink(missing_ok=True)
                    else:
                        partial.rename(path.with_name(path.name + ".csv"))
            print(f"{algorithm}{' shifted' if shift else ''}: done", flush=True)


def verify(server: Path) -> None:
    """Evaluations come from our own code: what is checked is that nothing is lost on the way."""
    from methods import Function

    for name in FUNCTIONS:
        for function in (name, name + "+shift"):
            f = Function(server, function, seed=3, evaluations=10)
            x = f.initial(1)[0]
            value, slope = f.with_gradient(x)
            for j in range(f.dim):
                step = 1e-6 * (f.upper[j] - f.lower[j])
                up, down = list(x), list(x)
                up[j], down[j] = min(x[j] + step, f.upper[j]), max(x[j] - step, f.lower[j])
                f.evaluations += 2
                difference = (f(up) - f(down)) / (up[j] - down[j])
                if abs(difference - slope[j]) > 1e-4 * max(1.0, abs(slope[j]), abs(value)):
                    raise SystemExit(f"{function}: slope {j} is {slope[j]}, by differences {difference}")
            if value < f.minimum:
                raise SystemExit(f"{function}: {value} is below the minimum {f.minimum}")
            f.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE.parents[2] / "build" / "release")
    parser.add_argument("--plan", choices=sorted(PLANS), default="standard")
    parser.add_argument("--ours", default="auto", help="algorithms as search_bench takes them, separated by ';'")
    parser.add_argument("--only", default="", help="these peers; 'none' for ours alone")
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("--limit_minutes", type=float, default=60.0, help="for one peer on one function")
    parser.add_argument("--nice", type=int, default=10)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Takes the running peer along.

    build = args.build.resolve()
    results = build / "peers" / "results"
    environments = Environments(build / "peers" / "envs")
    runner = Runner(build, results, args.retry, args.limit_minutes, args.nice)
    manifest_path = results / "manifest.json"
    loads: list[float] = json.loads(manifest_path.read_text())["loads"] if manifest_path.exists() else []
    loads.append(os.getloadavg()[0])
    verify(build / "bin" / "function_server")

    bench = build / "bin" / "search_bench"
    ours_root = results / "ours" / hashlib.sha256(bench.read_bytes()).hexdigest()[:12]
    version = ours_root / "version.txt"  # Of the library when this build of search_bench was first seen.
    if not version.exists():
        write_whole(version, output_of(["git", "-C", str(HERE.parents[2]), "log", "-1", "--format=%h", "--", "lib"]))
    # Random search is what every other method has to beat.
    algorithms = list(dict.fromkeys(a.strip() for a in args.ours.split(";") if a.strip()))
    if not algorithms:
        raise SystemExit("--ours names no algorithm")
    for algorithm in dict.fromkeys([*algorithms, "random"]):
        runner.ours(algorithm, ours_root)
    only = {name for name in args.only.split(",") if name}
    if unknown := only - set(PEERS) - {"none"}:
        raise SystemExit(f"--only: there is no {', '.join(sorted(unknown))}; there are {', '.join(sorted(PEERS))}")

    def write_manifest() -> None:
        loads.append(os.getloadavg()[0])
        manifest = {
            "plan": args.plan,
            "parts": [vars(part) for part in PLANS[args.plan]],
            "ours": algorithms,
            "ours_folder": str(ours_root.relative_to(results)),
            "ours_seeds": OUR_SEEDS,
            "ours_evaluations": OUR_EVALUATIONS,
            "ours_version": version.read_text(),
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "clock_mhz": clock_mhz(),
            "loads": loads,  # Before, and after each part; runs that were interrupted add theirs.
            "system": platform.platform(),
            "python": platform.python_version(),
            "environment_failures": environments.failures,
            "peers": {n: {"title": p.title, "start": p.start, "environment": p.environment} for n, p in PEERS.items()},
            "versions": {
                p.stem: p.read_text().split() for p in sorted((HERE / "requirements").glob("*.txt"))
            },
        }
        write_whole(manifest_path, json.dumps(manifest, indent=1) + "\n")

    write_manifest()
    for part in PLANS[args.plan]:
        runner.peers(part, environments, only)
        write_manifest()


if __name__ == "__main__":
    main()
