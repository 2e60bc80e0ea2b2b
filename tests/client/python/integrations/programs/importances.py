"""What matters, as shares of one."""

import optuna

study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
study.optimize(lambda t: 10 * t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=30)
shares = optuna.importance.get_param_importances(study)
assert list(shares)[0] == "x" and abs(sum(shares.values()) - 1) < 1e-9
assert optuna.importance.get_param_importances(study, params=["y"], normalize=True) == {"y": 1.0}
