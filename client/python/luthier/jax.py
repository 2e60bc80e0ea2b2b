"""Gradients of objectives written in JAX, under a short name."""

from __future__ import annotations

from luthier.integrations.jax import ImplicitGradient, implicit_gradient, value_and_grad

__all__ = ["ImplicitGradient", "implicit_gradient", "value_and_grad"]
