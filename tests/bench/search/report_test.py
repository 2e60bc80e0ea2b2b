"""The report's verdicts on made-up runs, and the file format that search_bench and the peers share.

  report_test.py SOURCE_DIR BIN_DIR

Needs the standard library only. What needs search_bench or function_server is skipped where they are not built.
"""

import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BIN = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
sys.path[:0] = [str(SOURCE / "bench" / "search"), str(SOURCE / "bench" / "search" / "peers")]
import methods  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import run_peers  # noqa: E402


def run(method: str, function: str, seed: int, regrets: list[float], planned: int = 0, ms: float = 1.0) -> results.Run:
    values = [1.0 + r for r in regrets]
    return results.Run(method, function, seed, planned or len(regrets), values, regrets, [ms] * len(regrets))


class Quantiles(unittest.TestCase):
    def test_between_order_statistics(self) -> None:
        self.assertEqual(results.quantile([3.0, 1.0, 2.0], 0.5), 2.0)
        self.assertEqual(results.quantile([1.0, 2.0], 0.5), 1.5)
        self.assertEqual(results.quantile([5.0], 0.95), 5.0)
        self.assertAlmostEqual(results.quantile([0.0, 1.0, 2.0, 3.0, 4.0], 0.95), 3.8)


class Cells(unittest.TestCase):
    def test_medians_over_seeds_and_nothing_beyond_the_budget(self) -> None:
        runs = [run("a", "branin", s, [float(s + 1)] * 60) for s in range(3)]
        cells = results.cells_of(runs)
        self.assertEqual(cells["a", "branin", 50], results.Cell(2.0, 1.5, 2.5, 3))
        self.assertNotIn(("a", "branin", 100), cells)

    def test_a_method_that_ended_by_itself_keeps_its_best(self) -> None:
        cells = results.cells_of([run("a", "branin", 0, [3.0, 2.0], planned=100)])
        self.assertEqual(cells["a", "branin", 100].median, 2.0)
        self.assertNotIn(("a", "branin", 200), cells)


class Verdicts(unittest.TestCase):
    def cells(self, **medians: float) -> dict[tuple[str, str, int], results.Cell]:
        return {(m, "branin", 50): results.Cell(v, v, v, 10) for m, v in medians.items()}

    def judge(self, **medians: float) -> results.Verdict:
        (verdict,) = results.judge(self.cells(**medians), "ours", ["a", "b"], ["branin"])
        return verdict

    def test_against_the_best_peer_of_the_cell(self) -> None:
        verdict = self.judge(ours=0.2, a=0.3, b=0.1)
        self.assertEqual((verdict.best_peer, verdict.beats_best, verdict.meets_target), ("b", False, False))
        self.assertTrue(self.judge(ours=0.1, a=0.3, b=0.1).beats_best)

    def test_tiny_regrets_tie(self) -> None:
        self.assertTrue(self.judge(ours=9e-11, a=0.0, b=1.0).beats_best)
        self.assertFalse(self.judge(ours=2e-10, a=0.0, b=1.0).beats_best)

    def test_targets_have_no_ties(self) -> None:
        self.assertEqual(results.TARGETS["branin"], (1e-10, 1e-12, 1e-12))
        self.assertTrue(self.judge(ours=1e-10, a=1.0).meets_target)
        self.assertFalse(self.judge(ours=1.1e-10, a=1.0).meets_target)

    def test_no_peer_is_no_victory(self) -> None:
        verdict = self.judge(ours=0.0)
        self.assertIsNone(verdict.best)
        self.assertFalse(verdict.beats_best)

    def test_there_are_36_cells(self) -> None:
        self.assertEqual(sorted(results.TARGETS), sorted(run_peers.FUNCTIONS))
        cells = {
            (m, f, n): results.Cell(0.0, 0.0, 0.0, 10) for m in "ab" for f in results.TARGETS for n in results.JUDGED
        }
        self.assertEqual(len(results.judge(cells, "a", ["b"], list(results.TARGETS))), 36)
        self.assertEqual(results.duel(cells, "a", "b", list(results.TARGETS)), (36, 36))

    def test_a_duel_counts_shared_cells_only(self) -> None:
        cells = self.cells(ours=0.2, a=0.1)
        cells["ours", "branin", 100] = results.Cell(0.0, 0.0, 0.0, 10)
        self.assertEqual(results.duel(cells, "ours", "a", ["branin"]), (0, 1))


class Times(unittest.TestCase):
    def test_the_last_suggestions_before_n_count(self) -> None:
        r = run("a", "hartmann6", 0, [1.0] * 60)
        r.suggest_ms = [1000.0] * 40 + [float(i) for i in range(1, 11)] + [1000.0] * 10
        p50, p95 = results.latency_of([r], 50)
        self.assertEqual(p50, 5.5)
        self.assertAlmostEqual(p95, 9.55)
        self.assertIsNone(results.latency_of([r], 100))
        self.assertEqual(results.total_ms([r], 50), 40055.0)


class Pairing(unittest.TestCase):
    def test_equal_values_under_equal_seeds(self) -> None:
        ours = [run("o", "branin", s, [s + 0.5, 0.2]) for s in range(2)]
        self.assertTrue(results.paired(ours, [run("a", "branin", 1, [1.5, 9.0])], 1))
        self.assertFalse(results.paired(ours, [run("a", "branin", 1, [0.5, 9.0])], 1))
        self.assertFalse(results.paired(ours, [run("a", "camel", 1, [1.5])], 1))


class Numbers(unittest.TestCase):
    def test_two_digits(self) -> None:
        for value, text in (
            (0.0, "0"), (9e-16, "0"), (1e-12, "1e-12"), (1.234e-7, "1.2e-7"), (0.0451, "0.045"), (1.25, "1.2"),
            (126.4, "126"), (2.5e6, "2.5e6"), (3e10, "3e10"), (float("nan"), "–"),
        ):  # fmt: skip
            self.assertEqual(report.number(value), text)


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, text: str) -> Path:
        path = self.folder / "branin-s0-n2.csv"
        path.write_text(text)
        return path

    def test_header_is_the_one_of_lib_simulate(self) -> None:
        source = (SOURCE / "lib" / "simulate" / "simulate.cc").read_text()
        self.assertIn('"' + ",".join(results.HEADER) + '"', source)
        self.assertEqual(results.HEADER, methods.HEADER)

    def test_damaged_files_are_refused_with_the_place(self) -> None:
        head = ",".join(results.HEADER) + "\n"
        good = "a,branin,0,1,1.0,1.0,0.6,0.1\n"
        for text, message in (
            ("x,y\n", "first line"),
            (head, "no rows"),
            (head + good + "a,branin,0,2,1.0\n", ":3: 5 fields"),
            (head + good + "a,branin,0,3,1.0,1.0,0.6,0.1\n", ":3: evaluation 3 after 1"),
            (head + good + "a,branin,1,2,1.0,1.0,0.6,0.1\n", ":3: rows of two runs"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                results.read_run(self.write(text), 2)

    def results(self) -> None:
        """A small but whole set of results."""
        for method, folder, regret in (("bo", "ours/x/bo", 0.01), ("random", "ours/x/random", 1.0), ("tpe", "tpe", 0.5)):
            (self.folder / folder).mkdir(parents=True)
            for function in ("hartmann6", "hartmann6+shift"):
                for seed in range(3):
                    lines = [",".join(results.HEADER)]
                    lines += [f"{method},{function},{seed},{i + 1},{seed},{seed},{regret},2.000" for i in range(200)]
                    path = self.folder / folder / f"{function}-s{seed}-n200.csv"
                    path.write_text("\n".join(lines) + "\n")
        (self.folder / "smac").mkdir()
        (self.folder / "smac" / "branin-s0-n100.failed").write_text("after 3 evaluations: no | luck\n")
        manifest = {
            "ours": ["bo"], "ours_folder": "ours/x", "ours_version": "v", "cpu": "c", "cores": 2, "clock_mhz": 1.0,
            "system": "s", "python": "3", "loads": [0.5, 2.0],
            "environment_failures": {"hebo": "no wheel"}, "versions": {"core": ["optuna==9.9"]},
            "peers": {n: {"title": p.title, "start": p.start, "environment": p.environment}
                      for n, p in methods.PEERS.items()},
        }  # fmt: skip
        (self.folder / "manifest.json").write_text(json.dumps(manifest))

    def test_a_report_of_what_there_is(self) -> None:
        self.results()
        command = [sys.executable, "-B", str(SOURCE / "bench" / "search" / "report.py"), "--no_plots"]
        subprocess.run([*command, "--results", str(self.folder), "--out", str(self.folder / "out")], check=True)
        text = (self.folder / "out" / "search.md").read_text()
        self.assertIn("At or below the best of all peers: **3 of 3**", text)
        self.assertIn("| hartmann6 | 50 | 0.01 (0.01 … 0.01) | 0.001 | **no** |", text)
        self.assertIn("| tpe | 3 of 3 | 36 |", text)
        self.assertIn("optuna 9.9", text)
        self.assertIn("- hebo: could not be installed: no wheel", text)
        self.assertIn("- smac, 1 run failed (branin-s0-n100): midway: no | luck", text)
        self.assertIn("10, checked |", text)
        with (self.folder / "out" / "search.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.assertIn({"algorithm": "tpe", "function": "hartmann6+shift", "n": "100", "seeds": "3", "regret_q25": "0.5",
                       "regret_median": "0.5", "regret_q75": "0.5", "ms_p50": "2", "ms_p95": "2"}, rows)  # fmt: skip


    def test_a_report_without_peers_claims_nothing(self) -> None:
        self.results()
        text = report.Report(
            [r for r in results.load(self.folder, "ours/x")[0] if r.method == "bo"],
            [],
            json.loads((self.folder / "manifest.json").read_text()),
            ["bo"],
        ).markdown(plots=False)
        self.assertIn("best of all peers: **0 of 0**", text)
        self.assertIn("| 0.001 | **no** | – | – |", text)
        self.assertIn("- tpe: not run yet.", text)


@unittest.skipUnless((BIN / "function_server").exists() and (BIN / "search_bench").exists(), "benchmarks are not built")
class Programs(unittest.TestCase):
    def test_peers_begin_where_ours_do(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ours-n6.csv"
            subprocess.run(
                [BIN / "search_bench", "--algorithms=bo", "--functions=hartmann3", "--seeds=1", "--first_seed=5"]
                + ["--evaluations=6", "--shift", f"--csv={path}"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            ours = results.read_run(path, 6)
        self.assertEqual(ours.function, "hartmann3+shift")
        f = methods.Function(BIN / "function_server", "hartmann3+shift", seed=5, evaluations=4)
        self.addCleanup(f.close)
        theirs = [f(x) for x in f.initial(4)]
        self.assertEqual(theirs, ours.values[:4])
        rows = methods.rows("peer", "hartmann3+shift", f)
        self.assertEqual([float(r[6]) for r in rows], ours.regrets[:4])
        with self.assertRaises(methods.Finished):
            f(f.lower)

    def test_gradients_only_where_they_are_asked_for(self) -> None:
        def rows(algorithm: str, *options: str) -> tuple[list[float], str]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "rows-n16.csv"
                done = subprocess.run(
                    [BIN / "search_bench", f"--algorithms={algorithm}", "--functions=rosenbrock3", "--seeds=1"]
                    + ["--evaluations=16", f"--csv={path}", *options],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                return results.read_run(path, 16).values, done.stderr

        plain, silence = rows("bo")
        self.assertEqual(rows("auto"), (plain, ""))  # Bit for bit, and no complaint: peers get no gradients, either.
        values, complaint = rows("fobo")
        self.assertEqual(values, plain)
        self.assertIn("fobo gets no gradients without --gradients", complaint)
        informed, nothing = rows("auto", "--gradients")
        self.assertNotEqual(informed, plain)
        self.assertEqual(rows("fobo", "--gradients"), (informed, ""))
        self.assertEqual((rows("bo", "--gradients"), silence, nothing), ((plain, ""), "", ""))

    def test_points_outside_the_box_are_refused(self) -> None:
        f = methods.Function(BIN / "function_server", "branin", seed=0, evaluations=4)
        self.addCleanup(f.close)
        with self.assertRaisesRegex(ValueError, "outside"):
            f([11.0, 0.0])
        with self.assertRaisesRegex(ValueError, "outside"):
            f([float("nan"), 0.0])
        with self.assertRaisesRegex(ValueError, "3 coordinates"):
            f([0.0, 0.0, 0.0])

    def test_the_functions_are_sound(self) -> None:
        run_peers.verify(BIN / "function_server")


if __name__ == "__main__":
    unittest.main()
