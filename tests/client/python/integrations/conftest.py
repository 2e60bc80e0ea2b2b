"""What the tests of the integrations share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def coordinator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of one coordinator for the whole run; the first study in it starts the coordinator."""
    return tmp_path_factory.mktemp("coordinator") / "luthier.db.d"


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker, for runs that do not read the package's pyproject.toml."""
    config.addinivalue_line("markers", "peers: needs packages from PyPI; skipped, saying so, without them")
