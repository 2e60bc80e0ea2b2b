"""Settings that are known to be good are tried first, each once."""

import optuna


def objective(trial):
    bagging = trial.suggest_float("bagging", 0.4, 1.0)
    leaves = trial.suggest_int("leaves", 2, 256)
    return (bagging - 0.5) ** 2 + leaves / 256


study = optuna.create_study()
study.enqueue_trial({"bagging": 1.0, "leaves": 31}, user_attrs={"memo": "first"}, skip_if_exists=True)
study.enqueue_trial({"bagging": 1.0, "leaves": 31}, skip_if_exists=True)
study.enqueue_trial({"bagging": 0.75, "leaves": 17})
study.optimize(objective, n_trials=5)
assert [t.params["leaves"] for t in study.trials[:2]] == [31, 17]
assert study.trials[0].user_attrs["memo"] == "first"
study.enqueue_trial({"bagging": 0.75, "leaves": 17}, skip_if_exists=True)
assert len(study.trials) == 5
