"""Results that were there before."""

import optuna

study = optuna.create_study()
for x in (0.1, 0.5, 0.9):
    study.add_trial(
        optuna.create_trial(
            params={"x": x}, distributions={"x": optuna.distributions.FloatDistribution(0, 1)}, value=(x - 0.5) ** 2
        )
    )
assert study.best_params == {"x": 0.5}
study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.5) ** 2, n_trials=5)
assert len(study.trials) == 8
assert study.best_value == 0
