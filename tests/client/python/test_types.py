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
