#!/usr/bin/env python3
"""Whole studies beside scikit-learn's LogisticRegressionCV: 40 strengths, five folds, two cores, reading included.

  bench/train/linear/studies.py DATA --bin build/release/bin --venv VENV [--only=a9a,w8a] [--solvers=lbfgs,liblinear]

VENV is a virtual environment that has scikit-learn; nothing is installed here. Without --venv only our rows are printed.
Both read the same unpacked LIBSVM text, leave columns as they are (no standardization), fit a free intercept (liblinear
penalises it), and validate on the same five folds, those of lib/data/split.h. l2 = 1/C lies in 1e-4 ... 1e4: theirs on
a logarithmic grid, ours where `algorithm: auto` looks. The loss is the mean over folds, weighted by their rows.

Wall seconds are of the whole process, from start to exit; Python's imports are not counted, because a notebook has made
them. CPU seconds are of all processes. "at our l2" is what scikit-learn has on these folds at the strength that we found,
trained to 1e-8: it says whether the two losses mean the same.
"""

import argparse
import json
import lzma
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time

PROBLEMS = ("a9a", "w8a", "mushrooms", "20news", "mnist")
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "liblinear", "sag", "saga")
OURS = (("as the service decides", None), ("gradient: true", "true"), ("gradient: false", "false"))
FOLDS = 5
STRENGTHS = 40
SPLIT_SEED = 1
SAME_LOSS = 1e-4
# XXH3 of "learn.split", the name of the stream that lib/data/split.cc draws from.
SPLIT_STREAM = 0x8F7EAFB8848790F3
MASK = 0xFFFFFFFF


# --- The problems as text ---


def unpacked(data, name):
    """Lines of LIBSVM text with labels of -1 and 1, those of linear_bench.cc."""
    if name == "mnist":
        images = lzma.open(os.path.join(data, "mnist/train-images-idx3-ubyte.xz")).read()[16:]
        labels = lzma.open(os.path.join(data, "mnist/train-labels-idx1-ubyte.xz")).read()[8:]
        value = [f"{p / 255:.4g}" for p in range(256)]
        for i, label in enumerate(labels):
            row = images[784 * i : 784 * (i + 1)]
            entries = " ".join(f"{j}:{value[p]}" for j, p in enumerate(row, 1) if p)
            yield f"{-1 if label < 5 else 1} {entries}\n"
        return
    path = {"20news": "20news/20news-tfidf.svm.xz", "mushrooms": "libsvm/mushrooms_onehot.xz"}.get(name, f"libsvm/{name}.xz")
    with lzma.open(os.path.join(data, path), "rt") as f:
        lines = [line.split(None, 1) for line in f if line.strip()]
    labels = sorted({float(line[0]) for line in lines})
    positive = set(labels[1::2])  # The larger of two; of twenty every second one.
    for label, *rest in lines:
        yield f"{1 if float(label) in positive else -1} {rest[0] if rest else chr(10)}"


def philox(c, k):
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = ((p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK)
        k = ((k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK)
    return c


def words(seed, i):
    """The 64-bit numbers of lib/base/random.h's stream (seed, "learn.split", i)."""
    key = philox((seed & MASK, seed >> 32, SPLIT_STREAM & MASK, SPLIT_STREAM >> 32), (0, 0))[:2]
    block = 0
    while True:
        w = philox((block, 0, i & MASK, i >> 32), key)
        block += 1
        yield w[0] | w[1] << 32
        yield w[2] | w[3] << 32


def fold_numbers(labels):
    """The fold of each row, as lib/data/split.cc deals them."""
    fold = [0] * len(labels)
    following = 0
    for k, label in enumerate(sorted(set(labels))):
        rows = [i for i, other in enumerate(labels) if other == label]
        stream = words(SPLIT_SEED, k)
        for size in range(len(rows), 1, -1):
            threshold = (2**64 - size) % size
            product = next(stream) * size
            while product & (2**64 - 1) < threshold:
                product = next(stream) * size
            other = product >> 64
            rows[size - 1], rows[other] = rows[other], rows[size - 1]
        for row in rows:
            fold[row] = following
            following = (following + 1) % FOLDS
    return fold


# --- Theirs: this file, run by the virtual environment's Python ---


def peer(path, folds_path, solver, check):
    import warnings

    import numpy
    import scipy
    import sklearn
    from sklearn.datasets import load_svmlight_file
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.metrics import log_loss
    from sklearn.model_selection import PredefinedSplit

    versions = f"scikit-learn {sklearn.__version__}, NumPy {numpy.__version__}, SciPy {scipy.__version__}"
    fold = numpy.array(json.load(open(folds_path)))
    weight = numpy.bincount(fold) / len(fold)
    start = time.perf_counter()
    cpu = cpu_seconds()
    x, y = load_svmlight_file(path)
    x.indices, x.indptr = x.indices.astype(numpy.int32), x.indptr.astype(numpy.int32)  # liblinear, sag and saga need it.
    answer = {"versions": versions}
    if check is None:
        model = LogisticRegressionCV(Cs=numpy.logspace(-4, 4, STRENGTHS), cv=PredefinedSplit(fold), solver=solver,
                                     scoring="neg_log_loss", n_jobs=2, refit=False, random_state=0,
                                     use_legacy_attributes=False, l1_ratios=(0.0,))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, y)
        answer["wall"] = time.perf_counter() - start
        answer["cpu"] = cpu_seconds() - cpu
        scores = numpy.asarray(model.scores_).reshape(FOLDS, STRENGTHS)
        losses = -(weight @ scores)
        answer["loss"] = float(losses.min())
        answer["l2"] = float(1 / numpy.logspace(-4, 4, STRENGTHS)[losses.argmin()])
        # Warnings of the processes that n_jobs starts do not come here; iterations do.
        answer["limit"] = int((numpy.asarray(model.n_iter_) >= model.max_iter).reshape(-1, STRENGTHS).any(axis=0).sum())
    else:
        loss = 0.0
        for k in range(FOLDS):
            # lbfgs stalls above such tolerances on long rows; Newton's method does not.
            model = LogisticRegression(C=1 / check, solver="newton-cg", tol=1e-8, max_iter=1000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(x[fold != k], y[fold != k])
            loss += weight[k] * log_loss(y[fold == k], model.predict_proba(x[fold == k]))
        answer["loss"] = float(loss)
    print(json.dumps(answer))


def cpu_seconds():
    """Of this process, its children that were waited for, and those that still run: joblib keeps its own."""
    total = sum(time.process_time() if who == resource.RUSAGE_SELF else sum(resource.getrusage(who)[:2])
                for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ticks = os.sysconf("SC_CLK_TCK")
    parents, spent = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(pid)] = int(fields[1])
        spent[int(pid)] = (int(fields[11]) + int(fields[12])) / ticks
    for pid in parents:
        above = parents.get(pid)
        while above and above != os.getpid():
            above = parents.get(above)
        if above:
            total += spent[pid]
    return total


# --- Ours ---

STUDY = """\
space:
  - {{name: l2, float: {{min: 1.0e-4, max: 1.0e4, scale: LOG}}}}
objective:
  builtin:
    model: logistic
    data: {data}
    split: {{folds: {folds}, seed: {seed}}}
    options: {{standardize: false, format: libsvm{gradient}}}
metric: {{name: validation_loss, goal: MINIMIZE}}
algorithm: {{auto: {{}}}}
budget: {{max_trials: {trials}, max_parallel: 2}}
seed: 1
"""


def ours(binaries, path, gradient, workers):
    """A new database, so nothing is cached. `workers`: what `luthier run` is told of processes and slots."""
    folder = tempfile.mkdtemp(prefix="studies-")
    try:
        study = os.path.join(folder, "study.yaml")
        with open(study, "w") as f:
            f.write(STUDY.format(data=os.path.basename(path), folds=FOLDS, seed=SPLIT_SEED, trials=STRENGTHS,
                                 gradient=f", gradient: {gradient}" if gradient else ""))
        database = os.path.join(folder, "db")
        run = [os.path.join(binaries, "luthier"), "run", study, "--db", database, "--data-root", os.path.dirname(path)]
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        start = time.perf_counter()
        done = subprocess.run(run + workers, capture_output=True, text=True)
        wall = time.perf_counter() - start
        # Children of `luthier` count with it: it waits for them.
        cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
        if done.returncode != 0:
            raise SystemExit(f"luthier run failed:\n{done.stderr}")
        listed = subprocess.run(run[:1] + ["trial", "list", "study", "--db", database, "-o", "json"], check=True,
                                capture_output=True, text=True)
        trials = [t for t in json.loads(listed.stdout) if t["state"] == "COMPLETE"]
        best = min(trials, key=lambda t: t["metrics"]["validation_loss"])
        ends = [t["training"]["outcome"] for t in trials if "outcome" in t.get("training", {})]
        return {"wall": wall, "cpu": cpu, "loss": best["metrics"]["validation_loss"], "l2": best["parameters"]["l2"],
                "limit": sum(end == "LIMIT" for end in ends) if ends else None}
    finally:
        shutil.rmtree(folder)


def cell(value, form):
    return "-" if value is None else format(value, form)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--peer":
        peer(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]) if len(sys.argv) > 5 else None)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="holds libsvm/, 20news/ and mnist/")
    parser.add_argument("--bin", default="build/release/bin", help="folder of luthier and luthier-worker")
    parser.add_argument("--venv", help="virtual environment with scikit-learn")
    parser.add_argument("--only", default=",".join(PROBLEMS))
    parser.add_argument("--solvers", default=",".join(SOLVERS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a solver of theirs is given up")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2,
                        help="ours: two workers of one slot (as luthier run has it), or one worker of two slots")
    parser.add_argument("--work", help="folder for the unpacked text; default: a temporary one")
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="studies-data-")
    os.makedirs(work, exist_ok=True)
    workers = ["--workers", "2"] if options.processes == 2 else ["--workers", "1", "--slots", "2"]
    version = subprocess.run([os.path.join(options.bin, "luthier-worker"), "--version"], capture_output=True, text=True).stdout
    print(f"{version.strip()}, {time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores", flush=True)
    for name in options.only.split(","):
        if name not in PROBLEMS:
            raise SystemExit(f"no problem {name}; there are {', '.join(PROBLEMS)}")
        path = os.path.join(work, f"{name}.svm")
        if not os.path.exists(path):
            with open(path + ".part", "w") as f:
                f.writelines(unpacked(options.data, name))
            os.rename(path + ".part", path)
        folds = os.path.join(work, f"{name}.folds.json")
        with open(path) as f:
            fold = fold_numbers([int(line.split(None, 1)[0]) for line in f])
        with open(folds, "w") as f:
            json.dump(fold, f)
        print(f"\n{name}: {len(fold)} rows, {os.path.getsize(path) / 1e6:.1f} MB of text\n\n"
              "| | wall, s | CPU, s | best loss | l2 | strengths at their limit |\n" + "| --- " * 6 + "|", flush=True)
        rows = []

        def show(label, row):
            rows.append((label, row))
            print(f"| {label} | {row['wall']:.2f} | {row['cpu']:.2f} | {row['loss']:.6f} | {row['l2']:.4g} | "
                  f"{cell(row['limit'], 'd')} |", flush=True)

        for label, gradient in OURS:
            show(f"luthier run, {label}", ours(options.bin, path, gradient, workers))
        if options.venv:
            def python(*arguments):
                command = [os.path.join(options.venv, "bin/python"), os.path.abspath(__file__), "--peer", path, folds]
                environment = dict(os.environ, OMP_NUM_THREADS="1")
                done = subprocess.run(command + list(arguments), capture_output=True, text=True, timeout=options.limit,
                                      env=environment)
                if done.returncode != 0:
                    raise SystemExit(f"scikit-learn failed:\n{done.stderr}")
                return json.loads(done.stdout)

            theirs = []
            for solver in options.solvers.split(","):
                if solver == "newton-cholesky" and name == "20news":
                    print(f"| {solver} | - | - | - | - | 75876 columns: its Hessian would take 46 GB |", flush=True)
                    continue
                try:
                    row = python(solver)
                except subprocess.TimeoutExpired:
                    print(f"| {solver} | > {options.limit:.0f} | - | - | - | - |", flush=True)
                    continue
                show(solver, row)
                theirs.append((row["wall"], solver, row))
            if theirs:
                least = min(row["loss"] for _, _, row in theirs + [(0, "", rows[0][1])])
                same = [t for t in theirs if t[2]["loss"] <= least + SAME_LOSS]
                fastest = min(same, default=None, key=lambda t: t[0])
                if fastest:
                    print(f"\nfastest of theirs within {SAME_LOSS:g} of the least loss: {fastest[1]}, {fastest[0]:.2f} s; "
                          f"ours takes {rows[0][1]['wall'] / fastest[0]:.2f} of it ({fastest[2]['versions']})")
                else:
                    print(f"\nnone of theirs is within {SAME_LOSS:g} of our loss")
                check = python("check", repr(rows[0][1]["l2"]))
                print(f"at our l2: {check['loss']:.6f} by scikit-learn, {rows[0][1]['loss']:.6f} by us")
        print(f"with gradients {rows[1][1]['wall'] / rows[2][1]['wall']:.2f} x the time without")
    if not options.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
