#!/usr/bin/env python3
"""A training loop that can be paused and go on: what a program needs for algorithms that train in parts.

Logistic regression by momentum gradient descent, in plain Python. It trains to the step that Luthier names, saves a
checkpoint, and exits; when the setting is promoted it is started again with a higher step and that checkpoint. Run it
by hand, too:

    python3 examples/parts/train.py --learning-rate 0.5 --l2 0.001
"""

import argparse
import json
import os
import random
import select
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from logistic import DIMENSION, gradient, make_data, mean_loss  # The model: ../logistic.py.

EPOCHS = 27  # When nobody names a step.


def load(path):
    """The state that was saved there, or None: then training begins afresh."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def save(state, path):
    """Whole or not at all: a crash in the middle leaves the file as it was."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def told_to_end():
    """Whether Luthier wants this run to end before its step: a line on the reply descriptor."""
    if "LUTHIER_REPLY_FD" not in os.environ:
        return False
    return bool(select.select([int(os.environ["LUTHIER_REPLY_FD"])], [], [], 0)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--l2", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    # On a disk that all workers see, or a trial that another worker takes up begins afresh.
    parser.add_argument("--checkpoints", default=os.path.join(tempfile.gettempdir(), "luthier-parts"))
    args = parser.parse_args()
    target = int(os.environ.get("LUTHIER_TARGET_STEP", EPOCHS))

    # Every trial sees the same data; only the starting point is the trial's own.
    data = make_data(200, seed=1)
    train, validation = data[:120], data[120:]
    state = load(os.environ["LUTHIER_CHECKPOINT"]) if "LUTHIER_CHECKPOINT" in os.environ else None
    if state is None:
        rng = random.Random(int(os.environ.get("LUTHIER_SEED", "0")))
        state = {"epoch": 0, "weights": [rng.gauss(0.0, 0.1) for _ in range(DIMENSION)], "velocity": [0.0] * DIMENSION}
    start = state["epoch"]

    while state["epoch"] < target:
        g = gradient(state["weights"], train, args.l2)
        state["velocity"] = [args.momentum * v - args.learning_rate * d for v, d in zip(state["velocity"], g)]
        state["weights"] = [w + v for w, v in zip(state["weights"], state["velocity"])]
        state["epoch"] += 1  # A step is an epoch that is done.
        line = {"loss": mean_loss(state["weights"], validation), "step": state["epoch"], "start_step": start}
        ending = told_to_end()
        if state["epoch"] == target or ending:
            name = "{}-{}-{}.json".format(
                os.environ.get("LUTHIER_STUDY", "study"), os.environ.get("LUTHIER_TRIAL", "0"), state["epoch"]
            )
            line["checkpoint"] = os.path.join(args.checkpoints, name)
            save(state, line["checkpoint"])
        print(json.dumps(line), flush=True)
        if ending:
            break


if __name__ == "__main__":
    main()
