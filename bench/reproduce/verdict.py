"""Judges a claim by intervals. Nothing here knows what is compared.

A claim has parts, a part has cells, and a cell has one sample for each seed, bounds that the claim sets, and a kind:

    median  The median over all seeds that could be drawn lies within the bounds. Its interval is that of the sign test:
            two order statistics of the samples, whatever their distribution.
    share   The share of seeds whose sample is 1 lies within the bounds. Its interval is Clopper's and Pearson's.
    exact   Every sample lies within the bounds. Nothing is estimated: one sample outside settles it, ten within are asked.
    fixed   As exact, of a number that no seed changes: one sample settles it either way.

A cell *holds* if its interval lies within the bounds, *fails* if it lies outside, and is *open* otherwise. All intervals of
a claim hold at once with a confidence of 95 % (Bonferroni). A part asks for at least `need` of its cells; from those that
hold to those that don't fail is the interval of its count. A claim is reproduced if every part has enough cells,
contradicted if a part cannot get enough, and undecided otherwise.
"""

import dataclasses
import functools
import math
import random

LEVEL = 0.05  # Of a claim: the chance that any of its intervals misses.
ENOUGH = 10  # Samples of an exact cell that holds.
REPRODUCED, CONTRADICTED, UNDECIDED = "reproduced", "contradicted", "undecided"
HOLDS, FAILS, OPEN = "holds", "fails", "open"
TRIED = [5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 500, 700, 1000]  # Numbers of seeds.


@dataclasses.dataclass(frozen=True)
class Bounds:
    """`low` to `high`; each belongs to the range where it is `closed`."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True

    def above_low(self, value):
        return value >= self.low if self.closed else value > self.low

    def below_high(self, value):
        return value <= self.high if self.closed else value < self.high

    def __contains__(self, value):
        return self.above_low(value) and self.below_high(value)


def bounds(part):
    """The bounds that a part of a claim sets."""
    for key, make in (("below", lambda x: Bounds(high=x, closed=False)), ("at_most", lambda x: Bounds(high=x)),
                      ("above", lambda x: Bounds(low=x, closed=False)), ("at_least", lambda x: Bounds(low=x)),
                      ("within", lambda x: Bounds(*x))):
        if key in part:
            return make(part[key])
    raise KeyError("a part has no bound")


@dataclasses.dataclass(frozen=True)
class Cell:
    label: tuple
    samples: tuple
    bounds: Bounds
    kind: str = "median"
    paired: str = ""  # "ratio" or "difference" of two methods: by chance x is as likely as 1 / x, or as -x.

    @property
    def centre(self):
        """The median, or the share."""
        if not self.samples:
            return math.nan
        if self.kind == "share":
            return sum(self.samples) / len(self.samples)
        ordered = sorted(self.samples)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


@functools.lru_cache(maxsize=None)
def tail(n, k):
    """P(at least k heads of n fair coins)."""
    return sum(math.comb(n, i) for i in range(max(k, 0), n + 1)) / 2**n


@functools.lru_cache(maxsize=None)
def share_interval(k, n, side):
    """Clopper's and Pearson's interval of a probability of which k of n were seen; `side`: the level of each end."""

    def upper_tail(p, k):  # P(at least k of n).
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))

    def solve(rises):  # The p at which a rising function passes 0.
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if rises(middle) > 0 else (middle, high)
        return 0.5 * (low + high)

    low = 0.0 if k == 0 else solve(lambda p: upper_tail(p, k) - side)
    high = 1.0 if k == n else solve(lambda p: side - (1.0 - upper_tail(p, k + 1)))
    return low, high


def interval(cell, level):
    """The cell's interval at that two-sided level."""
    n = len(cell.samples)
    if n == 0:
        return (0.0, 1.0) if cell.kind == "share" else (-math.inf, math.inf)
    ordered = sorted(cell.samples)
    if cell.kind in ("exact", "fixed"):
        return ordered[0], ordered[-1]
    if cell.kind == "share":
        return share_interval(round(sum(ordered)), n, level / 2)
    k = 0  # Samples that may lie on the wrong side of either end.
    while 2 * (k + 1) <= n and tail(n, n - k) <= level / 2:
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else (-math.inf, math.inf)


def state(cell, level):
    if not cell.samples:
        return OPEN
    low, high = interval(cell, level)
    if cell.kind in ("exact", "fixed"):
        within = low in cell.bounds and high in cell.bounds
        return FAILS if not within else HOLDS if cell.kind == "fixed" or len(cell.samples) >= ENOUGH else OPEN
    if cell.bounds.above_low(low) and cell.bounds.below_high(high):
        return HOLDS
    return FAILS if not cell.bounds.below_high(low) or not cell.bounds.above_low(high) else OPEN


def state_with(cell, n, level):
    """Returns the state that an open cell would have with n seeds that fall as its samples did."""
    if not cell.samples:
        return OPEN
    if cell.kind == "exact":
        return HOLDS if n >= ENOUGH else OPEN
    if cell.kind == "share":
        low, high = share_interval(round(cell.centre * n), n, level / 2)
        if cell.bounds.above_low(low) and cell.bounds.below_high(high):
            return HOLDS
        return FAILS if not cell.bounds.below_high(low) or not cell.bounds.above_low(high) else OPEN
    inside = [round(n * sum(map(test, cell.samples)) / len(cell.samples))
              for test in (cell.bounds.above_low, cell.bounds.below_high)]
    if all(tail(n, count) <= level / 2 for count in inside):
        return HOLDS
    # A bound at infinity is kept by all.
    one_sided = not (math.isfinite(cell.bounds.low) and math.isfinite(cell.bounds.high))
    return FAILS if any(tail(n, n - count) <= level / 2 for count in (inside if not one_sided else [min(inside)])) else OPEN


@dataclasses.dataclass(frozen=True)
class Part:
    text: str
    cells: tuple
    need: int


@dataclasses.dataclass(frozen=True)
class Verdict:
    word: str
    counts: tuple  # (those that hold, those that don't fail, needed, all) of each part.
    states: tuple  # Of each part, those of its cells.
    intervals: tuple
    seeds: tuple  # Fewest and most of a cell.
    deciding: str  # Of an undecided claim, how many seeds would decide.
    alike: float  # How often methods that are alike pass; NaN where nothing is paired.


def level_of(parts):
    """Returns the error level of one interval. A cell that two parts ask about is estimated once."""
    return LEVEL / max(1, len({(cell.label, cell.samples, cell.kind) for part in parts for cell in part.cells}))


def word_of(parts, states):
    words = []
    for part, found in zip(parts, states):
        hold, fail = found.count(HOLDS), found.count(FAILS)
        words.append(REPRODUCED if hold >= part.need else CONTRADICTED if len(found) - fail < part.need else UNDECIDED)
    return CONTRADICTED if CONTRADICTED in words else REPRODUCED if set(words) == {REPRODUCED} else UNDECIDED


def deciding_seeds(parts, level):
    cells = [cell for part in parts for cell in part.cells]
    if any(not cell.samples for cell in cells):
        return "rows are missing"
    now = max(len(cell.samples) for cell in cells)
    for n in TRIED:
        if n <= now:
            continue
        states = []
        for part in parts:
            found = [state(cell, level) for cell in part.cells]
            states.append([state_with(cell, n, level) if s == OPEN else s for cell, s in zip(part.cells, found)])
        if word_of(parts, states) != UNDECIDED:
            return f"{n} seeds"
    return f"more than {TRIED[-1]:,} seeds"


def swap(cell, coin):
    """The cell after a coin has swapped the two methods of each seed."""
    other = {"": lambda x: x, "ratio": lambda x: 1.0 / x if x else math.inf, "difference": lambda x: -x}[cell.paired]
    return dataclasses.replace(cell, samples=tuple(other(x) if coin.random() < 0.5 else x for x in cell.samples))


def passes_alike(parts, level, rounds=100):
    """How often the claim is reproduced if each seed's two methods are swapped by a coin."""
    cells = [cell for part in parts for cell in part.cells]
    if not any(cell.paired and cell.samples for cell in cells):
        return math.nan
    coin = random.Random(0)
    passed = 0
    for _ in range(rounds):
        swapped = [Part(p.text, tuple(swap(c, coin) for c in p.cells), p.need) for p in parts]
        passed += word_of(swapped, [[state(c, level) for c in p.cells] for p in swapped]) == REPRODUCED
    return passed / rounds


def judge(parts):
    level = level_of(parts)
    states = tuple(tuple(state(cell, level) for cell in part.cells) for part in parts)
    word = word_of(parts, states)
    seeds = [len(cell.samples) for part in parts for cell in part.cells]
    return Verdict(
        word, tuple((s.count(HOLDS), len(s) - s.count(FAILS), part.need, len(s)) for s, part in zip(states, parts)), states,
        tuple(tuple(interval(cell, level) for cell in part.cells) for part in parts), (min(seeds, default=0), max(seeds, default=0)),
        deciding_seeds(parts, level) if word == UNDECIDED else "", passes_alike(parts, level))
