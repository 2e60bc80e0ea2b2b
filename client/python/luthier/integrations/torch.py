"""Gradients of objectives written in PyTorch: by hyperparameters directly, and through a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

import torch

from luthier.integrations import _implicit
from luthier.integrations._implicit import ImplicitGradient

__all__ = ["ImplicitGradient", "implicit_gradient", "value_and_grad"]


def value_and_grad(
    fn: Callable[..., Any], names: Optional[Iterable[str]] = None
) -> Callable[..., tuple[float, dict[str, Any]]]:
    """Returns an objective that gives the value of `fn` and its derivatives by the hyperparameters.

    `fn(hyper)` gets a dictionary in which floats and vectors are tensors of float64, in the parameters' own units, and
    all others what they are; it returns a scalar tensor. The objective takes a trial or a dictionary (more arguments go
    on to `fn`) and returns (value, {name: derivative}). A hyperparameter that the value does not depend on by
    operations of torch is left out: unknown, not 0. Where the search can't use a gradient (`trial.wants_gradient`),
    none is computed. `names` says by which hyperparameters; default: all floats without step. Raises ValueError where
    there is nothing to differentiate by, TypeError where `fn` returns no scalar.

        objective = luthier.torch.value_and_grad(lambda hyper: (hyper["l2"].log() - 1) ** 2)
        study.optimize(objective, n_trials=20)
    """

    def objective(trial: Any, *args: Any, **kwargs: Any) -> tuple[float, dict[str, Any]]:
        leaves, hyper = _leaves(trial, names)
        with torch.enable_grad():
            value = fn(hyper, *args, **kwargs)
            if not isinstance(value, torch.Tensor) or value.numel() != 1:
                raise TypeError(f"the function returned {value!r}, not a scalar tensor")
            if not _implicit.wanted(trial):
                return float(value.detach()), {}
            if not value.requires_grad:
                raise ValueError(f"the value does not depend on {sorted(leaves)} by operations of torch")
            slopes = torch.autograd.grad(value.reshape(()), list(leaves.values()), allow_unused=True)
        return float(value.detach()), {name: _plain(s) for name, s in zip(leaves, slopes) if s is not None}

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

    Both losses are called with (weights, hyper) and return scalar tensors; `hyper` is as in `value_and_grad`. `weights`
    is a module, a tensor, or a list or a dictionary of tensors, where `train_loss` has its minimum. Tensors that
    require gradients are used as they are, so losses may also look at the model that has them.

    With H the Hessian of the training loss, H q = d(validation_loss)/d(weights) is solved by conjugate gradients on
    Hessian-vector products to a residual of `tolerance` times its right side, in at most `max_iterations`; they use the
    weights' own precision. A system that does not converge is said in `status` and in the log of "luthier", and gives
    no derivatives where they would mean nothing. `hyperparameters` is a trial or a dictionary; `names` as in
    `value_and_grad`.

        gradient = luthier.torch.implicit_gradient(train_loss, validation_loss, weights, trial)
        return gradient.value, gradient
    """
    _implicit.check_limits(tolerance, max_iterations)
    leaves, hyper = _leaves(hyperparameters, names)
    given, tensors = _tensors(weights)
    every = list(leaves.values())
    with torch.enable_grad():
        value = _scalar("validation_loss", validation_loss(given, hyper))
        outer = torch.autograd.grad(value, [*tensors, *every], allow_unused=True)
        b, direct = _flat(outer[: len(tensors)], tensors), _zeros(outer[len(tensors) :], every)
        loss = _scalar("train_loss", train_loss(given, hyper))
        inner = torch.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
        slope = _flat(inner, tensors)

        def product(p: Any) -> Any:
            return _flat(_grad(slope, tensors, p), tensors).detach()

        solution = _implicit.solve(product, b.detach(), tolerance, max_iterations)
        mixed = _zeros(_grad(slope, every, solution.q), every)
        total = [d - m for d, m in zip(direct, mixed)]
        if solution.status != "indefinite" and not all(bool(torch.isfinite(t).all()) for t in [value.detach(), *total]):
            solution.status = "diverged"
        _implicit.warn(solution, tolerance)
        useful = solution.status not in ("indefinite", "diverged")
        derivatives = {name: _plain(slope) for name, slope in zip(leaves, total)} if useful else {}
        out = ImplicitGradient(derivatives, float(value.detach()), solution, float(slope.detach().norm()))
        if useful and sum(leaf.numel() for leaf in every) <= _implicit.MOST_BOUNDED:
            left = solution.residual * float(b.detach().norm())
            out.error_bound = _mixed_norm(slope, every) * left / solution.curvature if left else 0.0
    return out


def _scalar(name: str, value: Any) -> Any:
    """Returns a loss that can be differentiated. TypeError, ValueError."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise TypeError(f"{name} returned {value!r}, not a scalar tensor")
    if not value.requires_grad:
        raise ValueError(f"{name} does not depend on the weights by operations of torch")
    return value.reshape(())


def _leaves(trial: Any, names: Optional[Iterable[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the tensors that derivatives are of, and all hyperparameters with those among them."""
    floats, others = _implicit.hyperparameters(trial, names)
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in floats.items()}
    return leaves, {**others, **leaves}


def _tensors(weights: Any) -> tuple[Any, list[Any]]:
    """Returns the weights as the losses get them, and their tensors, which require gradients."""

    def leaf(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"weights hold {type(tensor).__name__}, not tensors")
        return tensor if tensor.requires_grad else tensor.detach().clone().requires_grad_()

    if isinstance(weights, torch.nn.Module):
        return weights, [parameter for parameter in weights.parameters() if parameter.requires_grad]
    if isinstance(weights, Mapping):
        named = {name: leaf(tensor) for name, tensor in weights.items()}
        return named, list(named.values())
    if isinstance(weights, torch.Tensor):
        alone = leaf(weights)
        return alone, [alone]
    several = [leaf(tensor) for tensor in weights]
    return several, several


def _grad(slope: Any, by: list[Any], along: Any) -> Any:
    """Returns the derivatives of slope · along; no tensor where there are none, as of a linear loss."""
    if not slope.requires_grad:
        return [None] * len(by)
    return torch.autograd.grad(slope, by, along, retain_graph=True, allow_unused=True)


def _zeros(some: Any, like: list[Any]) -> list[Any]:
    """Returns tensors with 0 for those that are missing: what the losses do not depend on."""
    return [torch.zeros_like(one) if s is None else s.detach() for s, one in zip(some, like)]


def _flat(some: Any, like: list[Any]) -> Any:
    """Returns one vector of derivatives by `like`, with 0 for those that are missing."""
    parts = [(torch.zeros_like(one) if s is None else s).reshape(-1) for s, one in zip(some, like)]
    return torch.cat(parts)


def _mixed_norm(slope: Any, by: list[Any]) -> float:
    """Returns the Frobenius norm of the derivatives of `slope` by `by`, column by column."""
    if not slope.requires_grad:
        return 0.0
    u = torch.zeros_like(slope, requires_grad=True)
    rows = torch.autograd.grad(slope, by, u, create_graph=True, allow_unused=True)
    total = 0.0
    for row in rows:
        for entry in [] if row is None or not row.requires_grad else row.reshape(-1):
            (column,) = torch.autograd.grad(entry, u, retain_graph=True, allow_unused=True)
            total += 0.0 if column is None else float(column.double().square().sum())
    return math.sqrt(total)


def _plain(slope: Any) -> Any:
    """Returns a derivative as a float, those of a vector as an array."""
    return float(slope) if slope.ndim == 0 else slope.detach().cpu().numpy()
