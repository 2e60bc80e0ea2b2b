"""luthier.torch and luthier.jax against differences, against formulas, and in studies."""

from __future__ import annotations

import importlib
import math
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import luthier
from luthier._server import program

np = pytest.importorskip("numpy", reason="numpy is not installed")

RIDGE_ROWS, RIDGE_COLUMNS = 40, 6


def _torch() -> SimpleNamespace:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    return SimpleNamespace(
        ours=importlib.import_module("luthier.torch"),
        array=lambda x: torch.tensor(np.asarray(x), dtype=torch.float64),
        single=lambda x: torch.tensor(np.asarray(x), dtype=torch.float32),
        log=torch.log,
        exp=torch.exp,
        sum=torch.sum,
        softplus=torch.nn.functional.softplus,
    )


def _jax() -> SimpleNamespace:
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    return SimpleNamespace(
        ours=importlib.import_module("luthier.jax"),
        array=lambda x: jnp.asarray(x, dtype=float),
        single=lambda x: jnp.asarray(x, dtype=jnp.float32),
        log=jnp.log,
        exp=jnp.exp,
        sum=jnp.sum,
        softplus=lambda x: jnp.logaddexp(x, 0.0),
    )


@pytest.fixture(params=[_torch, _jax], ids=["torch", "jax"])
def lib(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The library under test: its functions by one name."""
    made: SimpleNamespace = request.param()
    return made


def differences(value: Callable[[Mapping[str, Any]], float], params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the central differences of `value` by all floats and vectors of `params`."""

    def moved(name: str, i: int, by: float) -> dict[str, Any]:
        if not isinstance(params[name], list):
            return {**params, name: params[name] + by}
        return {**params, name: [x + (by if j == i else 0.0) for j, x in enumerate(params[name])]}

    def along(name: str, i: int, x: float) -> float:
        h = 1e-4 * (abs(x) or 1.0)
        coarse, fine = ((value(moved(name, i, d)) - value(moved(name, i, -d))) / (2 * d) for d in (h, h / 2))
        return (4 * fine - coarse) / 3

    out: dict[str, Any] = {}
    for name, x in params.items():
        if isinstance(x, list):
            out[name] = [along(name, i, entry) for i, entry in enumerate(x)]
        elif isinstance(x, float):
            out[name] = along(name, 0, x)
    return out


# --- value_and_grad ---


def rosenbrock(lib: SimpleNamespace) -> Callable[[Mapping[str, Any]], Any]:
    def fn(hyper: Mapping[str, Any]) -> Any:
        sign = -1.0 if hyper["kind"] == "minus" else 1.0
        v = lib.array([1.0, 2.0, 3.0]) * hyper["v"]
        return sign * (lib.log(hyper["l2"]) - hyper["x"]) ** 2 + lib.sum(v * v) + hyper["depth"]

    return fn


def test_derivatives_agree_with_differences(lib: SimpleNamespace) -> None:
    objective = lib.ours.value_and_grad(rosenbrock(lib))
    params = {"l2": 0.3, "x": -1.5, "v": [0.1, -0.2, 4.0], "kind": "minus", "depth": 3}
    value, gradient = objective(params)
    assert isinstance(value, float) and isinstance(gradient["l2"], float)
    assert set(gradient) == {"l2", "x", "v"}
    wanted = differences(lambda p: float(objective(p)[0]), params)
    for name, slope in wanted.items():
        assert gradient[name] == pytest.approx(slope, rel=1e-6)
    assert luthier.check_gradient(objective, params).ok


def test_names_and_other_arguments(lib: SimpleNamespace) -> None:
    objective = lib.ours.value_and_grad(
        lambda hyper, scale, shift=0.0: scale * hyper["a"] ** 2 + hyper["b"] + shift, names="a"
    )
    assert objective({"a": 3, "b": 1.0}, 2.0, shift=0.5) == (19.5, {"a": 12.0})
    with pytest.raises(ValueError, match="no hyperparameter 'c'"):
        lib.ours.value_and_grad(lambda hyper: hyper["a"], names=["c"])({"a": 1.0})
    with pytest.raises(ValueError, match="no float"):
        lib.ours.value_and_grad(lambda hyper: hyper["a"])({"a": 1})


def test_torch_leaves_out_what_is_unknown() -> None:
    lib = _torch()
    assert lib.ours.value_and_grad(lambda hyper: hyper["a"] * float(hyper["b"]))({"a": 2.0, "b": 3.0}) == (
        6.0,
        {"a": 3.0},
    )
    with pytest.raises(ValueError, match="does not depend on"):
        lib.ours.value_and_grad(lambda hyper: hyper["a"].detach())({"a": 2.0})
    with pytest.raises(TypeError, match="scalar"):
        lib.ours.value_and_grad(lambda hyper: 3.0)({"a": 2.0})


def test_a_study_gets_the_gradients(lib: SimpleNamespace, session_db: str, name: str) -> None:
    space = {
        "x": (-5.0, 5.0),
        "v": luthier.Float(-5.0, 5.0, count=3),
        "n": (1, 4),
        "s": luthier.Float(0.0, 1.0, step=0.25),
    }
    study = luthier.study(name, space, algorithm="fobo", seed=3, db=session_db)
    fn = lib.ours.value_and_grad(
        lambda h: (h["x"] - 1) ** 2 + lib.sum((h["v"] + lib.array([1.0, 0.0, 2.0])) ** 2) + h["s"]
    )
    study.optimize(fn, n_trials=12)
    for trial in study.trials:
        assert trial.gradient is not None
        assert trial.gradient["x"] == pytest.approx(2 * (trial.params["x"] - 1))
        assert trial.gradient["v[2]"] == pytest.approx(2 * (trial.params["v"][2] + 2))
        assert "s" not in trial.gradient
    assert study.best_value < 1.0


def test_open_spaces_and_searches_without_gradients(lib: SimpleNamespace, session_db: str, name: str) -> None:
    fn = lib.ours.value_and_grad(lambda hyper: (hyper["x"] - 2) ** 2)
    study = luthier.study(name, db=session_db)
    with pytest.raises(ValueError, match="suggest_float"):
        fn(study.ask())

    def objective(trial: luthier.Trial) -> Any:
        trial.suggest_float("x", -5, 5)
        return fn(trial)

    study.optimize(objective, n_trials=5)
    blind = luthier.study(name + "-r", {"x": (-5.0, 5.0)}, algorithm="random", db=session_db)
    blind.optimize(fn, n_trials=2)
    assert [trial.gradient for trial in blind.trials] == [None, None]


def test_gradients_are_worth_two_thirds_of_the_trials(session_db: str, name: str) -> None:
    space = {f"x{i}": luthier.Float(-5, 5) for i in range(20)}
    middle = {key: 1 + 0.1 * i for i, key in enumerate(space)}

    def objective(trial: luthier.Trial) -> Any:
        distance = {key: x - middle[key] for key, x in trial.params.items()}
        return sum(d * d for d in distance.values()), {key: 2 * d for key, d in distance.items()}

    first = luthier.study(f"{name}-fobo", space, algorithm="fobo", seed=1, db=session_db).optimize(
        objective, n_trials=30
    )
    blind = luthier.study(f"{name}-bo", space, algorithm="bo", seed=1, db=session_db).optimize(objective, n_trials=90)
    assert first.best_value < 1e-2 < blind.best_value


# --- implicit_gradient ---


def ridge_data() -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, RIDGE_ROWS, RIDGE_COLUMNS))
    truth = rng.normal(size=RIDGE_COLUMNS)
    return x, x @ truth + rng.normal(size=RIDGE_ROWS), z, z @ truth + rng.normal(size=RIDGE_ROWS)


def ridge(lib: SimpleNamespace) -> tuple[Callable[..., Any], Callable[..., Any], Callable[[Mapping[str, Any]], Any]]:
    """Returns the losses of a ridge regression whose strengths are a vector, and its minimum."""
    x, y, z, u = ridge_data()
    lx, ly, lz, lu = map(lib.array, (x, y, z, u))

    def train_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum((lx @ w - ly) ** 2) / 2 + lib.sum(hyper["l2"] * w * w) / 2

    def validation_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum((lz @ w - lu) ** 2) / RIDGE_ROWS + 0.01 * hyper["cost"] ** 2

    def minimum(params: Mapping[str, Any]) -> Any:
        return np.linalg.solve(x.T @ x + np.diag(params["l2"]), x.T @ y)

    return train_loss, validation_loss, minimum


def test_ridge_agrees_with_differences_of_whole_trainings(lib: SimpleNamespace) -> None:
    train_loss, validation_loss, minimum = ridge(lib)
    _, _, z, u = ridge_data()

    def whole(params: Mapping[str, Any]) -> float:
        return float(((z @ minimum(params) - u) ** 2).sum() / RIDGE_ROWS + 0.01 * params["cost"] ** 2)

    params = {"l2": [0.5, 1.0, 2.0, 4.0, 8.0, 0.1], "cost": 3.0}
    got = lib.ours.implicit_gradient(train_loss, validation_loss, lib.array(minimum(params)), params, tolerance=1e-12)
    assert got.converged and got.status == "converged" and got.iterations <= 3 * RIDGE_COLUMNS
    assert got.value == pytest.approx(whole(params), rel=1e-12)
    assert got.training_gradient < 1e-9 and got.residual <= 1e-12 and got.error_bound < 1e-9
    wanted = differences(whole, params)
    assert got["cost"] == pytest.approx(wanted["cost"], rel=1e-6)
    assert list(got["l2"]) == pytest.approx(wanted["l2"], rel=1e-6)


def test_the_error_bound_holds_where_the_system_is_cut_short(lib: SimpleNamespace) -> None:
    train_loss, validation_loss, minimum = ridge(lib)
    params = {"l2": [0.5, 1.0, 2.0, 4.0, 8.0, 0.1], "cost": 3.0}
    w = lib.array(minimum(params))
    exact = lib.ours.implicit_gradient(train_loss, validation_loss, w, params, tolerance=1e-12)
    for iterations in (2, 3, 4):
        rough = lib.ours.implicit_gradient(
            train_loss, validation_loss, w, params, tolerance=1e-12, max_iterations=iterations
        )
        assert (rough.status, rough.converged, rough.iterations) == ("limit", False, iterations)
        error = float(np.linalg.norm(np.asarray(rough["l2"]) - np.asarray(exact["l2"])))
        assert 0 < error <= rough.error_bound
        assert rough.residual > 1e-12


def test_said_where_there_is_no_minimum(lib: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    def saddle(w: Any, hyper: Mapping[str, Any]) -> Any:
        return hyper["a"] * (w[0] ** 2 - w[1] ** 2)

    def outside(w: Any, hyper: Mapping[str, Any]) -> Any:
        return w[0] + 2 * w[1]

    got = lib.ours.implicit_gradient(saddle, outside, lib.array([0.0, 0.0]), {"a": 1.0})
    assert got.status == "indefinite" and not got and got.value == 0.0 and got.error_bound is None
    assert "no minimum" in caplog.text
    got = lib.ours.implicit_gradient(saddle, lambda w, h: lib.log(w[0] - 1), lib.array([0.0, 0.0]), {"a": 1.0})
    assert got.status in ("diverged", "indefinite") and not got


def test_the_limits_of_a_system(lib: SimpleNamespace) -> None:
    def bowl(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum(lib.array([1.0, 1e9]) * w * w) / 2 * hyper["a"]

    def outside(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum(w)

    for tolerance in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="tolerance"):
            lib.ours.implicit_gradient(bowl, outside, lib.array([0.0, 0.0]), {"a": 1.0}, tolerance=tolerance)
    with pytest.raises(ValueError, match="max_iterations"):
        lib.ours.implicit_gradient(bowl, outside, lib.array([0.0, 0.0]), {"a": 1.0}, max_iterations=0)
    got = lib.ours.implicit_gradient(bowl, outside, lib.array([0.0, 0.0]), {"a": 1.0}, tolerance=1e-300)
    assert got.status in ("precision", "converged")  # No further digit, and the loop ends.
    flat = lib.ours.implicit_gradient(bowl, lambda w, h: h["a"] ** 2 + 0 * w[0], lib.array([0.0, 0.0]), {"a": 3.0})
    assert flat.converged and flat == {"a": 6.0} and flat.error_bound == 0.0


def test_weights_of_several_parts(lib: SimpleNamespace) -> None:
    def train_loss(w: Mapping[str, Any], hyper: Mapping[str, Any]) -> Any:
        return lib.sum((w["a"] - 1) ** 2) + (w["b"] - lib.sum(w["a"])) ** 2 / 2 + hyper["l2"] * lib.sum(w["a"] ** 2)

    def validation_loss(w: Mapping[str, Any], hyper: Mapping[str, Any]) -> Any:
        return (w["b"] - 1) ** 2

    # At the minimum a = 1 / (1 + l2) in both entries and b = 2 a.
    got = lib.ours.implicit_gradient(
        train_loss, validation_loss, {"a": lib.array([0.5, 0.5]), "b": lib.array(1.0)}, {"l2": 1.0}, tolerance=1e-10
    )
    assert got["l2"] == pytest.approx(0.0, abs=1e-9)
    a = 1 / 3
    got = lib.ours.implicit_gradient(
        train_loss, validation_loss, {"a": lib.array([a, a]), "b": lib.array(2 * a)}, {"l2": 2.0}, tolerance=1e-10
    )
    assert got["l2"] == pytest.approx(2 * (2 * a - 1) * -2 / 9, rel=1e-8)


def test_a_model_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    lib = _torch()
    x, y, z, u = map(lib.array, ridge_data())
    model = torch.nn.Linear(RIDGE_COLUMNS, 1, bias=False).double()

    def train_loss(weights: Any, hyper: Mapping[str, Any]) -> Any:
        del weights  # The model has them.
        return ((model(x)[:, 0] - y) ** 2).sum() / 2 + hyper["l2"] * (model.weight**2).sum() / 2

    def validation_loss(weights: Any, hyper: Mapping[str, Any]) -> Any:
        return ((model(z)[:, 0] - u) ** 2).mean()

    exact = torch.linalg.solve(x.T @ x + 2.0 * torch.eye(RIDGE_COLUMNS, dtype=torch.float64), x.T @ y)
    with torch.no_grad():
        model.weight.copy_(exact[None])
    got = lib.ours.implicit_gradient(train_loss, validation_loss, model.parameters(), {"l2": 2.0}, tolerance=1e-10)
    h = x.T @ x + 2.0 * torch.eye(RIDGE_COLUMNS, dtype=torch.float64)
    wanted = -(2 / RIDGE_ROWS) * (z @ exact - u) @ z @ torch.linalg.solve(h, exact)
    assert got["l2"] == pytest.approx(float(wanted), rel=1e-8)
    assert all(p.grad is None for p in model.parameters())
    same = lib.ours.implicit_gradient(train_loss, validation_loss, model, {"l2": 2.0}, tolerance=1e-10)
    assert same == got
    for losses in ((lambda w, h: 3.0, validation_loss), (train_loss, lambda w, h: model.weight)):
        with pytest.raises(TypeError, match="scalar"):
            lib.ours.implicit_gradient(*losses, model, {"l2": 2.0})
    with pytest.raises(ValueError, match="depend"):
        lib.ours.implicit_gradient(train_loss, lambda w, h: z.sum(), model, {"l2": 2.0})
    with pytest.raises(TypeError, match="tensors"):
        lib.ours.implicit_gradient(train_loss, validation_loss, [1.0], {"l2": 2.0})


def test_single_precision_says_where_it_ends(lib: SimpleNamespace) -> None:
    x, y, z, u = ridge_data()
    exact = np.linalg.solve(x.T @ x + 2.0 * np.eye(RIDGE_COLUMNS), x.T @ y)
    single = [lib.single(array) for array in (x, y, z, u, exact)]

    def train_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum((single[0] @ w - single[1]) ** 2) / 2 + lib.single(2.0) * lib.sum(w * w) / 2 * hyper["a"]

    def validation_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum((single[2] @ w - single[3]) ** 2)

    good = lib.ours.implicit_gradient(train_loss, validation_loss, single[4], {"a": 1.0}, tolerance=1e-5)
    finest = lib.ours.implicit_gradient(train_loss, validation_loss, single[4], {"a": 1.0}, tolerance=1e-14)
    assert good.status == "converged" and finest.status == "precision"
    assert finest.residual < 1e-5
    assert finest["a"] == pytest.approx(good["a"], rel=1e-3)


def test_the_builtin_objective_has_the_same_gradient(
    lib: SimpleNamespace, session_db: str, name: str, tmp_path: Path
) -> None:
    """A logistic regression trained by the worker, and one trained here, have the same hypergradient to 1e-4."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(160, 4))
    y = (x @ [1.5, -1.0, 0.5, 0.0] + 0.3 + rng.logistic(size=160) > 0).astype(float)
    for file, part in (("train.csv", slice(0, 100)), ("held_out.csv", slice(100, 160))):
        lines = [
            "a,b,c,d,label",
            *(",".join([*map(repr, map(float, row)), f"c{label:.0f}"]) for row, label in zip(x[part], y[part])),
        ]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    builtin = {
        "model": "logistic",
        "data": "train.csv",
        "split": {"validation_data": "held_out.csv"},
        "options": {"label": "label", "standardize": False, "gradient": True},
    }
    study = luthier.study(
        name, {"l2": luthier.Float(1e-4, 1e4, log=True)}, metric="validation_loss", algorithm="random",
        objective={"builtin": builtin}, max_trials=1, db=session_db,
    )  # fmt: skip
    study.enqueue({"l2": 0.7})
    worker = [program("luthier-worker"), "--server", study._client.target(), "--study", name, "--exit-when-done"]
    subprocess.run(
        [*worker, "--spool", str(tmp_path / "spool"), "--data-root", str(tmp_path)],
        check=True,
        timeout=60,
        capture_output=True,
    )
    (theirs,) = study.trials
    assert theirs.gradient is not None, theirs

    rows = lib.array(np.column_stack([x, np.ones(160)]))
    signs = lib.array(1 - 2 * y)

    def train_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum(lib.softplus(signs[:100] * (rows[:100] @ w))) + hyper["l2"] / 2 * lib.sum(w[:4] * w[:4])

    def validation_loss(w: Any, hyper: Mapping[str, Any]) -> Any:
        return lib.sum(lib.softplus(signs[100:] * (rows[100:] @ w))) / 60

    ours = lib.ours.implicit_gradient(
        train_loss,
        validation_loss,
        lib.array(newton(np.asarray(rows)[:100], y[:100], 0.7)),
        {"l2": 0.7},
        tolerance=1e-10,
    )
    assert ours.value == pytest.approx(theirs.value, rel=1e-6)
    assert ours["l2"] == pytest.approx(theirs.gradient["l2"], rel=1e-4)


def newton(x: Any, y: Any, l2: float) -> Any:
    """Returns the weights of a logistic regression, the last of them the intercept's, which has no penalty."""
    w = np.zeros(x.shape[1])
    penalty = l2 * np.diag([1.0] * (x.shape[1] - 1) + [0.0])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        w = w - np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + penalty, x.T @ (p - y) + penalty @ w)
    return w
