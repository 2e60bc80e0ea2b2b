"""A study that ends after so many complete trials, whichever call runs them."""

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    x = trial.suggest_float("x", -7, 7)
    y = trial.suggest_float("y", -7, 7)
    return (x - 1) ** 2 + (y + 3) ** 2


study = optuna.create_study()
enough = optuna.study.MaxTrialsCallback(10, states=(optuna.trial.TrialState.COMPLETE,))
study.optimize(objective, n_trials=50, callbacks=[enough])
assert len(study.trials) == 10
study.optimize(objective, n_trials=2)
assert len(study.trials) == 12
