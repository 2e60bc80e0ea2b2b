"""A study that maximizes."""

import optuna

study = optuna.create_study(direction="maximize")
study.optimize(lambda trial: -((trial.suggest_float("x", -5, 5) - 1) ** 2), n_trials=25)
assert -9 < study.best_value <= 0
assert study.best_value == max(trial.value for trial in study.trials)
