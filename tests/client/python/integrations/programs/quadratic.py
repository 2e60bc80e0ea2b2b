"""The first program of every tutorial."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", -10, 10)
    return (x - 2) ** 2


study = optuna.create_study()
study.optimize(objective, n_trials=30)
assert study.best_value < 10
assert study.best_value == (study.best_params["x"] - 2) ** 2
assert len(study.trials) == 30
