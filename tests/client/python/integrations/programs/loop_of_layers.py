"""As many parameters as another one says."""

import optuna


def objective(trial):
    layers = trial.suggest_int("n_layers", 1, 4)
    units = [trial.suggest_int(f"units_l{i}", 4, 128, log=True) for i in range(layers)]
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    return sum(abs(u - 32) for u in units) / layers + dropout


study = optuna.create_study()
study.optimize(objective, n_trials=20)
for trial in study.trials:
    assert sum(name.startswith("units_l") for name in trial.params) == trial.params["n_layers"]
