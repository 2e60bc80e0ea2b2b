"""Trials that are told as failed and as pruned."""

import optuna

TrialState = optuna.trial.TrialState
study = optuna.create_study()
good = study.ask()
study.tell(good, good.suggest_float("x", 0, 1))
bad = study.ask()
bad.suggest_float("x", 0, 1)
study.tell(bad, state=TrialState.FAIL)
slow = study.ask()
slow.suggest_float("x", 0, 1)
slow.report(0.5, 1)
study.tell(slow, state=TrialState.PRUNED)
states = [trial.state for trial in study.trials]
assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED]
