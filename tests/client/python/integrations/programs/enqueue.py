"""Settings of the user's own come first."""

import optuna

study = optuna.create_study()
study.enqueue_trial({"x": 0.25, "y": 3})
study.enqueue_trial({"x": 0.75})
study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_int("y", 0, 5), n_trials=4)
assert study.trials[0].params == {"x": 0.25, "y": 3}
assert study.trials[1].params["x"] == 0.75
