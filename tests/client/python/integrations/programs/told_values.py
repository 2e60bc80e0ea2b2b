"""Ask and tell with the list of values, and trials that are told twice."""

import optuna

study = optuna.create_study(direction="maximize")
for _ in range(4):
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    told = study.tell(trial, [trial.params["x"]])
    assert told.value == trial.params["x"]
    again = study.tell(trial.number, 7.0, skip_if_finished=True)
    assert again.value == told.value
assert study.best_value == max(t.value for t in study.trials)
