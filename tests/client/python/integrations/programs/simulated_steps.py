"""A learner that reports every step and is pruned by the median."""

import optuna


def objective(trial):
    alpha = trial.suggest_float("alpha", 1e-5, 1e-1, log=True)
    score = 1.0
    for step in range(20):
        score = score * (1 - alpha) + 0.01 * abs(alpha - 0.01)
        trial.report(score, step)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return score


study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=2))
study.optimize(objective, n_trials=15)
pruned = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.PRUNED])
complete = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
assert len(pruned) + len(complete) == 15 and complete
