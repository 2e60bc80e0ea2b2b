"""The loop is the user's."""

import optuna

study = optuna.create_study()
for _ in range(12):
    trial = study.ask()
    x = trial.suggest_float("x", 0, 1)
    n = trial.suggest_int("n", 1, 5)
    study.tell(trial, x * n)
assert len(study.trials) == 12
assert study.best_trial.params.keys() == {"x", "n"}
