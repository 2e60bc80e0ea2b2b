"""The claims, each a function from results to a Verdict. Checks are those of the design; what they leave open is said
in the texts here. `H-` explores every fourth trial, `old` is the thesis' full recipe (hyperparameters by MCMC, Thompson
sampling on 100 Fourier features)."""

import random
import statistics

import wilcoxon
from results import MIN_SEEDS, SAME, TINY

ACQUISITIONS = ["ei", "pi", "ucb", "ts"]
REPRODUCED, NOT_REPRODUCED, NOT_JUDGED = "reproduced", "not reproduced", "not judged"


# Claims judged by cells of PI with a margin of 0.05 deviations, which equation 4.3 of the thesis does not have.
PI_HAS_A_MARGIN = {"CS2", "CS5", "CS9", "CS10", "CS11", "CS13", "CS14", "CS15", "CS18", "Bounds"}


class Verdict:
    def __init__(self, claim, statement, check, verdict, summary, columns=None, rows=None):
        self.claim, self.statement, self.check = claim, statement, check
        self.verdict, self.summary = verdict, summary
        self.columns, self.rows = columns or [], rows or []


def say(passed):
    return NOT_JUDGED if passed is None else REPRODUCED if passed else NOT_REPRODUCED


def number(value):
    return "–" if value is None else f"{value:.2g}"


def cells(c):
    """Medians, ratio and one-sided p of a comparison, for a table."""
    if c is None:
        return ["–", "–", "–", "–", "–"]
    return [number(c.a), number(c.b), number(c.ratio), f"{c.p_better:.3f}", f"{c.p_worse:.3f}"]


COMPARED = ["median", "median of the other", "ratio", "p better", "p worse"]


def compare_all(results, problems, a, b, **more):
    return {p: results.compare(p, a, b, **more) for p in problems}


def complete(comparisons):
    return all(c is not None for c in comparisons)


def origins(results, setting, problem, name):
    return [sum(o == name for o in run.origin) for run in results.seeds(problem, setting).values()]


# --- Chapter 4 ---


def cs1(results):
    rows, passed = [], None
    for setting in ["own-bo-ei", "own-bo", "m-bo-logei-lbfgs", "m-bo-ei", "se-bo-ei", "se-bo-ei-old"]:
        errors = list(results.errors("rosenbrock2", setting, 200).values())
        if not errors:
            continue
        good = sum(e <= 1e-3 for e in errors)
        rows.append([setting, f"{good} of {len(errors)}", number(statistics.median(errors)), number(max(errors))])
        if setting in ("own-bo-ei", "own-bo") and len(errors) >= MIN_SEEDS:
            passed = (passed is not False) and good >= 0.9 * len(errors)
    return Verdict("CS1", "The baseline is sound: within 1e-3 of Rosenbrock-2D's minimum after 200 evaluations",
                   "our `bo` with EI and with LogEI, at least 9 runs of 10; the thesis' recipe for comparison",
                   say(passed), "; ".join(f"`{row[0]}` {row[1]}" for row in rows),
                   ["setting", "runs within 1e-3", "median error", "largest"], rows)


def cs2(results):
    rows, marks = [], []
    for problem in ["branin", "camel", "hartmann3", "rosenbrock2", "rosenbrock3"]:
        for a in ["ei", "pi", "ucb"]:
            c = results.compare(problem, f"se-bo-{a}", "random")
            rows.append([problem, a.upper(), *cells(c), "" if c is None else "yes" if c.large else "no"])
            marks.append(None if c is None else c.large)
    judged = None if None in marks else all(marks)
    return Verdict("CS2", "BO with EI, PI or UCB beats random search by a wide margin on smooth functions",
                   "ratio below 0.2 on all five functions", say(judged),
                   f"large on {sum(m is True for m in marks)} of {len(marks)} cells",
                   ["function", "acquisition", *COMPARED, "large"], rows)


def cs3(results):
    rows, marks = [], []
    for setting in ["se-bo-ts-old", "se-bo-ts"]:
        for problem in results.functions:
            c = results.compare(problem, "random", setting)
            if setting == "se-bo-ts-old" and problem in ("branin", "michalewicz2", "michalewicz5"):
                marks.append(None if c is None else c.better)
            verdict = "" if c is None else "random" if c.better else "BO" if c.worse else "neither"
            rows.append([setting, problem, *cells(c), verdict])
    return Verdict("CS3", "Random search can beat BO with Thompson sampling: on Branin and Michalewicz-2 and -5",
                   "random better on all three under the old recipe; with pathwise draws (`se-bo-ts`) the opposite is "
                   "expected on Branin", say(None if None in marks else all(marks)),
                   f"random better on {sum(m is True for m in marks)} of 3",
                   ["random against", "function", *COMPARED, "better"], rows)


def cs4(results):
    rows, marks = [], []
    for setting in ["se-hbo-ts-old", "se-hbo-ts"]:
        for problem in results.functions:
            c = results.compare(problem, setting, "random")
            if setting == "se-hbo-ts-old":
                marks.append(None if c is None else c.not_worse)
            rows.append([setting, problem, *cells(c), "" if c is None else "yes" if c.not_worse else "no"])
    exact, checked = coupling(results)[:2]
    judged = None if None in marks else all(marks) and exact == checked
    return Verdict("CS4", "H-TS is never worse than random search, and repairs CS3",
                   "not worse on all 12 under the old recipe, and the exact coupling of Harmless", say(judged),
                   f"not worse on {sum(m is True for m in marks)} of {len(marks)}; coupling in {exact} of {checked} runs",
                   ["setting", "function", *COMPARED, "not worse"], rows)


def cs5(results):
    rows, counts, complete_ = [], {}, True
    for a in ["ei", "ucb", "pi"]:
        for problem in results.functions:
            c = results.compare(problem, f"se-hbo-{a}", f"se-bo-{a}")
            complete_ = complete_ and c is not None
            if c is not None and c.not_worse:
                counts[a] = counts.get(a, 0) + 1
            rows.append([a.upper(), problem, *cells(c), "" if c is None else "yes" if c.not_worse else "no"])
    good = counts.get("ei", 0) >= 10 and counts.get("ucb", 0) >= 10
    pi = {p: results.compare(p, "se-hbo-pi", "se-bo-pi") for p in ("branin", "goldstein_price")}
    signs = ", ".join(f"{p} {'–' if c is None else number(c.ratio)}" for p, c in pi.items())
    return Verdict("CS5", "H-EI and H-UCB are as good as BO-EI and BO-UCB; H-PI is better on Branin and slightly worse "
                   "on Goldstein-Price", "not worse on at least 10 of 12 for EI and for UCB; PI's signs are reported",
                   say(good if complete_ else None),
                   f"not worse: EI {counts.get('ei', 0)}, UCB {counts.get('ucb', 0)}, PI {counts.get('pi', 0)} of 12; "
                   f"PI's ratios: {signs}", ["acquisition", "function", *COMPARED, "not worse"], rows)


def cs6(results):
    comparisons = compare_all(results, results.functions, "se-hbo-ei-farthest", "se-hbo-ei")
    if not complete(comparisons.values()):
        return Verdict("CS6", "Farthest-point exploration is harmless but no gain", "", NOT_JUDGED, "runs are missing")
    two_sided = [min(1.0, 2.0 * min(c.p_better, c.p_worse)) for c in comparisons.values()]
    adjusted = wilcoxon.holm(two_sided)
    rows = [[p, *cells(c), f"{h:.2f}"] for (p, c), h in zip(comparisons.items(), adjusted)]
    same = sum(h >= 0.05 for h in adjusted)
    fewest = min(c.seeds for c in comparisons.values())
    if len(adjusted) * 2.0 / 2**fewest >= 0.05:  # Not even runs that all agree could show a difference.
        return Verdict("CS6", "Farthest-point exploration is harmless but no gain over random exploration",
                       "H-EI: no significant difference (Holm) on at least 10 of 12", NOT_JUDGED,
                       f"{fewest} seeds cannot show a difference; the median is lower on "
                       f"{sum(c.ratio < 1.0 for c in comparisons.values())} of 12",
                       ["function", *COMPARED, "p two-sided, Holm"], rows)
    return Verdict("CS6", "Farthest-point exploration is harmless but no gain over random exploration",
                   "H-EI: no significant difference (Holm) on at least 10 of 12", say(same >= 10),
                   f"no difference on {same} of 12", ["function", *COMPARED, "p two-sided, Holm"], rows)


# --- Chapter 5 ---


def bind(results, problem, setting):
    rates = [r for run in results.seeds(problem, setting).values() for r in run.bind]
    shares = [e for run in results.seeds(problem, setting).values() for e in run.excluded]
    if not rates:
        return "–", "–"
    return f"{100 * statistics.mean(rates):.2g} %", f"{100 * statistics.mean(shares):.2g} %"


def bounds_table(results):
    """Bind rates of chapter 5's settings: estimated L, then the true one."""
    columns = ["problem"]
    columns += [f"{a.upper()}{', true L' if t else ''}" for t in ("", "-true") for a in ACQUISITIONS] + ["excluded", "with true L"]
    rows = []
    for problem in results.problems:
        names = [f"m-lbo-{a}{t}" for t in ("", "-true") for a in ACQUISITIONS]
        rates = [bind(results, problem, name)[0] for name in names]
        if any(rate != "–" for rate in rates):
            rows.append([problem, *rates, *[bind(results, problem, f"m-lbo-ei{t}")[1] for t in ("", "-true")]])
    return columns, rows


def cs7(results):
    rows, marks = [], []
    for problem in results.problems:
        for old in ["-old", ""]:
            c = results.compare(problem, f"m-lbo-ts{old}", f"m-hbo-ts{old}")
            if old and problem in ("michalewicz5", "rosenbrock3", "robot3"):
                marks.append(None if c is None else c.large)
            if c is not None:
                rows.append([problem, "old" if old else "pathwise, MAP", *cells(c),
                             *bind(results, problem, f"m-lbo-ts{old}")])
    named = {s: results.median("michalewicz5", s) for s in
             [f"m-{h}-{a}" for h in ("hbo", "lbo") for a in ACQUISITIONS] + ["m-hbo-ts-old", "m-lbo-ts-old"]}
    known = {s: m for s, m in named.items() if m is not None}
    best = min(known, key=known.get) if known else "–"
    judged = None if None in marks or len(marks) < 3 else all(marks) and best == "m-lbo-ts-old"
    return Verdict("CS7", "LBO-TS is far better than BO-TS on Michalewicz-5, Rosenbrock-3 and robot-3D, and on "
                   "Michalewicz-5 the best of all methods",
                   "ratio below 0.2 on the three under the old recipe, and the lowest median on Michalewicz-5",
                   say(judged),
                   f"large on {sum(m is True for m in marks)} of {len(marks)}; best on Michalewicz-5: {best}",
                   ["problem", "recipe", *COMPARED, "binds at", "excludes"], rows)


def cs8(results):
    rows = []
    expected = [("goldstein_price", "m-lbo-ei", "m-hbo-ei"), ("hartmann3", "m-lbo-ei", "m-hbo-ei"),
                ("rosenbrock5", "m-lbo-ucb", "m-hbo-ucb"), ("rosenbrock5", "m-lbo-ucb-dragonfly", "m-hbo-ucb-dragonfly"),
                ("rosenbrock5", "m-lbo-ucb-k17", "m-hbo-ucb-k17"), ("goldstein_price", "m-lbo-ei-old", "m-hbo-ei-old"),
                ("hartmann3", "m-lbo-ei-old", "m-hbo-ei-old"), ("rosenbrock5", "m-lbo-ucb-old", "m-hbo-ucb-old")]
    marks = []
    for problem, a, b in expected:
        c = results.compare(problem, a, b)
        if c is not None:
            marks.append(c.large)
        rows.append([problem, a, *cells(c), "" if c is None else "yes" if c.large else "no"])
    return Verdict("CS8", "LBO-EI is far better than BO-EI on Goldstein-Price and Hartmann-3, LBO-UCB than BO-UCB on "
                   "Rosenbrock-5", "ratio below 0.2 there, under every schedule of beta",
                   say(all(marks) if len(marks) >= 3 else None), f"large in {sum(marks)} of {len(marks)} comparisons",
                   ["problem", "setting", *COMPARED, "large"], rows)


def cs9_cells(results):
    problems = [p for p in results.problems if p != "logistic_log"]
    return {(p, a): results.compare(p, f"m-lbo-{a}", f"m-hbo-{a}") for p in problems for a in ACQUISITIONS}


def same_traces(results, problems, a, b):
    """Pairs of runs with the same best value throughout, and pairs."""
    same, pairs = 0, 0
    for problem in problems:
        of_a, of_b = results.seeds(problem, a), results.seeds(problem, b)
        for seed in set(of_a) & set(of_b):
            pairs += 1
            same += of_a[seed].best[:100] == of_b[seed].best[:100]
    return same, pairs


def cs9(results):
    table = cs9_cells(results)
    known = {k: c for k, c in table.items() if c is not None}
    kinds = {"huge": [], "some": [], "equal": [], "worse": []}
    for key, c in known.items():
        kind = "worse" if c.p_worse < 0.05 else "equal"
        if c.p_better < 0.05:
            kind = "huge" if c.large else "some"
        kinds[kind].append(key)
    share = {k: len(v) / max(1, len(known)) for k, v in kinds.items()}
    passed = share["worse"] <= 0.15 and all(known[k].ratio <= 3.0 for k in kinds["worse"])
    adjusted = wilcoxon.holm([c.p_better for c in known.values()]), wilcoxon.holm([c.p_worse for c in known.values()])
    after = [sum(p < 0.05 for p in side) for side in adjusted]
    rows = []
    for problem in dict.fromkeys(k[0] for k in table):
        row = [problem]
        for a in ACQUISITIONS:
            c = table[problem, a]
            row.append("–" if c is None else number(c.ratio) + ("*" if min(c.p_better, c.p_worse) < 0.05 else ""))
        rows.append(row)
    traces = []
    for a in ACQUISITIONS:
        same, pairs = same_traces(results, dict.fromkeys(k[0] for k in table), f"m-lbo-{a}", f"m-hbo-{a}")
        traces.append(f"{a.upper()} {same} of {pairs}")
    return Verdict("CS9", "LBO rarely hurts: of 60 cells 21 % gain hugely, 9 % some, 60 % nothing, 10 % lose slightly",
                   "at most 15 % of cells significantly worse, none of them by more than 3 times",
                   say(passed if len(known) >= 48 else None),
                   f"{len(known)} cells: huge {share['huge']:.0%}, some {share['some']:.0%}, equal {share['equal']:.0%}, "
                   f"worse {share['worse']:.0%}; after Holm {after[0]} better, {after[1]} worse. Pairs of runs that are the same with bounds and "
                   f"without: {', '.join(traces)}",
                   ["LBO/BO, median error (* p < 0.05)", *[a.upper() for a in ACQUISITIONS]], rows)


def cs10(results):
    rows, marks = [], []
    for problem, a in [("goldstein_price", "ts"), ("robot4", "ei"), ("robot4", "pi"), ("robot4", "ucb")]:
        forth = results.compare(problem, f"m-lbo-{a}", f"m-hbo-{a}")
        back = results.compare(problem, f"m-hbo-{a}", f"m-lbo-{a}")
        marks.append(None if forth is None else forth.not_worse and back.not_worse)
        rows.append([problem, a.upper(), *cells(forth), "" if forth is None else "yes" if marks[-1] else "no"])
    return Verdict("CS10", "No change: Goldstein-Price with TS, robot-4D with EI, PI and UCB", "not worse either way",
                   say(None if None in marks else all(marks)), f"{sum(m is True for m in marks)} of {len(marks)}",
                   ["problem", "acquisition", *COMPARED, "no change"], rows)


def cs11(results):
    lost = [k for k, c in cs9_cells(results).items() if c is not None and c.p_worse < 0.05]
    named = [("rosenbrock4", "ei"), ("rosenbrock4", "pi"), ("rosenbrock4", "ucb"), ("goldstein_price", "ucb"),
             ("goldstein_price", "pi")]
    rows, marks = [], []
    for problem, a in lost + [n for n in named if n not in lost]:
        c = results.compare(problem, f"m-lbo-{a}-true", f"m-hbo-{a}")
        if (problem, a) in lost and c is not None:
            marks.append(c.not_worse)
        rows.append([problem, a.upper(), "lost" if (problem, a) in lost else "lost in the thesis", *cells(c)])
    summary = f"not worse with the true constant in {sum(marks)} of {len(marks)} cells that the estimate lost"
    return Verdict("CS11", "Where LBO loses, the true Lipschitz constant does as well as BO",
                   "the true constant not worse than BO on the cells of CS9 that were significantly worse",
                   say(all(marks) if marks else None), summary if marks else "no cell lost with a known constant",
                   ["problem", "acquisition", "why here", *COMPARED], rows)


def cs12(results):
    rows, near, better, ar_all = [], 0, {"accept-reject": 0, "cap": 0}, True
    judged = True
    for problem in results.functions:
        c = results.compare(problem, "m-bo-ucb-huge", "random")
        variants = {"accept-reject": results.compare(problem, "m-lbo-ucb-huge", "random"),
                    "cap": results.compare(problem, "m-lbo-ucb-huge-cap", "random"),
                    "accept-reject, true L": results.compare(problem, "m-lbo-ucb-huge-true", "random")}
        judged = judged and c is not None and complete(variants.values())
        if not judged:
            continue
        near += 0.75 <= c.ratio <= 1.25
        for name in better:
            better[name] += variants[name].better
        ar_all = ar_all and variants["accept-reject"].ratio < 1.0
        rows.append([problem, number(c.b), number(c.ratio),
                     *[number(v.ratio) + ("*" if min(v.p_better, v.p_worse) < 0.05 else "") for v in variants.values()]])
    passed = near == len(results.functions) and all(n >= 3 for n in better.values())
    return Verdict("CS12", "With UCB's beta at 1e16 BO is as bad as random search, and LBO-UCB better than random",
                   "BO's median within 25 % of random's on all 12; accept-reject and cap better than random on at "
                   "least 3 each", say(passed if judged else None),
                   f"BO within 25 % on {near} of 12; better than random: accept-reject on "
                   f"{better['accept-reject']}, cap on {better['cap']}; accept-reject's median below random's on all "
                   f"12 (Bounds): {'yes' if ar_all else 'no'}",
                   ["function", "random", "BO/random", "AR/random", "cap/random", "AR with true L/random"], rows)


# --- First-order ---


def fobo(results, claim, statement, check, judge):
    """Rows and marks by acquisition; a verdict instead when fewer than ten functions were run."""
    rows, by = [], {}
    for a in ["ei", "pi", "ucb"]:
        judged = {p: row for p in results.functions if (row := judge(p, a)) is not None}
        if len(judged) < 10:
            return Verdict(claim, statement, check, NOT_JUDGED, "runs are missing")
        for problem, (marks, values) in judged.items():
            by.setdefault(a, []).append(marks)
            rows.append([a.upper(), problem, *values])
    return rows, by


def cs13(results):
    text = ("CS13", "Full gradients gain hugely per iteration", "ratio below 0.2 on at least 8 of 12, for EI, PI and UCB")
    n = FOBO_ITERATIONS

    def judge(problem, a):
        c = results.compare(problem, f"se-g-{a}", f"se-bo-{a}", evaluations=n)
        return None if c is None else (c.large, cells(c))

    out = fobo(results, *text, judge)
    if isinstance(out, Verdict):
        return out
    rows, by = out
    counts = {a: sum(v) for a, v in by.items()}
    return Verdict(*text, say(all(v >= 8 for v in counts.values())),
                   f"after {n} iterations, large on " + ", ".join(f"{v} of 12 ({a.upper()})" for a, v in counts.items()),
                   ["acquisition", "function", *COMPARED], rows)


def cs14(results):
    text = ("CS14", "Directional derivatives lie between none and full gradients, sometimes close to these",
            "D better than BO on at least 7 of 12 per iteration; D significantly better than G on at most 1")
    n = FOBO_ITERATIONS

    def judge(problem, a):
        c = results.compare(problem, f"se-d-{a}", f"se-bo-{a}", evaluations=n)
        g = results.compare(problem, f"se-d-{a}", f"se-g-{a}", evaluations=n)
        return None if c is None or g is None else ((c.better, g.p_better < 0.05), [*cells(c), *cells(g)[1:]])

    out = fobo(results, *text, judge)
    if isinstance(out, Verdict):
        return out
    rows, by = out
    over = {a: sum(m[0] for m in v) for a, v in by.items()}
    beats = {a: sum(m[1] for m in v) for a, v in by.items()}
    return Verdict(*text, say(all(v >= 7 for v in over.values()) and all(v <= 1 for v in beats.values())),
                   "D better than BO: " + ", ".join(f"{a.upper()} {v}" for a, v in over.items()) + " of 12; D "
                   "significantly better than G: " + ", ".join(f"{a.upper()} {v}" for a, v in beats.items()),
                   ["acquisition", "function", "median D", "median BO", "ratio", "p better", "p worse", "median G",
                    "ratio D/G", "p better", "p worse"], rows)


def cs15(results):
    text = ("CS15", "Counted in function evaluations (1, 2, d + 1 an iteration) D's gain pays, more so in higher "
            "dimension; G's often does not", "D not worse than BO on at least 8 of 12 at equal evaluations")
    budget = 100

    def judge(problem, a):
        d = results.problems[problem][0]
        c = results.compare(problem, f"se-d-{a}", f"se-bo-{a}", evaluations=budget // 2, evaluations_b=budget)
        g = results.compare(problem, f"se-g-{a}", f"se-d-{a}", evaluations=budget // (d + 1), evaluations_b=budget // 2)
        return None if c is None or g is None else (c.not_worse, [d, *cells(c), number(g.a), number(g.ratio)])

    out = fobo(results, *text, judge)
    if isinstance(out, Verdict):
        return out
    rows, by = out
    counts = {a: sum(v) for a, v in by.items()}
    return Verdict(*text, say(all(v >= 8 for v in counts.values())),
                   "D not worse than BO on " + ", ".join(f"{v} ({a.upper()})" for a, v in counts.items()) + " of 12",
                   ["acquisition", "function", "d", "median D", "median BO", "ratio", "p better", "p worse", "median G",
                    "ratio G/D"], rows)


FOBO_ITERATIONS = 30

# --- Ingredients ---


def lower(results, a, b):
    """Functions where a's median is lower, where b's is, and whether all are there. Medians below SAME tie."""
    wins, losses, rows, there = 0, 0, [], True
    for problem in results.functions:
        c = results.compare(problem, a, b)
        there = there and c is not None
        if c is None:
            continue
        tie = max(c.a, c.b) < SAME
        wins += not tie and c.a < c.b
        losses += not tie and c.a > c.b
        rows.append((problem, c))
    return wins, losses, rows, there


def cs16(results):
    pairs = [("Matérn-5/2 over squared exponential", "m-bo-ei", "se-bo-ei"),
             ("standardized over raw outputs", "textbook", "textbook-raw"),
             ("constant over zero mean", "textbook", "textbook-zero-mean"),
             ("MCMC over MAP", "m-bo-ei-old", "m-bo-ei")]
    rows, marks, summary = [], [], []
    for name, a, b in pairs:
        wins, losses, table, there = lower(results, a, b)
        if there:
            good = wins >= 8
            if b == "textbook-raw":
                good = all(c.ratio < 1.0 for p, c in table if p == "goldstein_price" or p.startswith("rosenbrock"))
            marks.append(good)
            summary.append(f"{name}: {wins} to {losses} ({'yes' if good else 'no'})")
        else:
            summary.append(f"{name}: not judged")
        rows += [[name, p, *cells(c)] for p, c in table]
    judged = None if not marks else all(marks) if len(marks) == 4 else False if not all(marks) else None
    return Verdict("CS16", "Matérn-5/2 beats squared exponential, standardization is crucial, a constant mean beats "
                   "zero, MCMC beats MAP", "EI: the lower median on at least 8 of 12 each; raw outputs worse on "
                   "Goldstein-Price and all Rosenbrocks", say(judged), "; ".join(summary),
                   ["part", "function", *COMPARED], rows)


def cs17(results):
    rows, stuck_on, helped, there = [], 0, 0, True
    for problem in results.functions:
        c = results.compare(problem, "textbook", "textbook-repeat")
        there = there and c is not None
        if c is None:
            continue
        stuck = statistics.mean(origins(results, "textbook", problem, "stuck_random"))
        repeated = statistics.mean(origins(results, "textbook-repeat", problem, "repeat"))
        stuck_on += stuck > 0
        helped += c.better
        rows.append([problem, f"{stuck:.1f}", f"{repeated:.1f}", *cells(c)])
    return Verdict("CS17", "Replacing a proposal that was tried already by a random point helps markedly",
                   "stuck on at least 2 functions, and better on at least 2", say(stuck_on >= 2 and helped >= 2 if there else None),
                   f"stuck on {stuck_on} of 12, better on {helped}",
                   ["function", "times stuck in 100", "repeats without the rule", *COMPARED], rows)


def cs18(results):
    rows, wins, there = [], {}, True
    for problem in results.functions:
        row = [problem, number(results.median(problem, "random", 200))]
        for a in ["ei", "pi", "ucb", "ts"]:
            c = results.compare(problem, "random", f"se-bo-{a}", evaluations=200, evaluations_b=100)
            there = there and c is not None
            if c is not None:
                wins[a] = wins.get(a, 0) + (c.ratio <= 1.0)
                row.append(number(c.b) + (" ≥" if c.ratio <= 1.0 else ""))
        c = results.compare(problem, "random", "se-bo-ts-old", evaluations=200, evaluations_b=100)
        row.append("–" if c is None else number(c.b) + (" ≥" if c.ratio <= 1.0 else ""))
        if c is not None:
            wins["old ts"] = wins.get("old ts", 0) + (c.ratio <= 1.0)
        rows.append(row)
    return Verdict("CS18", "Random search with twice the budget is competitive with BO on some problems",
                   "functions where random's median after 200 is at or below BO's after 100: at least one for some "
                   "acquisition", say(any(wins.values()) if there else None),
                   ", ".join(f"{a.upper()} {n}" for a, n in wins.items()) + " of 12",
                   ["function", "random at 200", "EI at 100", "PI", "UCB", "TS", "TS, old"], rows)


def cs20(results):
    few, many = 25, 200
    rows, equal, there = [], 0, True
    for problem in ["branin", "camel", "goldstein_price", "michalewicz2", "rosenbrock2"]:
        found = {(a, b): results.compare(problem, a, b, evaluations=few)
                 for a in ["se-bo-ei", "tpe"] for b in ["random", "grid5"]}
        there = there and complete(found.values())
        for (a, b), c in found.items():
            if c is not None:
                equal += not c.better
                rows.append([problem, few, a, b, *cells(c), "yes" if c.better else "no"])
    problem = "additive32"
    c = results.compare(problem, "tpe", "random", evaluations=many)
    ours, theirs = results.errors(problem, "tpe", many), results.errors(problem, "random", many)
    wins = sum(ours[seed] < theirs[seed] for seed in set(ours) & set(theirs))
    there = there and c is not None
    if c is not None:
        rows.append([problem, many, "tpe", "random", *cells(c), "yes" if c.better else "no"])
    return Verdict("CS20", "With one or two parameters and few evaluations neither a Gaussian process nor TPE gains over random "
                   "search or a grid; with 31 and more TPE does",
                   "after 25 evaluations on five functions of two parameters better in none of 20 comparisons; on 32 "
                   "parameters, after 200, TPE better, and in at least 80 % of the runs",
                   say(equal == 20 and c.better and wins >= 0.8 * c.seeds if there else None),
                   f"two parameters: no gain in {equal} of 20; 32 parameters: "
                   + ("–" if c is None else f"TPE ahead in {wins} of {c.seeds} runs, ratio {c.ratio:.2g}"),
                   ["function", "evaluations", "setting", "against", *COMPARED, "better"], rows)


# --- Our own targets ---


def coupling(results):
    """Runs of H- settings whose best after every evaluation n is at or below that of random search's first floor(n/4)
    points; runs checked; and such moments n in all. FARTHEST promises nothing of the kind."""
    good, checked, moments = 0, 0, 0
    for (problem, setting), by_seed in results.runs.items():
        if "hbo" not in setting or "farthest" in setting:
            continue
        for seed, run in by_seed.items():
            random = results.seeds(problem, "random").get(seed)
            if random is None:
                continue
            held = [run.best[n - 1] <= random.best[n // 4 - 1] for n in range(4, len(run.best) + 1)]
            moments += len(held)
            good += all(held)
            checked += 1
    return good, checked, moments


def harmless(results):
    good, checked, moments = coupling(results)
    rows, close, there = [], 0, True
    for problem in results.functions:
        c = results.compare(problem, "own-hbo", "own-bo", evaluations=200)
        there = there and c is not None
        if c is None:
            continue
        fine = c.ratio <= 1.5 or c.a <= SAME
        close += fine
        rows.append([problem, *cells(c), "yes" if fine else "no"])
    passed = None if not there or not checked else good == checked and close == 12
    return Verdict("Harmless", "`hbo` holds random search's own points, and costs little",
                   "best of `hbo` after n at or below random's best after floor(n/4), exactly, for every n from 4 on in "
                   "every run; median after 200 within 1.5 times `bo`'s or below 1e-10 on all 12", say(passed),
                   f"coupling exact in {good} of {checked} runs ({moments} moments); within 1.5 times on {close} of 12",
                   ["function", *COMPARED, "within"], rows)


def bearable(a, b):
    """The rule of Bounds: a's median at most 1.2 times b's, or as good as 0."""
    ours, theirs = statistics.median(a), statistics.median(b)
    return (ours + TINY) / (theirs + TINY) <= 1.2 or ours <= SAME


def by_chance(pairs, rounds=400):
    """Of pairs of lists of errors by seed, how many its rule passes when each seed's two errors are swapped by a coin:
    what is to be expected of bounds that do neither good nor harm. 5 % quantile, median and 95 % quantile."""
    coin = random.Random(0)
    counts = []
    for _ in range(rounds):
        swapped = [list(zip(*[(x, y) if coin.random() < 0.5 else (y, x) for x, y in zip(a, b)])) for a, b in pairs]
        counts.append(sum(bearable(a, b) for a, b in swapped))
    counts.sort()
    return counts[rounds // 20], counts[rounds // 2], counts[-rounds // 20 - 1]


def bounds_do_not_hurt(results):
    rows, counts, chances = [], {}, {}
    for family, label in [("own", "our defaults"), ("m", "thesis' recipe")]:
        good, pairs = 0, []
        for problem in results.functions:
            row = [label, problem]
            for a in ACQUISITIONS:
                with_, without = (results.errors(problem, f"{family}-{h}-{a}", 100) for h in ("lbo", "hbo"))
                seeds = sorted(set(with_) & set(without))
                if len(seeds) < MIN_SEEDS:
                    row.append("–")
                    continue
                pair = [with_[s] for s in seeds], [without[s] for s in seeds]
                pairs.append(pair)
                good += bearable(*pair)
                same = sum(x == y for x, y in zip(*pair))
                row.append(f"{number(statistics.median(pair[0]))} / {number(statistics.median(pair[1]))}"
                           + ("" if bearable(*pair) else " **>**") + f" ({same} of {len(seeds)} equal)")
            rows.append(row)
        counts[label] = (good, len(pairs))
        chances[label] = by_chance(pairs) if pairs else (0, 0, 0)
    judged = None if any(known < 48 for _, known in counts.values()) else all(good >= 45 for good, _ in counts.values())
    return Verdict("Bounds", "bounds do not hurt", "LBO's median at most 1.2 times that of the same without bounds, or below "
                   "1e-10, on at least 45 of 48 pairs; accept-reject with beta 1e16 below random on all 12 (see CS12)",
                   say(judged),
                   "; ".join(f"{label}: {good} of {known}, where bounds that change nothing but chance would give "
                             f"{chances[label][1]} ({chances[label][0]} to {chances[label][2]} in nine of ten cases)"
                             for label, (good, known) in counts.items()),
                   ["recipe", "function", *[f"{a.upper()}: LBO / without" for a in ACQUISITIONS]], rows)


ALL = [cs1, cs2, cs3, cs4, cs5, cs6, cs7, cs8, cs9, cs10, cs11, cs12, cs13, cs14, cs15, cs16, cs17, cs18, cs20, harmless,
       bounds_do_not_hurt]
ELSEWHERE = [("CS19", "Harmonica on sparse bits", "[harmonica.md](../harmonica/pages/harmonica.md)")]
