"""Parameters that only some trials have."""

import optuna


def objective(trial):
    kind = trial.suggest_categorical("kind", ["line", "parabola"])
    if kind == "line":
        return abs(trial.suggest_float("slope", -2, 2)) + 1
    a = trial.suggest_float("a", 0.5, 2)
    b = trial.suggest_float("b", -3, 3)
    return a * b * b


study = optuna.create_study()
study.optimize(objective, n_trials=30)
for trial in study.trials:
    assert set(trial.params) == ({"kind", "slope"} if trial.params["kind"] == "line" else {"kind", "a", "b"})
