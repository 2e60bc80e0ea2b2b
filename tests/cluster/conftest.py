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


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which an engine could not be had is a skipped one for ctest, too, and says why."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if exitstatus == 0 and reporter.stats.get("skipped") and not reporter.stats.get("passed"):
        for reason in {report.longrepr[2] for report in reporter.stats["skipped"]}:
            print(f"\nskipped: {reason.removeprefix('Skipped: ')}")
        session.exitstatus = 77
