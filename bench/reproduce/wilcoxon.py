"""Wilcoxon's signed-rank test, exact also under ties, and Holm's correction. Standard library only."""


def signed_rank(differences):
    """P(a rank sum of positive differences as small as this or smaller) when signs are fair coins.

    Small when the differences are mostly negative. Zeros are dropped, equal magnitudes share their mean rank; the
    distribution is counted over all sign patterns of the ranks at hand. 1.0 without a nonzero difference.
    """
    nonzero = sorted((d for d in differences if d != 0.0), key=abs)
    # Twice the midranks are whole numbers.
    ranks = [0] * len(nonzero)
    i = 0
    while i < len(nonzero):
        j = i
        while j < len(nonzero) and abs(nonzero[j]) == abs(nonzero[i]):
            j += 1
        for k in range(i, j):
            ranks[k] = i + 1 + j
        i = j
    observed = sum(r for r, d in zip(ranks, nonzero) if d > 0.0)
    counts = {0: 1}
    for r in ranks:
        more = dict(counts)
        for total, ways in counts.items():
            more[total + r] = more.get(total + r, 0) + ways
        counts = more
    return sum(ways for total, ways in counts.items() if total <= observed) / 2 ** len(ranks)


def holm(p_values):
    """Adjusted p-values, in the order given (Holm 1979): reject where one is below the level."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
