"""Two trials at a time."""

import threading

import optuna

names = set()


def objective(trial):
    names.add(threading.current_thread().name)
    return trial.suggest_float("x", 0, 1)


study = optuna.create_study()
study.optimize(objective, n_trials=12, n_jobs=2)
assert len(study.trials) == 12
assert len({trial.number for trial in study.trials}) == 12
