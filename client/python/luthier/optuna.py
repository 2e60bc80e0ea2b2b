"""Optuna's sampler of Luthier, under a short name."""

from __future__ import annotations

from luthier.integrations.optuna import LuthierSampler

__all__ = ["LuthierSampler"]
