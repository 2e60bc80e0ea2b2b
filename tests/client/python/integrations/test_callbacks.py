"""Each training callback with its real package: a study in which the median rule stops one trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

import luthier

pytestmark = pytest.mark.peers

# The last of five trials learns so slowly that the median rule ends it.
RATES = [0.5, 0.4, 0.3, 0.6, 0.001]
STEPS = 6


def run(train: Callable[[luthier.Trial, float], float], name: str, db: Path) -> luthier.Study:
    """Runs `train` with each of RATES in a study that stops what is below the median after the first four trials."""
    study = luthier.study(
        name,
        {"rate": luthier.Float(1e-4, 1.0, log=True)},
        algorithm="random",
        max_trials=len(RATES),
        stopping={"median": {"min_trials": 4, "warmup": 2}},
        db=str(db),
    )
    for rate in RATES:
        study.enqueue({"rate": rate})
    study.optimize(lambda trial: train(trial, trial["rate"]), n_trials=len(RATES))
    return study


def check(study: luthier.Study, folder: Path, pattern: str) -> None:
    """Four trials went to the end, the fifth was stopped before it, and the newest checkpoints are there."""
    trials = study.trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 4 + ["PRUNED"]
    kept = [[int(p.name.split("-")[1].split(".")[0]) for p in (folder / str(t.number)).glob(pattern)] for t in trials]
    assert all(sorted(steps) == [STEPS - 1, STEPS] for steps in kept[:4])
    assert len(kept[4]) == 2
    assert 2 <= max(kept[4]) < STEPS


def table() -> tuple[Any, Any]:
    """Returns a small regression problem."""
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    x = np.random.default_rng(3).normal(size=(300, 4))
    return x, x @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * np.sin(9 * x[:, 0])


def test_xgboost(coordinator_folder: Path, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost")
    from luthier.integrations.xgboost import LuthierCallback

    x, y = table()
    train_data, test_data = xgboost.DMatrix(x[:200], y[:200]), xgboost.DMatrix(x[200:], y[200:])

    def train(trial: luthier.Trial, rate: float) -> float:
        history: dict[str, Any] = {}
        xgboost.train(
            {"eta": rate, "max_depth": 2, "nthread": 1},
            train_data,
            STEPS,
            evals=[(test_data, "validation")],
            evals_result=history,
            verbose_eval=False,
            callbacks=[LuthierCallback(trial, "validation-rmse", str(tmp_path / str(trial.number)))],
        )
        return float(history["validation"]["rmse"][-1])

    check(run(train, "xgboost", coordinator_folder), tmp_path, "step-*.ubj")
    with pytest.raises(ValueError, match="there are: validation-rmse"):
        xgboost.train(
            {}, train_data, 1, evals=[(test_data, "validation")], callbacks=[LuthierCallback(None, "validation-auc")]
        )


def test_lightgbm(coordinator_folder: Path, tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install lightgbm")
    from luthier.integrations.lightgbm import LuthierCallback

    x, y = table()

    def train(trial: luthier.Trial, rate: float) -> float:
        data = lightgbm.Dataset(x[:200], y[:200])
        history: dict[str, Any] = {}
        lightgbm.train(
            {"learning_rate": rate, "objective": "l2", "num_threads": 1, "verbosity": -1},
            data,
            STEPS,
            valid_sets=[data.create_valid(x[200:], y[200:])],
            callbacks=[
                lightgbm.record_evaluation(history),
                LuthierCallback(trial, "valid_0-l2", str(tmp_path / str(trial.number))),
            ],
        )
        return float(history["valid_0"]["l2"][-1])

    check(run(train, "lightgbm", coordinator_folder), tmp_path, "step-*.txt")


def test_keras(coordinator_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(map(_there, ["tensorflow", "torch", "jax"])):
        pytest.skip("no backend of Keras is installed: pip install jax")
    if not _there("tensorflow"):
        monkeypatch.setenv("KERAS_BACKEND", "jax" if _there("jax") else "torch")
    keras = pytest.importorskip("keras", minversion="3.0", reason="keras 3 is not installed: pip install keras")
    from luthier.integrations.keras import LuthierCallback

    x, y = table()

    def train(trial: luthier.Trial, rate: float) -> float:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(rate / 10), "mse")
        history = model.fit(
            x[:200],
            y[:200],
            validation_data=(x[200:], y[200:]),
            epochs=STEPS,
            verbose=0,
            callbacks=[LuthierCallback(trial, "val_loss", str(tmp_path / str(trial.number)))],
        )
        return float(history.history["val_loss"][-1])

    check(run(train, "keras", coordinator_folder), tmp_path, "step-*.keras")


def test_lightning(coordinator_folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    package = "lightning.pytorch" if _there("lightning") else "pytorch_lightning"
    lightning = pytest.importorskip(package, reason="lightning is not installed: pip install lightning")
    from luthier.integrations.lightning import LuthierCallback

    x, y = (torch.tensor(part, dtype=torch.float32) for part in table())

    class Line(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.line = torch.nn.Linear(4, 1)
            torch.nn.init.zeros_(self.line.weight)
            self.rate = rate

        def loss(self, batch: Any) -> Any:
            return ((self.line(batch[0])[:, 0] - batch[1]) ** 2).mean()

        def training_step(self, batch: Any, index: int) -> Any:
            return self.loss(batch)

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", self.loss(batch))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), self.rate / 10)

    def train(trial: luthier.Trial, rate: float) -> float:
        trainer = lightning.Trainer(
            max_epochs=STEPS,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[LuthierCallback(trial, "val_loss", str(tmp_path / str(trial.number)))],
        )
        parts = [torch.utils.data.TensorDataset(x[a:b], y[a:b]) for a, b in ((0, 200), (200, 300))]
        trainer.fit(Line(rate), *(torch.utils.data.DataLoader(part, batch_size=50) for part in parts))
        return float(trainer.callback_metrics["val_loss"])

    check(run(train, "lightning", coordinator_folder), tmp_path, "step-*.ckpt")


def _trainer(transformers: Any, torch: Any, folder: Path, epochs: int, **options: Any) -> Callable[..., Any]:
    """Returns a function that makes a Trainer of a line; its arguments are those of TrainingArguments."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in table())
    rows = [{"x": a, "labels": b} for a, b in zip(x, y)]

    class Line(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(4, 1)
            torch.nn.init.zeros_(self.line.weight)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            out = self.line(x)[:, 0]
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    def make(**more: Any) -> Any:
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=epochs,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            remove_unused_columns=False,
            **more,
        )
        model = {"model_init": Line} if "callbacks" not in options else {"model": Line()}
        return transformers.Trainer(
            args=arguments, train_dataset=rows[:200], eval_dataset=rows[200:], **model, **options
        )

    return make


def test_transformers(coordinator_folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    pytest.importorskip("accelerate", reason="accelerate is not installed: pip install accelerate")
    from luthier.integrations.transformers import LuthierCallback

    def train(trial: luthier.Trial, rate: float) -> float:
        make = _trainer(transformers, torch, tmp_path / str(trial.number), STEPS, callbacks=[LuthierCallback(trial)])
        trainer = make(learning_rate=rate)
        trainer.train()
        return float(trainer.evaluate()["eval_loss"])

    states = [trial.state.name for trial in run(train, "transformers", coordinator_folder).trials]
    assert states == ["COMPLETE"] * 4 + ["PRUNED"]


def test_a_search_of_transformers(coordinator_folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    pytest.importorskip("accelerate", reason="accelerate is not installed: pip install accelerate")
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    from luthier.integrations.transformers import hp_space
    from luthier.optuna import LuthierSampler

    space = {
        "learning_rate": luthier.Float(1e-3, 1e-1, log=True),
        "per_device_train_batch_size": luthier.Int(10, 50, step=10),
        "optim": ["adamw_torch", "sgd"],
    }
    sampler = LuthierSampler(seed=1, db=str(coordinator_folder))
    best = _trainer(transformers, torch, tmp_path, 1)().hyperparameter_search(
        hp_space=hp_space(space), backend="optuna", n_trials=3, direction="minimize", sampler=sampler
    )
    assert set(best.hyperparameters) == set(space)
    assert len(sampler.luthier_studies()[0].trials) >= 3  # The first trial of Optuna is imported.
    with pytest.raises(ValueError, match="'v'"):
        hp_space({"v": luthier.Float(0, 1, count=3)})


def _there(module: str) -> bool:
    """Returns whether `module` can be imported, without importing it."""
    import importlib.util

    return importlib.util.find_spec(module) is not None
