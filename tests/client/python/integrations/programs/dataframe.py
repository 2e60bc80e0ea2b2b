"""Trials as a table."""

import optuna

study = optuna.create_study()
study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("k", 0, 3), n_trials=10)
frame = study.trials_dataframe()
assert len(frame) == 10
for column in ("number", "value", "params_x", "params_k", "state"):
    assert column in frame.columns, column
assert frame["value"].min() == study.best_value
assert set(frame["state"]) == {"COMPLETE"}
