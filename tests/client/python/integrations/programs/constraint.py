"""A quadratic function in a disc: results outside of it do not count."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", -15, 30)
    y = trial.suggest_float("y", -15, 30)
    trial.set_user_attr("outside", ((x - 5) ** 2 + y**2 - 25, -((x - 8) ** 2) - (y + 3) ** 2 + 7.7))
    return 4 * x**2 + 4 * y**2 + (x - 5) ** 2 + (y - 5) ** 2


sampler = optuna.samplers.TPESampler(constraints_func=lambda trial: trial.user_attrs["outside"], seed=1)
study = optuna.create_study(sampler=sampler)
study.enqueue_trial({"x": 2.0, "y": 1.0})
study.optimize(objective, n_trials=40)
best = study.best_params
assert (best["x"] - 5) ** 2 + best["y"] ** 2 <= 25
assert len(study.trials) == 40
