"""The types that users' checkers see: nothing is missing, and nothing is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "client" / "python"
# Their base classes are of packages without types.
UNTYPED_BASES = {
    "luthier.integrations.keras.LuthierCallback",
    "luthier.integrations.lightning.LuthierCallback",
    "luthier.integrations.ray.LuthierSearch",
    "luthier.integrations.sklearn.LuthierSearchCV",
    "luthier.integrations.transformers.LuthierCallback",
    "luthier.integrations.xgboost.LuthierCallback",
    "luthier.ray.LuthierSearch",
    "luthier.sklearn.LuthierSearchCV",
}
# What a user writes, with what a checker is to say of it.
USES = """
import luthier
from typing import assert_type

study = luthier.study("s", {"x": luthier.Float(0, 1)})
assert_type(study, luthier.Study)
assert_type(study.best_value, float)
assert_type(study.trials, list[luthier.FrozenTrial])
assert_type(study.predict({"x": 0.5}), luthier.Prediction)
assert_type(study.predict([{"x": 0.5}]), list[luthier.Prediction])
assert_type(luthier.workers(), list[luthier.Worker])
assert_type(luthier.__version__, str)

def objective(trial: luthier.Trial) -> float:
    assert_type(trial.suggest_int("n", 1, 3), int)
    assert_type(trial.report(0.5), str)
    return trial.suggest_float("x", 0, 1)

assert_type(study.optimize(objective, n_trials=3), luthier.Study)
study.optimize(objective, n_trials="3")  # type: ignore[arg-type]
study.get_trials(order="x")  # type: ignore[call-arg]
assert_type(study.ask(3), list[luthier.Trial])
while (trial := study.ask()) is not None:
    assert_type(trial, luthier.Trial)
    assert_type(trial.suggest_categorical("c", ["a", "b"]), str)
    assert_type(trial.suggest_categorical("layers", [1, 2, 3]), int)
    study.tell(trial, 0.5)

def metrics(trial: luthier.Trial) -> dict[str, float]:
    return {"loss": 0.5}

def gradient(trial: luthier.Trial) -> tuple[float, dict[str, float]]:
    return 0.5, {"x": 1.0}

study.optimize(metrics).optimize(gradient)
words = luthier.create_study(sampler=luthier.samplers.TPESampler(seed=1))
words.optimize(objective, callbacks=[lambda study, trial: None])
assert_type(words.ask().suggest_float("x", 0, 1), float)
"""
# What a user may get wrong; `error` stands behind each line that a checker is to find.
PLANTED = """
import luthier
import luthier.aio

study = luthier.study("s", goal="maximise")  # error
study = luthier.study("s", goal="maximize")
study.ask("3")  # error
print(study.ask().params)  # error
for number in study.ask(2):
    study.tell(number, 0.5)
    number.suggest_flaot("x", 0, 1)  # error
trial = study.ask()
if trial is not None:
    units: int = trial.suggest_categorical("units", ["small", "large"])  # error
    kind: str = trial.suggest_categorical("kind", ["a", "b"])
    trial.suggest_categorical("kind", 3)  # error
    study.tell(trial, 0.5)
best: float = study.best_params  # error
print(study.best_params.x)  # error
print(study.best_params["x"], study.best_value + 1)
print(study.best_params())  # error
study.optimize(lambda t: 1.0, if_changed="again")  # error
words = luthier.create_study(direction="maximise")  # error
words = luthier.create_study(direction="maximize")
words.optimize(lambda t: 1.0, n_trials="3")  # error
words.ask().suggest_flaot("x", 0, 1)  # error
words.tell(words.ask(), 0.5, state="DONE")  # error
print(words.best_parms)  # error
luthier.Flaot(0, 1)  # error
study.tell(1, 0.5, state="DONE")  # error
def text(trial: luthier.Trial) -> str:
    return "0.5"
def nothing(trial: luthier.Trial) -> None:
    print(trial)
study.optimize(text)  # error
study.optimize(nothing)  # error
words.optimize(text)  # error

@luthier.objective(space={"x": (0.0, 1.0)}, goal="maximise")  # error
def train(trial: luthier.Trial) -> float:
    return trial.suggest_float("x", 0, 1)

async def main() -> None:
    loop = await luthier.aio.study("s", goal="maximise")  # error
    print((await loop.ask()).params)  # error
"""


def _needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: tools/install_packages.sh peers")


def _mypy(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": str(PACKAGE)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_strictly_typed(tmp_path: Path) -> None:
    _needs("mypy")
    assert "no issues found" in _mypy("--cache-dir", str(tmp_path), cwd=PACKAGE)


def test_programs_are_checked_by_its_types(tmp_path: Path) -> None:
    _needs("mypy")
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    _mypy("--warn-unused-ignores", "--follow-imports=silent", "uses.py", cwd=tmp_path)


def test_planted_errors_are_found(tmp_path: Path) -> None:
    _needs("mypy")
    (tmp_path / "planted.py").write_text(PLANTED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "planted.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "MYPYPATH": str(PACKAGE)},
    )  # fmt: skip
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert found == {i for i, line in enumerate(PLANTED.split("\n"), 1) if line.endswith("# error")}, done.stdout


def test_the_public_interface_is_completely_typed(tmp_path: Path) -> None:
    _needs("pyright")
    folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "luthier", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "PYTHONPATH": str(PACKAGE)},
    )  # fmt: skip
    told: Any = json.loads(done.stdout)["typeCompleteness"]
    exported = [symbol for symbol in told["symbols"] if symbol["isExported"]]
    untyped = {s["name"] for s in exported if not s["isTypeKnown"] or s["isTypeAmbiguous"]}
    assert len(exported) > 350 and untyped <= UNTYPED_BASES, untyped - UNTYPED_BASES
    assert told["missingFunctionDocStringCount"] == told["missingClassDocStringCount"] == 0
