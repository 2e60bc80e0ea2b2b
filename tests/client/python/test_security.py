"""Which coordinators a program talks to unasked, and to whom it gives its token."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
from pathlib import Path

import pytest

import luthier
from luthier import _client, _ownership, _security

TOKEN = "lut_0123456789abcdef_" + "S" * 43


@pytest.fixture()
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of LUTHIER_TOKEN_FILE, with a token."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    monkeypatch.setenv("LUTHIER_TOKEN_FILE", str(file))
    return file


def test_a_token_is_read_and_not_shown(token: Path) -> None:
    metadata = _security.metadata()
    assert metadata[0][1] == "Bearer " + TOKEN
    assert "SSS" not in f"{metadata} {metadata[0][1]} {metadata[0][1]!r} {metadata!r}"
    try:
        raise RuntimeError(metadata)
    except RuntimeError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "SSS" not in shown


@pytest.mark.parametrize("text, words", [
    (b"", "is empty"), (b"\xef\xbb\xbf" + TOKEN.encode(), "byte order mark"), (b"password", "they begin with lut_"),
    (TOKEN.encode() + b"\xff", "character 65 is a character beyond ASCII"), (TOKEN.encode() + b"\0x", "a zero byte"),
    (TOKEN.encode() + b"\n" + TOKEN.encode(), "more than one line"), (b"lut_" + b"S" * 2**20, "larger than a token"),
])  # fmt: skip
def test_what_is_no_token_is_said_without_it(text: bytes, words: str, token: Path) -> None:
    token.write_bytes(text)
    with pytest.raises(ValueError, match=words) as caught:
        luthier.load("s", server="localhost:1")
    assert "SSS" not in str(caught.value) and "LUTHIER_TOKEN_FILE: " in str(caught.value)


def test_files_that_others_read_are_refused(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o640, 0o604):
        token.chmod(mode)
        with pytest.raises(ValueError, match="can be read by others"):
            _security.metadata()
    monkeypatch.setenv("LUTHIER_TOKEN_FILE", TOKEN)
    with pytest.raises(ValueError, match="is a token where the name of a file") as caught:
        _security.metadata()
    assert "SSS" not in str(caught.value)


def test_a_pipe_is_read_once(token: Path) -> None:
    token.unlink()
    os.mkfifo(token)
    writer = threading.Thread(target=token.write_text, args=(TOKEN + "\n",))
    writer.start()
    assert _security.metadata()[0][1] == "Bearer " + TOKEN
    writer.join()


def test_plain_text_to_other_machines_must_be_asked_for(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = _security.metadata()
    for own in ("localhost:1", "LocalHost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/nowhere/socket"):
        _security.check_plaintext(own, sent, False)
    for other in ("db1.example:1", "10.0.0.1:1", "[fe80::1]:1", "0.0.0.0:1", "localhost.:1", "localhost.evil.io:1", "127.1:1"):
        with pytest.raises(ValueError, match="plain text"):
            _security.check_plaintext(other, sent, False)
        with pytest.raises(ValueError, match="plain text"):
            luthier.load("s", server=other)
        _security.check_plaintext(other, sent, True)
    monkeypatch.setenv("LUTHIER_ACCEPT_PLAINTEXT", "1")
    _security.check_plaintext("db1.example:1", sent, False)
    monkeypatch.setenv("LUTHIER_ACCEPT_PLAINTEXT", "perhaps")
    with pytest.raises(ValueError, match="neither 1 nor 0"):
        _security.check_plaintext("db1.example:1", sent, False)
    monkeypatch.delenv("LUTHIER_ACCEPT_PLAINTEXT")
    monkeypatch.setenv("LUTHIER_TLS_CA", "system")
    _security.check_plaintext("db1.example:1", sent, False)
    monkeypatch.delenv("LUTHIER_TLS_CA")
    monkeypatch.delenv("LUTHIER_TOKEN_FILE")
    _security.check_plaintext("db1.example:1", _security.metadata(), False)  # There is nothing to give away.
    with pytest.raises(TypeError, match="accept_plaintext"):
        luthier.load("s", server="db1.example:1", accept_plaintext="yes")  # type: ignore[arg-type]


def test_what_was_accepted_goes_with_a_study(token: Path, name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    client = _client.Client("db1.example:1", None, True)
    assert client.accept_plaintext
    study._client, kept = client, study._client
    kind, where = study.__reduce__()
    study._client = kept
    assert where[-1] is True and pickle.loads(pickle.dumps(study)).name == name


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
