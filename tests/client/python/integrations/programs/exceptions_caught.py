"""An objective that fails now and then."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", -1, 1)
    if trial.number % 3 == 2:
        raise ValueError("diverged")
    return x * x


study = optuna.create_study()
study.optimize(objective, n_trials=9, catch=(ValueError,))
failed = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.FAIL]
assert len(failed) == 3
try:
    study.optimize(objective, n_trials=3)
except ValueError:
    pass
else:
    raise AssertionError("the exception was lost")
