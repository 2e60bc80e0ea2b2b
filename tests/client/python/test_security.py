"""Which coordinators a program talks to unasked, and to whom it gives its token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import luthier
from luthier import _ownership


def test_a_directory_of_others_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "luthier.db.d"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(luthier.Unavailable, match=r"'luthier.db.d' can be written to by everybody; write db='luthier.db.d'"):
        luthier.load("s")
    folder.chmod(0o755)
    assert _ownership.trouble("luthier.db.d") is None and _ownership.trouble("nothing/there") is None
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert _ownership.trouble("link") is None
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        with pytest.raises(luthier.Unavailable, match="belongs to "):
            luthier.load("s")
        assert "belongs to" in str(_ownership.trouble("link"))
        os.chown(folder, 0, 0)
        os.lchown(link, 65534, 65534)
        assert "'link' belongs to" in str(_ownership.trouble("link"))


def test_programs_are_not_those_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from luthier import _server

    monkeypatch.chdir(tmp_path)
    (tmp_path / "luthierd").write_bytes(b"\x7fELF")
    (tmp_path / "luthierd").chmod(0o755)
    monkeypatch.delenv("LUTHIER_BIN_DIR", raising=False)
    monkeypatch.setenv("PATH", f":{tmp_path / 'nothing'}:")
    with pytest.raises(luthier.Unavailable, match="not installed"):
        _server.program("luthierd")
