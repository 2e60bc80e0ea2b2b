"""Notes on trials and on the study."""

import optuna


def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    trial.set_user_attr("accuracy", 1 - x)
    trial.set_user_attr("tags", ["a", "b"])
    return x


study = optuna.create_study()
study.set_user_attr("author", "somebody")
study.optimize(objective, n_trials=5)
assert study.user_attrs["author"] == "somebody"
assert study.best_trial.user_attrs["accuracy"] == 1 - study.best_value
assert study.trials[0].user_attrs["tags"] == ["a", "b"]
