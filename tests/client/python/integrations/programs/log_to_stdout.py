"""The log on standard output."""

import logging
import sys

import optuna

optuna.logging.get_logger("optuna").addHandler(logging.StreamHandler(sys.stdout))
study = optuna.create_study(storage="sqlite:///log.db", study_name="example-study", load_if_exists=True)
study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=3)
frame = study.trials_dataframe(attrs=("number", "value", "params", "state"))
assert list(frame.columns) == ["number", "value", "params_x", "state"] and len(frame) == 3
