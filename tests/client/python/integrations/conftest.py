"""What the tests of the integrations share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def coordinator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of one coordinator for the whole run; the first study in it starts the coordinator."""
    return tmp_path_factory.mktemp("coordinator") / "luthier.db.d"
