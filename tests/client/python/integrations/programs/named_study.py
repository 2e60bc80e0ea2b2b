"""A study with a name is continued."""

import optuna

study = optuna.create_study(study_name="named", storage="sqlite:///named.db", load_if_exists=True)
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
again = optuna.create_study(study_name="named", storage="sqlite:///named.db", load_if_exists=True)
assert len(again.trials) == 4
again.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
assert len(optuna.load_study(study_name="named", storage="sqlite:///named.db").trials) == 7
