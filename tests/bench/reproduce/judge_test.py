"""Pages are what their rows give: a page, a figure or a row that is changed by hand is found, and one row can turn a verdict."""

import dataclasses
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["LUTHIER_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "bench" / "reproduce"))
import bbob  # noqa: E402
import crf  # noqa: E402
import draws  # noqa: E402
import hoag  # noqa: E402
import linear  # noqa: E402
import rows  # noqa: E402
import search  # noqa: E402
import table  # noqa: E402


def check(root):
    return subprocess.run([sys.executable, "-B", root / "bench/reproduce/judge", "--check"], stderr=subprocess.PIPE, text=True)


class PagesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        shutil.copytree(SOURCE / "bench/reproduce", self.root / "bench/reproduce", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(SOURCE / "docs/measurements", self.root / "docs/measurements")

    def found(self, name):
        result = check(self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn(name, result.stderr)

    def test_pages_of_the_tree_are_what_the_rows_give(self):
        result = check(SOURCE)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_verdict_written_by_hand_is_found(self):
        page = self.root / "bench/reproduce/pages/reproduction.md"
        page.write_text(page.read_text().replace("**undecided**", "**reproduced**", 1))
        self.found("pages/reproduction.md")

    def test_a_picture_that_no_rows_give_is_found(self):
        (self.root / "bench/reproduce/pages/fig9.svg").write_text("<svg/>")
        self.found("fig9.svg")

    def test_a_changed_row_is_found(self):
        folder = self.root / "bench/reproduce/rows"
        pages = table.load()[1]
        # A digit of one row of one table of each page.
        for entry in pages:
            name = entry["rows"][0]
            found = rows.read(name, folder)
            columns = list(found[0])
            column = next(c for c in reversed(columns) if found[0][c][-1:].isdigit())
            found[0][column] = found[0][column][:-1] + str((int(found[0][column][-1]) + 1) % 10)
            rows.write(name, columns, [[row[c] for c in columns] for row in found], folder)
        result = check(self.root)
        self.assertEqual(result.returncode, 1)
        for entry in pages:
            self.assertIn(entry["path"], result.stderr)


class OneRowTest(unittest.TestCase):
    """A claim about every run, on rows that are made up."""

    def verdict(self, changed):
        claim = next(c for c in table.load()[0] if c.id == "CS25")
        made = []
        for problem in search.FUNCTIONS:
            for setting in [*claim.parts[0]["a"], "random"]:
                for seed in range(10):
                    steps = "1:9 5:4" if setting == "random" else "1:9 20:4"
                    if (problem, setting, seed) == changed:
                        steps = "1:9 21:4"  # A trial later than the fifth of random search's points is due.
                    made.append([problem, setting, seed, 100, steps, 0, 0, "", "", 0])
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            rows.write("search", search.COLUMNS, made, folder)
            rows.write("search_problems", ["problem", "dimension", "optimum"], [[p, 2, 0] for p in search.FUNCTIONS], folder)
            return table.judge_all([claim], folder)["CS25"][1].word

    def test_one_row_turns_a_verdict(self):
        self.assertEqual(self.verdict(None), "reproduced")
        self.assertEqual(self.verdict(("camel", "own-hbo", 1)), "contradicted")


class SearchTest(unittest.TestCase):
    def test_the_best_value_after_n_evaluations(self):
        run = search.Run(dict(evaluations="10", best="2:3.5 7:1", stuck="0", repeated="0", bind="", excluded="", seconds="0"))
        self.assertEqual([run.best(n) for n in (1, 2, 6, 7, 10)], [math.inf, 3.5, 3.5, 1.0, 1.0])

    def test_a_recipe_completes_the_names_of_settings(self):
        part = dict(problems=["branin"], acquisitions=["ei"], a="se-g-{acq}{r}", b="random", evaluations=[34, 100])
        self.assertEqual(search.expand(part, "mcmc"), [(("branin", "EI"), "branin", "se-g-ei-mcmc", 34, "random", 100)])
        self.assertEqual(search.expand(part, "map"), [(("branin", "EI"), "branin", "se-g-ei", 34, "random", 100)])

    def test_ratios_pair_the_seeds_that_both_have(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            rows.write("search_problems", ["problem", "dimension", "optimum"], [["branin", 2, 1]], folder)
            made = [["branin", s, seed, 10, f"1:{value}", 0, 0, "", "", 0]
                    for s, seed, value in [("a", 0, 3), ("a", 1, 5), ("a", 2, 9), ("b", 0, 2), ("b", 1, 2)]]
            rows.write("search", search.COLUMNS, made, folder)
            part = dict(problems=["branin"], a="a", b="b", evaluations=10, below=1)
            (cell,) = search.ratios(search.Data(folder), part, "map")
        self.assertEqual([round(x, 6) for x in cell.samples], [2.0, 4.0])  # (3 - 1) / (2 - 1), (5 - 1) / (2 - 1).


class DrawsTest(unittest.TestCase):
    data = draws.Data([dict(setting="s", method=m, seed=str(k), loss=str(v)) for m, k, v in
                       [("a", 1, 2.0), ("a", 2, 9.0), ("a", 3, 4.0), ("b", 1, 1.0), ("b", 3, 8.0)]])

    def samples(self, measure, **part):
        (cell,) = measure(self.data, {"of": "loss", "settings": ["s"], "at_most": 1, **part}, "map")
        return cell.kind, cell.samples

    def test_ratios_are_of_draws_that_both_ended(self):
        self.assertEqual(self.samples(draws.ratios, a="a", b="b"), ("median", (2.0, 0.5)))

    def test_published_numbers_shares_and_what_every_draw_keeps(self):
        self.assertEqual(self.samples(draws.published, published=[["s", "a", 2.0]]), ("median", (1.0, 4.5, 2.0)))
        self.assertEqual(self.samples(draws.shares, a="a", limit=4.0), ("share", (1.0, 0.0, 1.0)))
        self.assertEqual(self.samples(draws.every, a="b"), ("exact", (1.0, 8.0)))

    def test_a_run_that_did_not_end_has_no_row_and_is_not_run_again(self):
        claim = table.Claim("X", "made", "", "", 2, "map", False, ({"settings": ["s"], "a": "a"},))
        program = [sys.executable, "-c", "import sys; k = sys.argv[1]; print('1,a,' + k) if k == '1' else sys.exit(1)"]
        family = draws.Family("made_up", ["loss"], lambda s, m, seed, _: [*program, str(seed)], lambda text: text.split()[0].split(",")[2:] if text else None)
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            self.assertEqual(family.jobs([claim], 0, place), ["s|a|1", "s|a|2"])
            family.run(["s|a|1", "s|a|2"], place, None, 1)
            self.assertEqual(family.jobs([claim], 0, place), [])
            family.pack(place, None, place / "rows")
            self.assertEqual(rows.read("made_up", place / "rows"), [dict(setting="s", method="a", seed="1", loss="1")])

    def test_a_run_that_was_interrupted_is_run_again(self):
        claim = table.Claim("X", "made", "", "", 1, "map", False, ({"settings": ["s"], "a": "a"},))
        program = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"]
        family = draws.Family("made_up", ["loss"], lambda *_: program, lambda text: None)
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            self.assertFalse(family.run(["s|a|1"], place, None, 1))
            self.assertEqual(family.jobs([claim], 0, place), ["s|a|1"])

    def test_runs_are_as_the_rows_to_four_digits(self):
        family = draws.Family("made_up", ["seconds", "loss"], None, None)
        with tempfile.TemporaryDirectory() as name:
            folders = [pathlib.Path(name) / one for one in "ab"]
            for folder, losses in zip(folders, (["63.1522", "2e-10", "1.01"], ["63.1521", "5e-10", "1.02"])):
                rows.write("made_up", family.columns, [["s", "a", k, k, loss] for k, loss in enumerate(losses)], folder)
            self.assertEqual(family.compare(*folders), (2, 1))


class HarmonicaTest(unittest.TestCase):
    def test_a_run_comes_to_its_best_whole_training_within_a_budget(self):
        sys.path.insert(0, str(SOURCE / "bench" / "reproduce" / "harmonica"))
        import one_run
        rows_ = [dict(spent=str(spent), step=str(step), value=value, truth="t" + value, stage=str(stage), origin="stage")
                 for spent, step, value, stage in [(9, 9, "4", 1), (12, 3, "1", 1), (21, 9, "3", 2), (30, 9, "2", 0)]]
        self.assertEqual(one_run.incumbent(rows_, 9, 2)["truth"], "t4")  # The 1 is of a training of three steps.
        self.assertEqual(one_run.incumbent(rows_, 9, 3)["truth"], "t3")
        self.assertIsNone(one_run.incumbent(rows_, 9, 5), "the run is shorter")
        self.assertEqual(one_run.stage_means(rows_), dict(stage_1="2.5", stage_2="3", stage_3="", base="2"))


class HoagTest(unittest.TestCase):
    def setUp(self):
        made = [["a9a", method, 1, k + 1, 0, passes, value, third] for method, run in
                [("hoag", [(10, 2.0, 5.0), (20, 1.01, 4.0), (30, 1.5, 6.0)]), ("bo", [(50, 9.0, 9.0), (80, 1.0, 3.0)])]
                for k, (passes, value, third) in enumerate(run)]
        with tempfile.TemporaryDirectory() as name:
            rows.write("hoag", hoag.COLUMNS, made, pathlib.Path(name))
            self.data = hoag.Data(pathlib.Path(name))

    def samples(self, measure, **part):
        (cell,) = measure(self.data, {"problems": ["a9a"], "below": 1, **part}, "map")
        return [round(x, 9) for x in cell.samples]

    def test_levels_are_of_the_value_at_the_start(self):
        # The least is 1 and the start 2, though `bo` began at 9: 1e-2 is 1.01, 1e-3 is 1.001, which HOAG never reaches.
        self.assertEqual(self.samples(hoag.reach, a="hoag", b="bo", level=1e-2), [20 / 80])
        self.assertEqual(self.samples(hoag.reach, a="hoag", b="bo", level=1e-3), [math.inf])
        self.assertEqual(self.samples(hoag.reach, a="bo", b="hoag", level=1e-3), [0.0])

    def test_ends_and_third_sets(self):
        self.assertEqual(self.samples(hoag.ends, a="hoag"), [0.5])
        self.assertEqual(self.samples(hoag.third_after, a="hoag", level=1e-2), [1.0])
        self.assertEqual(self.samples(hoag.third_rises, a="hoag"), [1.5])


class LinearTest(unittest.TestCase):
    def test_what_is_in_hand_stays_until_the_next_look(self):
        text = "\n".join(["problem,d,hsvm,5,1,5,1,0.1,0.2,1.0,fifth"] + [
            f"look,d,hsvm,{variant},1,{passes},{gap},{error}" for variant, passes, gap, error in
            [("a", 0.5, 2, 0.4), ("a", 1.0, 2, 0.4), ("a", 1.5, 1, 0.2), ("b", 0.5, 4, 0.4)]] + [
            f"reach,d,hsvm,{variant},1,1,2,inf,inf,3" for variant in "ab"])
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            (place / "d|1.txt").write_text(text)
            linear.pack(place, None, place)
            self.assertEqual(len(rows.read("linear_looks", place)), 3)  # The second look of a says nothing new.
            data = linear.Data(place)
        self.assertEqual([data.at(("d", "hsvm", "a"), 1, p) for p in (1.0, 1.5, 20.0)], [(2.0, 0.4), (1.0, 0.2), (1.0, 0.2)])
        part = dict(data=["d"], losses=["hsvm"], a="a", b="b", below=1)
        (cell,) = linear.ratios(data, {**part, "of": "gap 5"}, "map")
        self.assertEqual(cell.samples, (0.25,))
        (cell,) = linear.ratios(data, {**part, "of": "mean error"}, "map")
        self.assertAlmostEqual(cell.samples[0], (2 * 0.4 + 38 * 0.2) / 40 / 0.4)
        (cell,) = linear.effects(data, {**part, "passes": 20}, "map")
        self.assertAlmostEqual(cell.samples[0], math.log(0.4001 / 0.2001) / math.log(4))


class CrfTest(unittest.TestCase):
    MEMORY = {("letters", "sparse"): "7.760e-01", ("letters", "marginals"): "1.142e+00", ("letters", "mixed"): "2.140e-01",
              ("chunking", "sparse"): "4.812e-03", ("chunking", "marginals"): "6.980e-03", ("chunking", "mixed"): "6.090e-04"}

    def packed(self, outputs):
        """Data of what the program printed for each job and seed."""
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            for line, text in outputs.items():
                (place / f"{line}.txt").write_text("\n".join(text) + "\n")
            crf.pack(place, None, place / "rows")
            crf.pack(place, None, place / "rows")  # A second time adds nothing.
            return crf.Data(place / "rows")

    def curve(self, problem, method, seed, looks):
        return [f"curve,{problem},{method},,{seed},{passes},{seconds},{gap},{error}," for passes, seconds, gap, error in looks]

    def word(self, name, data):
        claim = next(c for c in table.load()[0] if c.id == name)
        return table.verdict.judge(table.parts_of(claim, data)).word

    def memory(self, changed=None):
        return self.packed({f"start.{problem}|1": [f"memory,{problem},{mode},,,,,{'9.9e-01' if (problem, mode) == changed else value},,"
                                                   for (p, mode), value in self.MEMORY.items() if p == problem]
                            for problem in ("letters", "chunking")})

    def test_one_row_turns_the_verdict_on_what_no_seed_changes(self):
        self.assertEqual(self.word("CT10", self.memory()), "reproduced")
        self.assertEqual(self.word("CT10", self.memory(("chunking", "mixed"))), "contradicted")

    def cyclic(self, seeds, least):
        return self.packed({f"grid.letters.saga|{s}": [f"grid,letters,saga,cyclic {step},{s},30,1.0,{least if k == 3 else 'inf'},,9.0"
                                                       for k, step in enumerate(crf.STEPS)] for s in range(1, seeds + 1)})

    def test_the_least_over_the_steps_decides_and_one_seed_of_six_does_not(self):
        # From half of the start's gap on it is farther from the start than from the optimum: the source's rule.
        self.assertEqual(self.word("CT17", self.cyclic(6, 4.5)), "reproduced")
        self.assertEqual(self.word("CT17", self.cyclic(6, 4.4)), "contradicted")
        self.assertEqual(self.word("CT17", self.cyclic(5, 4.5)), "undecided")

    def test_gaps_after_passes_that_a_run_did_not_have_are_not_guessed(self):
        data = self.packed({"race.letters.sag|1": self.curve("letters", "sag", 1, [(1, 0.1, 0.5, 0.3), (2, 0.2, 0.25, 0.2)]),
                            "race.letters.others|1": self.curve("letters", "oeg", 1, [(2, 0.1, 1e-7, 0.1)])})
        sag, done = data.runs("letters", "sag")[1], data.runs("letters", "oeg")[1]
        self.assertEqual([data.number(sag, of) for of in ("gap 1", "gap 2", "gap 20", "error 1.5", "gap 0.5")], [0.5, 0.25, None, 0.3, math.inf])
        self.assertEqual([data.number(sag, of) for of in ("passes 0.3", "seconds 0.3", "passes 1e-4")], [2.0, 0.2, math.inf])
        self.assertEqual(data.number(done, "gap 20"), 1e-6)  # It ended because it was there.
        self.assertEqual([crf.quotient(*x) for x in ((math.inf, math.inf), (1, math.inf), (1, 2))], [1.0, 0.0, 0.5])

    def test_the_second_best_step_is_by_the_objective(self):
        text = [f"curve,letters,asg-try,1e{p},1,3,0.1,{gap},{error}," for p, gap, error in
                [(-4, 9, 0.1), (-3, 5, 0.2), (-2, 2, 0.6), (-1, 1, 0.3), (0, 7, 0.2)]]
        (cell,) = crf.second_best(self.packed({"race.letters.stochastic|1": text}), dict(problems=["letters"], a=["asg"], above=1), "map")
        self.assertEqual(cell.samples, (2.0,))

    def test_a_combination_is_compared_with_the_rest_of_its_method(self):
        text = [f"grid,letters,sag,{key},1,30,1.0,{gap},,9.0" for key, gap in [("ms hedge", 0.2), ("u opt", 0.1), ("pl lmean", 0.4)]]
        data = self.packed({"grid.letters.sag|1": text})
        of = lambda a, b: [c.samples for c in crf.grid_ratio(data, dict(problems=["letters"], a=a, b=b, below=1), "map")]  # noqa: E731
        self.assertEqual(of("sag ms hedge", "others"), [(2.0,)])
        self.assertEqual(of(["sag ms hedge", "sag u opt"], "others"), [(0.5,), (0.25,)])
        self.assertEqual(of("sag u opt", "sag pl lmean"), [(0.25,)])

    def test_a_run_of_lbfgs_serves_every_seed_and_none_runs_twice(self):
        claim = next(c for c in table.load()[0] if c.id == "CT4")
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            wanted = crf.jobs([claim], 2, place, again=True)
            self.assertEqual([line for line in wanted if "lbfgs" in line], [f"race.{p}.lbfgs|1" for p in crf.TITLES])
            (place / "race.names.others|2.txt").write_text("")
            self.assertNotIn("race.names.others|2", crf.jobs([claim], 2, place))
        data = self.packed({"race.letters.lbfgs|1": self.curve("letters", "lbfgs", 1, [(10, 1, 2.0, 0.5)]),
                            "race.letters.others|7": self.curve("letters", "hybrid", 7, [(10, 1, 1.0, 0.5)])})
        (cell,) = crf.ratios(data, dict(problems=["letters"], a="hybrid", b="lbfgs", of="gap 10", below=1), "map")
        self.assertEqual(cell.samples, (0.5,))

    def test_runs_that_both_ended_at_their_last_gap_are_alike(self):
        looks = lambda gap: [(1, 0.1, 0.5, 0.3), (9, 0.9, gap, 0.1)]  # noqa: E731
        data = self.packed({"race.names.sag|1": self.curve("names", "sag-pl", 1, looks(2e-7)) + self.curve("names", "sag", 1, looks(9e-7))})
        (cell,) = crf.ratios(data, dict(problems=["names"], a="sag-pl", b="sag", of="gap 70", below=1), "map")
        self.assertEqual(cell.samples, (1.0,))

    def test_every_claim_names_jobs_that_there_are(self):
        for claim in table.load()[0]:
            for part in claim.parts if claim.family == "crf" else ():
                self.assertTrue(crf.needs(part), claim.id)
                self.assertLessEqual(set(crf.needs(part)), set(crf.JOBS), claim.id)


class BbobTest(unittest.TestCase):
    def packed(self, instances, regret_of_ours, methods=bbob.METHODS):
        """Data of runs of d = 2 where every peer's regrets are 1 and those of `auto` are regret_of_ours(function, instance)."""
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            for instance in instances:
                for method in methods:
                    lines = [f"{f},0.1," + ",".join([str(regret_of_ours(f, instance) if method == "auto" else 1.0)] * len(bbob.LOOKS))
                             for f in range(1, 25)]
                    (place / f"2|{method}|{instance}.txt").write_text("\n".join(lines) + "\n")
            bbob.pack(place, None, place / "rows")
            bbob.pack(place, None, place / "rows")  # A second time adds nothing.
            return bbob.Data(place / "rows")

    def word(self, name, data):
        claim = next(c for c in table.load()[0] if c.id == name)
        return table.verdict.judge(table.parts_of(claim, data)).word

    def test_one_row_turns_the_verdict(self):
        # f6 to f9: the median of four is between .5 and 1.9.
        even = lambda f, k: 0.5 if f % 2 else 1.9  # noqa: E731
        self.assertEqual(self.word("CP2", self.packed(range(71, 81), even)), "reproduced")
        self.assertEqual(self.word("CP2", self.packed(range(71, 81), lambda f, k: 0.6 if (f, k) == (7, 75) else even(f, k))), "undecided")
        self.assertEqual(self.word("CP2", self.packed(range(71, 81), lambda f, k: 1.1)), "contradicted")
        self.assertEqual(self.word("CP2", self.packed(range(71, 80), even)), "undecided")

    def test_a_function_that_is_lost_comes_first_even_where_its_group_is_won(self):
        data = self.packed(range(71, 81), lambda f, k: 1e3 if f == 3 else 2.0 if f == 8 else 0.1)
        self.assertEqual(self.word("CP1", data), "reproduced")
        found = bbob.cells(data)
        self.assertEqual(len(found), 24 * 3 * len(bbob.PEERS))
        self.assertEqual([(c[0], c[5][0]) for c in found[:16]], [("lost", 3)] * 15 + [("lost", 8)])
        first = next(line for line in bbob.summary(data) if line.startswith("| f3"))
        self.assertIn("f3 Rastrigin | 2 | 50 |", first)

    def test_regrets_below_the_target_are_alike(self):
        data = self.packed([71], lambda f, k: 1e-12)
        self.assertEqual(data.ratios(2, 1, "auto", "tpe", 50), {71: 1e-8})
        self.assertEqual(bbob.Data(pathlib.Path("/nowhere")).ratios(2, 1, "auto", "tpe", 50), {})

    def test_instances_are_the_seeds_and_none_runs_twice(self):
        claim = next(c for c in table.load()[0] if c.id == "CP6")
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            wanted = bbob.jobs([claim], 2, place, again=True)
            self.assertEqual(wanted, [f"5|{m}|{k}" for k in (71, 72) for m in bbob.METHODS])
            (place / "5|auto|72.txt").write_text("")
            self.assertNotIn("5|auto|72", bbob.jobs([claim], 2, place))


class TableTest(unittest.TestCase):
    def test_claims_have_names_of_their_own_and_known_measures(self):
        claims, pages = table.load()
        names = [claim.id for claim in claims]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({claim.family for claim in claims}, {entry["family"] for entry in pages})
        for claim in claims:
            for part in claim.parts:
                self.assertIn(part["measure"], table.FAMILIES[claim.family].MEASURES, claim.id)

    def test_every_claim_can_be_reproduced_and_contradicted_with_its_seeds(self):
        def sample(cell, inside):
            ends = [end for end in (cell.bounds.low, cell.bounds.high) if math.isfinite(end)]
            values = [0.0, 1.0] if cell.kind == "share" else [x for end in ends for x in (end, end - 1, end + 1, 0.99 * end, 1.01 * end)]
            return next(value for value in values if (value in cell.bounds) == inside)

        data = {name: family.Data() for name, family in table.FAMILIES.items()}
        for claim in table.load()[0]:
            parts = table.parts_of(claim, data[claim.family])
            cells = {(cell.label, cell.kind) for part in parts for cell in part.cells}
            level = table.verdict.LEVEL / len(cells)
            words = []
            for inside in (True, False):
                # As many cells as are needed keep the bounds, and the others do not; or none does.
                states = [[table.verdict.state(dataclasses.replace(cell, samples=(sample(cell, inside and k < part.need),) * claim.seeds), level)
                           for k, cell in enumerate(part.cells)] for part in parts]
                words.append(table.verdict.word_of(parts, states))
            self.assertEqual(words, ["reproduced", "contradicted"], claim.id)

    def test_rows_of_the_tree_are_small(self):
        self.assertLess(sum(path.stat().st_size for path in rows.FOLDER.glob("*")), 8_000_000)


if __name__ == "__main__":
    unittest.main()
