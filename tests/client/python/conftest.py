"""The package from the sources, with its descriptors, and coordinators of each test's own."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "client" / "python"
sys.path.insert(0, str(PACKAGE))
os.environ["PYTHONPATH"] = str(PACKAGE)
for _name in [name for name in os.environ if name.startswith("LUTHIER_") and name not in ("LUTHIER_BIN_DIR",)]:
    if not _name.startswith(("LUTHIER_TEST_", "LUTHIER_PYTHON")):
        del os.environ[_name]


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker, for runs that do not read the package's pyproject.toml."""
    config.addinivalue_line("markers", "peers: needs packages from PyPI; skipped, saying so, without them")


def pytest_sessionstart() -> None:
    """Makes the descriptors where they are missing or older than the protocol."""
    made = PACKAGE / "luthier" / "luthier.pb"
    newest = max(path.stat().st_mtime for path in (ROOT / "proto").rglob("*.proto"))
    if not made.is_file() or made.stat().st_mtime < newest:
        subprocess.run([str(PACKAGE / "make_descriptors.sh")], check=True)


@pytest.fixture(scope="session")
def session_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The data directory of one coordinator for all tests that do not disturb it."""
    from luthier import _client

    yield str(tmp_path_factory.mktemp("session") / "db")
    _client.close_all()


@pytest.fixture()
def name(request: pytest.FixtureRequest) -> str:
    """A name for a study that no other test has."""
    plain = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{plain[:50]}-{random.SystemRandom().randrange(16**6):06x}"


@pytest.fixture()
def db(tmp_path: Path) -> Iterator[str]:
    """A data directory of the test's own; its coordinator ends with the test."""
    from luthier import _client

    folder = str(tmp_path / "db")
    yield folder
    found = _client._clients.pop(folder, None)
    if found is not None:
        found.close()


@pytest.fixture()
def seed() -> int:
    """The seed of what a test draws at random; LUTHIER_TEST_SEED repeats a run."""
    drawn = int(os.environ.get("LUTHIER_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print("LUTHIER_TEST_SEED", drawn)
    return drawn
