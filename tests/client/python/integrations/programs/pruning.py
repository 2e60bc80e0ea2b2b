"""Learning curves, and trials that end early."""

import optuna


def objective(trial):
    rate = trial.suggest_float("rate", 0.01, 1.0, log=True)
    loss = 1.0
    for step in range(20):
        loss *= 1 - 0.3 * rate
        trial.report(loss, step)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return loss


study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=2))
study.optimize(objective, n_trials=25)
states = [trial.state for trial in study.trials]
assert states.count(optuna.trial.TrialState.COMPLETE) >= 3
assert states.count(optuna.trial.TrialState.PRUNED) >= 1
assert len(states) == 25
