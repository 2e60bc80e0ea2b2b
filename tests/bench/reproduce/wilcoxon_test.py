"""Compares the signed-rank test with brute force over all sign patterns, and with published values."""

import itertools
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["LUTHIER_SOURCE_DIR"], "bench", "reproduce"))
import wilcoxon  # noqa: E402


def brute_force(differences):
    kept = [d for d in differences if d != 0.0]
    ranks = []
    for d in kept:
        below = sum(abs(e) < abs(d) for e in kept)
        same = sum(abs(e) == abs(d) for e in kept)
        ranks.append(below + (same + 1) / 2)
    observed = sum(r for r, d in zip(ranks, kept) if d > 0)
    patterns = list(itertools.product([0, 1], repeat=len(kept)))
    return sum(sum(r for r, s in zip(ranks, p) if s) <= observed for p in patterns) / len(patterns)


class WilcoxonTest(unittest.TestCase):
    def test_agrees_with_brute_force_with_and_without_ties(self):
        for seed in range(200):
            stream = random.Random(seed)
            size = stream.randrange(0, 9)
            values = [stream.choice([stream.gauss(0, 1), float(stream.randrange(-2, 3))]) for _ in range(size)]
            self.assertAlmostEqual(wilcoxon.signed_rank(values), brute_force(values), msg=f"seed {seed}")

    def test_all_of_one_sign_is_one_pattern_of_all(self):
        self.assertEqual(wilcoxon.signed_rank([-1.0, -2.0, -3.0, -4.0, -5.0]), 1 / 32)
        self.assertEqual(wilcoxon.signed_rank([1.0, 2.0]), 1.0)
        self.assertEqual(wilcoxon.signed_rank([]), 1.0)

    def test_published_critical_value(self):
        # n = 10: a rank sum of 10 is the largest with one-sided p <= 0.05 (tables: T = 10).
        values = [-1.0, -2.0, -3.0, 4.0, -5.0, 6.0, -7.0, -8.0, -9.0, -10.0]
        self.assertLessEqual(wilcoxon.signed_rank(values), 0.05)
        values = [1.0, -2.0, -3.0, 4.0, -5.0, 6.0, -7.0, -8.0, -9.0, -10.0]
        self.assertGreater(wilcoxon.signed_rank(values), 0.05)

    def test_holm_by_hand(self):
        self.assertEqual(wilcoxon.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
        self.assertEqual(wilcoxon.holm([0.6, 0.7]), [1.0, 1.0])


if __name__ == "__main__":
    unittest.main()
