"""A callback after each trial; one of them stops the study."""

import optuna

seen = []


def note(study, trial):
    seen.append((trial.number, trial.value, study.best_value))


def enough(study, trial):
    if len(study.trials) >= 7:
        study.stop()


study = optuna.create_study()
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=50, callbacks=[note, enough])
assert len(seen) == 7
assert seen[-1][2] == min(value for _, value, _ in seen)
