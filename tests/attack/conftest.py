"""Messages of the protocol, coordinators of every kind, and a seed that is printed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
# Nothing of who runs the tests reaches the programs, and nothing of the programs their home directory.
for _name in [name for name in os.environ if name.startswith("LUTHIER_")]:
    if _name != "LUTHIER_BIN_DIR" and not _name.startswith("LUTHIER_ATTACK_"):
        del os.environ[_name]

import attack  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes luthier.v1.*_pb2 importable in all tests."""
    attack.generate_messages(tmp_path_factory.mktemp("proto"))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private authority with certificates of a server and of a client named alice."""
    return attack.make_certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture()
def coordinator(tmp_path: Path) -> Iterator[attack.Coordinator]:
    """A coordinator on a port of loopback that asks for tokens."""
    with attack.Coordinator(tmp_path) as made:
        yield made


@pytest.fixture()
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness of a seed that is printed; LUTHIER_ATTACK_SEED sets it."""
    seed = int(os.environ.get("LUTHIER_ATTACK_SEED", "1"))
    print(f"{request.node.name}: LUTHIER_ATTACK_SEED={seed}")
    return random.Random(seed)
