"""The first program of most people, with all options that it may have."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", -100, 100)
    y = trial.suggest_categorical("y", [-1, 0, 1])
    return x**2 + y


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3, n_startup_trials=5), direction="minimize")
study.optimize(objective, n_trials=20, timeout=600, show_progress_bar=True, gc_after_trial=True, callbacks=None)
trial = study.best_trial
assert (trial.value, trial.values) == (study.best_value, [study.best_value])
assert [d.name for d in study.directions] == ["MINIMIZE"] and trial.number in [t.number for t in study.best_trials]
assert objective(optuna.trial.FixedTrial(trial.params)) == trial.value
assert trial.datetime_start <= trial.datetime_complete
