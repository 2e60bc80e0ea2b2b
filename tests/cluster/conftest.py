"""Makes the helpers of attacks and of fleets importable, and keeps what is set around the tests away from the programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "attack")]
for _name in [name for name in os.environ if name.startswith("LUTHIER_")]:
    if _name not in ("LUTHIER_BIN_DIR", "LUTHIER_UPDATE_GOLDEN"):
        del os.environ[_name]

import attack  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes luthier.v1.*_pb2 importable in all tests."""
    attack.generate_messages(tmp_path_factory.mktemp("proto"))
