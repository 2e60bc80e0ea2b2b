"""Files that may not be written are refused at the start, by name, with the mend; nothing is served before that."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from attack import BIN, PATIENCE, Coordinator

NOBODY = 65534


def start(data: Path) -> subprocess.CompletedProcess[str]:
    """luthierd, as somebody whom modes bind. It must not serve: then it would run until the time is up."""
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*prefix, BIN / "luthierd", "--listen", "127.0.0.1:0", "--data-dir", data]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a coordinator that was killed, so that it has a WAL; of somebody whom modes bind."""
    folder = tmp_path_factory.mktemp("readonly")
    with Coordinator(folder) as coordinator:
        coordinator.caller(coordinator.admin_token).create_study("s")
        coordinator.kill()
    if os.geteuid() == 0:
        for parent in [folder, *folder.parents][:4]:
            parent.chmod(parent.stat().st_mode | 0o011)
        for path in [coordinator.data, *coordinator.data.iterdir()]:
            os.chown(path, NOBODY, NOBODY)
    return coordinator.data


@pytest.mark.parametrize("name", ["luthier.db", "luthier.db-wal", "luthier.db-shm", "lock", "access.db",
                                  "access.db-wal"])
def test_a_file_of_mode_0444_is_refused_with_the_mend(stopped: Path, name: str) -> None:
    file = stopped / name
    before, content = file.stat().st_mode, file.read_bytes()
    file.chmod(0o444)
    try:
        refused = start(stopped)
        assert refused.returncode == 1 and "serving" not in refused.stdout, refused.stderr
        assert f"{file} can't be written by " in refused.stderr and "mode is 0444" in refused.stderr, refused.stderr
        mend = re.search(r"run: chmod u\+rw (\S+)", refused.stderr)
        assert mend and mend[1] == str(file), refused.stderr
        assert file.read_bytes() == content
    finally:
        file.chmod(before)


def test_a_directory_that_cannot_be_written_is_refused(stopped: Path) -> None:
    stopped.chmod(0o500)
    try:
        refused = start(stopped)
        assert refused.returncode == 1, refused.stderr
        assert f"{stopped} can't be written by " in refused.stderr and "chmod u+rwx" in refused.stderr, refused.stderr
    finally:
        stopped.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")
def test_a_file_of_another_user_is_refused_with_the_owner(stopped: Path) -> None:
    file = stopped / "luthier.db"
    os.chown(file, 0, 0)
    try:
        refused = start(stopped)
        assert refused.returncode == 1, refused.stderr
        assert "its owner root" in refused.stderr and "chown " in refused.stderr, refused.stderr
    finally:
        os.chown(file, NOBODY, NOBODY)


@pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
                    reason="a mount namespace needs root")
def test_a_read_only_file_system_is_refused(stopped: Path) -> None:
    script = f'mount --bind {stopped} {stopped} && mount -o remount,bind,ro {stopped} && exec "$@"'
    refused = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", BIN / "luthierd",
                              "--listen", "127.0.0.1:0", "--data-dir", stopped], capture_output=True, text=True,
                             timeout=PATIENCE)
    assert refused.returncode == 1, refused.stderr
    assert "Read-only file system" in refused.stderr and "mount its file system for writing" in refused.stderr
