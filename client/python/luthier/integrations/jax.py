"""Gradients of objectives written in JAX: by hyperparameters directly, and through a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Optional

import jax
import numpy as np
from jax import numpy as jnp
from jax.flatten_util import ravel_pytree

from luthier.integrations import _implicit
from luthier.integrations._implicit import ImplicitGradient

__all__ = ["ImplicitGradient", "implicit_gradient", "value_and_grad"]


def value_and_grad(
    fn: Callable[..., Any], names: Optional[Iterable[str]] = None
) -> Callable[..., tuple[float, dict[str, Any]]]:
    """Returns an objective that gives the value of `fn` and its derivatives by the hyperparameters.

    `fn(hyper)` gets a dictionary in which floats and vectors are arrays, in the parameters' own units, and all others
    what they are; it returns a scalar. The objective takes a trial or a dictionary (more arguments go on to `fn`) and
    returns (value, {name: derivative}). Arrays are float64 where `jax_enable_x64` is set and float32 elsewhere. Where
    the search can't use a gradient (`trial.wants_gradient`), none is computed. `names` says by which hyperparameters;
    default: all floats without step. Raises ValueError where there is nothing to differentiate by.

        objective = luthier.jax.value_and_grad(lambda hyper: (jnp.log(hyper["l2"]) - 1) ** 2)
        study.optimize(objective, n_trials=20)
    """

    def objective(trial: Any, *args: Any, **kwargs: Any) -> tuple[float, dict[str, Any]]:
        leaves, others = _leaves(trial, names)

        def value_of(some: dict[str, Any]) -> Any:
            return fn({**others, **some}, *args, **kwargs)

        if not _implicit.wanted(trial):
            return float(value_of(leaves)), {}
        value, slopes = jax.value_and_grad(value_of)(leaves)
        return float(value), {name: _plain(slopes[name]) for name in leaves}

    return objective


def implicit_gradient(
    train_loss: Callable[[Any, dict[str, Any]], Any],
    validation_loss: Callable[[Any, dict[str, Any]], Any],
    weights: Any,
    hyperparameters: Any,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    names: Optional[Iterable[str]] = None,
) -> ImplicitGradient:
    """Returns the derivatives of the validation loss at a trained model by the hyperparameters of its training.

    Both losses are called with (weights, hyper) and return scalars; `hyper` is as in `value_and_grad`. `weights` is any
    pytree of arrays, where `train_loss` has its minimum.

    With H the Hessian of the training loss, H q = d(validation_loss)/d(weights) is solved by conjugate gradients on
    Hessian-vector products to a residual of `tolerance` times its right side, in at most `max_iterations`; they use the
    weights' own precision. A system that does not converge is said in `status` and in the log of "luthier", and gives
    no derivatives where they would mean nothing. `hyperparameters` is a trial or a dictionary; `names` as in
    `value_and_grad`.

        gradient = luthier.jax.implicit_gradient(train_loss, validation_loss, weights, trial)
        return gradient.value, gradient
    """
    _implicit.check_limits(tolerance, max_iterations)
    leaves, others = _leaves(hyperparameters, names)
    flat, tree = ravel_pytree(weights)

    def slope(at: Any, some: dict[str, Any]) -> Any:
        return jax.grad(lambda w: train_loss(tree(w), {**others, **some}))(at)

    value, (b, direct) = jax.value_and_grad(lambda w, some: validation_loss(tree(w), {**others, **some}), (0, 1))(
        flat, leaves
    )
    product = jax.jit(lambda p: jax.jvp(lambda w: slope(w, leaves), (flat,), (p,))[1])
    solution = _implicit.solve(product, b, tolerance, max_iterations)
    here, pull = jax.vjp(lambda some: slope(flat, some), leaves)
    (mixed,) = pull(solution.q)
    total = {name: direct[name] - mixed[name] for name in leaves}
    if solution.status != "indefinite" and not all(bool(jnp.isfinite(t).all()) for t in [value, *total.values()]):
        solution.status = "diverged"
    _implicit.warn(solution, tolerance)
    useful = solution.status not in ("indefinite", "diverged")
    derivatives = {name: _plain(slope) for name, slope in total.items()} if useful else {}
    out = ImplicitGradient(derivatives, float(value), solution, float(jnp.linalg.norm(here)))
    if useful and sum(leaf.size for leaf in leaves.values()) <= _implicit.MOST_BOUNDED:
        left = solution.residual * float(jnp.linalg.norm(b))
        out.error_bound = (
            _mixed_norm(lambda some: slope(flat, some), leaves) * left / solution.curvature if left else 0.0
        )
    return out


def _leaves(trial: Any, names: Optional[Iterable[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arrays that derivatives are of, and all other hyperparameters."""
    floats, others = _implicit.hyperparameters(trial, names)
    return {name: jnp.asarray(value, dtype=float) for name, value in floats.items()}, others


def _mixed_norm(slope: Callable[[dict[str, Any]], Any], leaves: dict[str, Any]) -> float:
    """Returns the Frobenius norm of the derivatives of `slope` by `leaves`, column by column."""
    at, tree = ravel_pytree(leaves)
    total = 0.0
    for i in range(at.size):
        unit = jnp.zeros_like(at).at[i].set(1.0)
        column = jax.jvp(lambda some: slope(tree(some)), (at,), (unit,))[1]
        total += float((column * column).sum())
    return math.sqrt(total)


def _plain(slope: Any) -> Any:
    """Returns a derivative as a float, those of a vector as an array."""
    return float(slope) if slope.ndim == 0 else np.asarray(slope, dtype=float)
