"""Every kind of parameter, with values of the types that were asked for."""

import optuna


def objective(trial):
    a = trial.suggest_float("a", 1e-6, 1.0, log=True)
    b = trial.suggest_float("b", -1.0, 1.0, step=0.25)
    c = trial.suggest_int("c", 0, 100, step=10)
    d = trial.suggest_int("d", 1, 1024, log=True)
    e = trial.suggest_categorical("e", [None, True, 3, 2.5, "text"])
    assert type(a) is float and type(b) is float and type(c) is int and type(d) is int
    assert b * 4 == int(b * 4) and c % 10 == 0
    assert any(e is choice or (type(e) is type(choice) and e == choice) for choice in [None, True, 3, 2.5, "text"])
    return a + b * b + c / 100 + d / 1024 + (e is not None)


study = optuna.create_study()
study.optimize(objective, n_trials=30)
assert study.best_value < 3
