"""The model of examples/command and examples/parts: logistic regression, in plain Python."""

import math
import random

DIMENSION = 8


def make_data(rows, seed):
    """Points around a plane, a tenth of the labels flipped."""
    rng = random.Random(seed)
    truth = [rng.gauss(0.0, 1.0) for _ in range(DIMENSION)]
    data = []
    for _ in range(rows):
        x = [rng.gauss(0.0, 1.0) for _ in range(DIMENSION)]
        y = 1.0 if sum(w * v for w, v in zip(truth, x)) > 0 else -1.0
        data.append((x, -y if rng.random() < 0.1 else y))
    return data


def mean_loss(weights, data):
    total = 0.0
    for x, y in data:
        margin = y * sum(w * v for w, v in zip(weights, x))
        total += math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)
    return total / len(data)


def gradient(weights, data, l2):
    out = [l2 * w for w in weights]
    for x, y in data:
        margin = y * sum(w * v for w, v in zip(weights, x))
        scale = -y / (1.0 + math.exp(min(margin, 500.0))) / len(data)
        for k, v in enumerate(x):
            out[k] += scale * v
    return out
