"""A study that ends with its time."""

import time

import optuna


def objective(trial):
    time.sleep(0.05)
    return trial.suggest_float("x", 0, 1)


began = time.monotonic()
study = optuna.create_study()
study.optimize(objective, timeout=0.5)
assert time.monotonic() - began < 5
assert 1 <= len(study.trials) <= 12
