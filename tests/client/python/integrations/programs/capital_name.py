"""Names of studies as people write them."""

import optuna

study = optuna.create_study(study_name="PPO_LunarLander-v2", storage="sqlite:///names.db", load_if_exists=True)
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
assert study.study_name == "PPO_LunarLander-v2"
assert optuna.get_all_study_names(storage="sqlite:///names.db") == ["PPO_LunarLander-v2"]
loaded = optuna.load_study(study_name="PPO_LunarLander-v2", storage="sqlite:///names.db")
assert len(loaded.trials) == 3
optuna.delete_study(study_name="PPO_LunarLander-v2", storage="sqlite:///names.db")
assert optuna.get_all_study_names(storage="sqlite:///names.db") == []
