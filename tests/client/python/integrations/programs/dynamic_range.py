"""Shares that sum to one at most: a bound depends on another parameter."""

import optuna


def objective(trial):
    a = trial.suggest_float("a", 0.0, 1.0)
    b = trial.suggest_float("b", 0.0, 1.0 - a)
    k = trial.suggest_int("k", 1, 1 + int(8 * a))
    assert 0 <= b <= 1 - a and 1 <= k <= 1 + int(8 * a)
    return (a - 0.3) ** 2 + (b - 0.5) ** 2 + k


study = optuna.create_study()
study.optimize(objective, n_trials=12)
assert set(study.best_params) == {"a", "b", "k"}
assert all(t.params["a"] + t.params["b"] <= 1 for t in study.trials)
