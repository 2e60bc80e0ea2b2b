"""What claims.py counts, on made-up runs."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["LUTHIER_SOURCE_DIR"], "bench", "reproduce"))
import claims  # noqa: E402


class FakeRun:
    def __init__(self, best):
        self.best = best


class FakeResults:
    def __init__(self, **settings):
        self.runs = {("branin", name.replace("_", "-")): {0: FakeRun(best)} for name, best in settings.items()}

    def seeds(self, problem, setting):
        return self.runs.get((problem, setting), {})


class CouplingTest(unittest.TestCase):
    random = [8.0, 4.0, 2.0, 1.0]

    def test_every_fourth_trial_is_worth_one_of_random_searchs(self):
        best = [9.0, 9.0, 9.0, 8.0, 8.0, 8.0, 8.0, 4.0]
        self.assertEqual(claims.coupling(FakeResults(random=self.random, own_hbo=best)), (1, 1, 5))

    def test_a_point_that_comes_a_trial_late_breaks_it(self):
        best = [9.0, 9.0, 9.0, 9.0, 8.0, 8.0, 8.0, 4.0]
        self.assertEqual(claims.coupling(FakeResults(random=self.random, own_hbo=best)), (0, 1, 5))

    def test_only_harmless_settings_beside_a_random_search_are_checked(self):
        best = [9.0] * 8
        self.assertEqual(claims.coupling(FakeResults(own_hbo=best)), (0, 0, 0))
        self.assertEqual(
            claims.coupling(FakeResults(random=self.random, own_bo=best, m_lbo_ts=best, se_hbo_ei_farthest=best)), (0, 0, 0)
        )


class ChanceTest(unittest.TestCase):
    def test_equal_runs_always_pass(self):
        self.assertEqual(claims.by_chance([([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])] * 7), (7, 7, 7))

    def test_runs_that_differ_pass_as_often_as_a_coin_says(self):
        # One seed, so a pair passes in one of two cases: 40 pairs have 20 on average, and 15 to 25 in nine of ten.
        low, middle, high = claims.by_chance([([1.0], [100.0])] * 40)
        self.assertTrue(13 <= low < middle < high <= 27 and 18 <= middle <= 22, (low, middle, high))

    def test_the_rule_forgives_a_fifth_and_what_is_nearly_zero(self):
        self.assertTrue(claims.bearable([1.2], [1.0]))
        self.assertFalse(claims.bearable([1.21], [1.0]))
        self.assertTrue(claims.bearable([1e-10], [1e-15]))


if __name__ == "__main__":
    unittest.main()
