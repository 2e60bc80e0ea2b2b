"""The objective itself decides that a trial is not worth going on with."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    if x > 0.5:
        raise optuna.exceptions.TrialPruned("too large")
    return x


study = optuna.create_study()
study.optimize(objective, n_trials=20)
pruned = study.get_trials(states=(optuna.trial.TrialState.PRUNED,))
complete = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
assert len(pruned) + len(complete) == 20
assert all(trial.params["x"] > 0.5 for trial in pruned)
assert study.best_value <= 0.5
