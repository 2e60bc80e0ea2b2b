"""Gradients of objectives written in PyTorch, under a short name."""

from __future__ import annotations

from luthier.integrations.torch import ImplicitGradient, implicit_gradient, value_and_grad

__all__ = ["ImplicitGradient", "implicit_gradient", "value_and_grad"]
