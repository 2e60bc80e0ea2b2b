"""What verdict.py counts, on made-up samples whose intervals are known by hand."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["LUTHIER_SOURCE_DIR"], "bench", "reproduce"))
import verdict  # noqa: E402
from verdict import Bounds, Cell, Part  # noqa: E402


def cell(samples, bounds=Bounds(high=1.0), kind="median", **more):
    return Cell(("made up",), tuple(samples), bounds, kind, **more)


class IntervalTest(unittest.TestCase):
    def test_the_median_of_ten_lies_between_the_second_and_the_ninth(self):
        # P(at most 1 of 10 coins) = 11 / 1024 = 1.07 %, at most 2: 5.5 %.
        self.assertEqual(verdict.interval(cell(range(10)), 0.05), (1, 8))

    def test_five_samples_say_nothing_at_that_level(self):
        self.assertEqual(verdict.interval(cell(range(5)), 0.05), (-math.inf, math.inf))

    def test_a_share_has_the_published_interval(self):
        # Clopper and Pearson, 8 of 10 at 95 %: .4439 to .9748.
        low, high = verdict.interval(cell([1.0] * 8 + [0.0] * 2, kind="share"), 0.05)
        self.assertAlmostEqual(low, 0.4439, 4)
        self.assertAlmostEqual(high, 0.9748, 4)

    def test_a_share_of_all_reaches_one(self):
        # The lower end p has p^10 = 2.5 %.
        low, high = verdict.interval(cell([1.0] * 10, kind="share"), 0.05)
        self.assertAlmostEqual(low, 0.025**0.1, 6)
        self.assertEqual(high, 1.0)

    def test_what_is_exact_has_the_samples_own_range(self):
        self.assertEqual(verdict.interval(cell([3.0, 1.0], kind="exact"), 0.05), (1.0, 3.0))


class StateTest(unittest.TestCase):
    def test_an_interval_within_outside_and_across(self):
        low, high, both = [0.1 * k for k in range(10)], [2.0 + k for k in range(10)], [0.5] * 5 + [2.0] * 5
        self.assertEqual([verdict.state(cell(s), 0.05) for s in (low, high, both)], ["holds", "fails", "open"])

    def test_no_samples_are_open(self):
        self.assertEqual(verdict.state(cell([]), 0.05), "open")

    def test_an_open_bound_is_not_kept_by_equality(self):
        same = [1.0] * 20
        self.assertEqual(verdict.state(cell(same, Bounds(high=1.0)), 0.05), "holds")
        self.assertEqual(verdict.state(cell(same, Bounds(high=1.0, closed=False)), 0.05), "fails")

    def test_one_sample_outside_settles_what_is_exact(self):
        self.assertEqual(verdict.state(cell([1.0] * 99 + [1.1], kind="exact"), 0.05), "fails")
        self.assertEqual(verdict.state(cell([1.0] * 10, kind="exact"), 0.05), "holds")
        few = verdict.judge([Part("made up", (cell([1.0] * 9, kind="exact"),), 1)])
        self.assertEqual((few.word, few.deciding), ("undecided", "10 seeds"))

    def test_one_sample_settles_what_is_fixed(self):
        self.assertEqual([verdict.state(cell([x], kind="fixed"), 0.05) for x in (1.0, 1.1)], ["holds", "fails"])
        self.assertEqual(verdict.state(cell([], kind="fixed"), 0.05), "open")

    def test_two_bounds_are_kept_or_broken_on_either_side(self):
        bounds = Bounds(0.8, 1.25)
        self.assertEqual(verdict.state(cell([1.0] * 10, bounds), 0.05), "holds")
        self.assertEqual(verdict.state(cell([0.5] * 10, bounds), 0.05), "fails")
        self.assertEqual(verdict.state(cell([2.0] * 10, bounds), 0.05), "fails")


class JudgeTest(unittest.TestCase):
    yes, no, across = [0.5] * 20, [2.0] * 20, [0.5] * 10 + [2.0] * 10

    def word(self, need, *samples):
        return verdict.judge([Part("made up", tuple(cell(s) for s in samples), need)]).word

    def test_the_count_decides_once_its_interval_does(self):
        self.assertEqual(self.word(2, self.yes, self.yes, self.across), "reproduced")
        self.assertEqual(self.word(2, self.no, self.no, self.across), "contradicted")
        self.assertEqual(self.word(2, self.yes, self.no, self.across), "undecided")

    def test_one_contradicted_part_contradicts_the_claim(self):
        parts = [Part("a", (cell(self.yes),), 1), Part("b", (cell(self.across),), 1), Part("c", (cell(self.no),), 1)]
        self.assertEqual(verdict.judge(parts[:2]).word, "undecided")
        self.assertEqual(verdict.judge(parts).word, "contradicted")

    def test_many_cells_need_more_seeds(self):
        # Six seeds that agree: 1 / 64 an end, below 2.5 % / 1 and above 2.5 % / 2.
        agreeing, others = [0.5] * 6, [0.6] * 6
        self.assertEqual(self.word(1, agreeing), "reproduced")
        self.assertEqual(self.word(2, agreeing, others), "undecided")

    def test_a_cell_that_two_parts_ask_about_is_estimated_once(self):
        part = Part("made up", (cell([0.5] * 6),), 1)
        self.assertEqual(verdict.judge([part, part]).word, "reproduced")

    def test_says_how_many_seeds_would_decide(self):
        # All five below: 1 / 32 is above 2.5 %, 1 / 64 is not.
        parts = [Part("made up", (cell([0.5] * 5),), 1)]
        self.assertEqual(verdict.judge(parts).deciding, "6 seeds")
        self.assertEqual(verdict.judge([Part("made up", (cell(self.across),), 1)]).deciding, "more than 1,000 seeds")
        self.assertEqual(verdict.judge([Part("made up", (cell([]),), 1)]).deciding, "rows are missing")

    def test_what_chance_can_pass_is_found(self):
        # Ratios of 1.1 and 1 / 1.1: no worse than 1.25 whatever the coin says, and never below .2.
        alike = [1.1, 1 / 1.1] * 10
        no_worse = verdict.judge([Part("made up", (cell(alike, Bounds(high=1.25), paired="ratio"),), 1)])
        large = verdict.judge([Part("made up", (cell([0.1] * 20, Bounds(high=0.2), paired="ratio"),), 1)])
        self.assertEqual((no_worse.word, no_worse.alike), ("reproduced", 1.0))
        self.assertEqual(large.word, "reproduced")
        less = verdict.judge([Part("made up", (cell([-1.0] * 20, Bounds(high=0.0), paired="difference"),), 1)])
        self.assertLess(max(large.alike, less.alike), 0.1)  # 15 heads or more of 20: 2 %.


if __name__ == "__main__":
    unittest.main()
