#!/usr/bin/env python3
"""Logistic regression by momentum gradient descent, in plain Python: a program that Luthier can tune.

It takes its hyperparameters as arguments and prints one JSON line an epoch. Luthier reads the lines with the study's
metric ("loss"): the last one is the result, those before it are the learning curve. Run it by hand, too:

    python3 examples/command/train.py --learning-rate 0.5 --l2 0.001
"""

import argparse
import json
import os
import random
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from logistic import DIMENSION, gradient, make_data, mean_loss  # The model: ../logistic.py.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--l2", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()

    # Every trial sees the same data; only the starting point is the trial's own.
    data = make_data(200, seed=1)
    train, validation = data[:120], data[120:]
    rng = random.Random(int(os.environ.get("LUTHIER_SEED", "0")))
    weights = [rng.gauss(0.0, 0.1) for _ in range(DIMENSION)]
    velocity = [0.0] * DIMENSION

    for epoch in range(args.epochs):
        g = gradient(weights, train, args.l2)
        velocity = [args.momentum * v - args.learning_rate * d for v, d in zip(velocity, g)]
        weights = [w + v for w, v in zip(weights, velocity)]
        loss = mean_loss(weights, validation)
        # flush: the point is seen now, not when the program ends.
        print(json.dumps({"loss": loss, "train_loss": mean_loss(weights, train), "step": epoch}), flush=True)
    print(f"{args.epochs} epochs done", file=sys.stderr)


if __name__ == "__main__":
    main()
