"""Optuna's own suite for samplers, unmodified, run on LuthierSampler."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("optuna", minversion="5.0", reason="Optuna 5.0 is not installed: pip install optuna")

from optuna.samplers import BaseSampler  # noqa: E402
from optuna.testing.pytest_samplers import (  # noqa: E402
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)

from luthier.integrations.optuna import LuthierSampler  # noqa: E402


class TestLuthierSampler(
    BasicSamplerTestCase,  # type: ignore[misc]
    MultiObjectiveSamplerTestCase,  # type: ignore[misc]
    RelativeSamplerTestCase,  # type: ignore[misc]
):
    """Every case that is for samplers that take several objectives."""

    @pytest.fixture
    def sampler(self, coordinator_folder: Path) -> Callable[[], BaseSampler]:
        """Makes samplers that share one coordinator."""
        return lambda: LuthierSampler(db=str(coordinator_folder))


class TestConstrainedLuthierSampler(BasicSamplerTestCase, MultiObjectiveSamplerTestCase):  # type: ignore[misc]
    """The cases of a sampler with constraints. They are met, as the cases ask for the best value of all trials."""

    @pytest.fixture
    def sampler(self, coordinator_folder: Path) -> Callable[[], BaseSampler]:
        """Makes samplers that share one coordinator."""
        return lambda: LuthierSampler(
            "tpe", db=str(coordinator_folder), constraints_func=lambda trial: (trial.number % 3 - 2.0, float("-inf"))
        )
