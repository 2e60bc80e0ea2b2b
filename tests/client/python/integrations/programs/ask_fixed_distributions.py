"""Parameters are declared with the ask."""

import optuna

study = optuna.create_study()
distributions = {
    "lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True),
    "layers": optuna.distributions.IntDistribution(1, 4),
    "kind": optuna.distributions.CategoricalDistribution(["a", "b"]),
}
for _ in range(8):
    trial = study.ask(distributions)
    assert 1e-5 <= trial.params["lr"] <= 1e-1
    study.tell(trial, trial.params["lr"] * trial.params["layers"] + (trial.params["kind"] == "b"))
assert study.best_params["kind"] in ("a", "b")
