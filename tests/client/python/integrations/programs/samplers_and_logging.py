"""A sampler with a seed, quietly."""

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)


def run():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=7))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) * t.suggest_float("y", 0, 1), n_trials=6)
    return [trial.params for trial in study.trials]


assert run() == run()
