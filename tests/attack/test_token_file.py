"""Files and variables with anything but a token: every program says what is wrong, where, and shows nothing of it. That
Python reads files alike is a test of the package's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from attack import ROOT, Coordinator, run

SECRET = "Zq7" * 14 + "Z"
TOKEN = "lut_0123456789abcdef_" + SECRET
PYTHON = (f"import sys; sys.path.insert(0, {str(ROOT / 'client/python')!r})\nimport luthier\n"
          "luthier.load('s', server=sys.argv[1])\n")

BAD = {
    "empty": (b"", "is empty"),
    "blank": (b" \r\n\t\n", "is empty"),
    "high byte": (TOKEN.encode() + b"\xff", "character 65 is a character beyond ASCII"),
    "high byte first": (b"lut_\xe9" + SECRET.encode(), "character 5 is a character beyond ASCII"),
    "utf-8": (TOKEN.encode() + "ü".encode(), "a character beyond ASCII"),
    "zero": (TOKEN.encode()[:30] + b"\0" + TOKEN.encode()[30:], "character 31 is a zero byte"),
    "carriage return": (TOKEN.encode()[:30] + b"\r" + TOKEN.encode()[30:], "character 31 is a control character"),
    "escape": (b"lut_\x1b[31m" + SECRET.encode(), "character 5 is a control character"),
    "delete": (TOKEN.encode() + b"\x7fx", "a control character"),
    "two words": (TOKEN.encode() + b" " + TOKEN.encode(), "a blank"),
    "two lines": (TOKEN.encode() + b"\n" + TOKEN.encode() + b"\n", "more than one line"),
    "header": (TOKEN.encode() + b"\r\nx-admin: 1\r\n", "more than one line"),
    "mark": (b"\xef\xbb\xbf" + TOKEN.encode(), "byte order mark"),
    "utf-16": (b"\xff\xfe" + TOKEN.encode("utf-16-le"), "byte order mark"),
    "key": (b"-----BEGIN PRIVATE KEY-----\n" + SECRET.encode() + b"\n", "they begin with lut_"),
    "large": (b"lut_" + SECRET.encode() * 25_000, "larger than a token can be"),
}


def programs(address: str, tmp_path: Path) -> dict[str, tuple[list[str], int]]:
    """Each program that sends a token, and its exit code for one that it does not take."""
    worker = ["luthier-worker", "--server", address, "--spool", str(tmp_path / "spool"), "--run-as", str(os.geteuid())]
    return {"luthier": (["luthier", "study", "list", "--server", address, "--verbose", "--log-level", "debug"], 2),
            "luthier-worker": ([*worker, "--log-level", "debug"], 2)}


def says(argv: list[str], environment: dict[bytes, bytes]) -> subprocess.CompletedProcess[str]:
    every = {**os.environb, b"GRPC_VERBOSITY": b"debug", b"GRPC_TRACE": b"all", b"XDG_STATE_HOME": b"/nonexistent",
             **environment}
    if argv[0] == "python":
        del every[b"GRPC_TRACE"]  # Of the library that the user's own program imports.
        return subprocess.run([sys.executable, "-c", PYTHON, argv[1]], capture_output=True, text=True, errors="replace",
                              timeout=60, env=every, check=False)
    return run(*argv, check=False, env=every, timeout=20)


def hidden(said: subprocess.CompletedProcess[str], secret: str = SECRET) -> None:
    """Neither the secret nor its bytes in hexadecimal, in the ways in which gRPC writes them."""
    text = said.stdout + said.stderr
    part = secret[3:15]
    for shown in (part, part.encode().hex(), part.encode().hex(" "), part.encode().hex(":"), part.encode().hex().upper()):
        assert shown not in text, text


@pytest.mark.parametrize("kind", BAD)
def test_files_that_hold_no_token(kind: str, tmp_path: Path) -> None:
    content, words = BAD[kind]
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    for argv, code in programs("localhost:1", tmp_path).values():
        for more, environment, named in [(["--token-file", str(file)], {}, "--token-file: "),
                                         ([], {b"LUTHIER_TOKEN_FILE": bytes(file)}, "LUTHIER_TOKEN_FILE: ")]:
            said = says([*argv, *more], environment)
            assert said.returncode == code and words in said.stderr and named in said.stderr, (argv, said)
            hidden(said)


def test_variables_that_hold_no_token(tmp_path: Path) -> None:
    kinds = {**programs("localhost:1", tmp_path), "python": (["python", "localhost:1"], 1)}
    for kind in ("high byte", "utf-8", "escape", "header", "mark", "key", "blank"):
        content, words = BAD[kind]
        for argv, code in kinds.values():
            if argv[0] == "python" and kind not in ("high byte", "header"):
                continue  # The same function; an interpreter takes its time.
            said = says(argv, {b"LUTHIER_TOKEN": content})
            assert said.returncode == code and words in said.stderr and "LUTHIER_TOKEN: " in said.stderr, (kind, said)
            hidden(said)


def test_files_that_are_none(tmp_path: Path) -> None:
    pipe, private = tmp_path / "pipe", tmp_path / "private"
    os.mkfifo(pipe)
    private.write_text(TOKEN)
    private.chmod(0)
    cases: list[tuple[str, str]] = [(str(tmp_path), "is a folder"), (str(tmp_path / "no"), "No such file"),
                                    ("/dev/null", "is empty"), ("/dev/zero", "larger than a token can be"),
                                    (TOKEN, "is a token where the name of a file with it belongs")]
    for mode in (0o640, 0o604, 0o644):
        shown = tmp_path / f"mode{mode:o}"
        shown.write_text(TOKEN)
        shown.chmod(mode)
        cases.append((str(shown), "can be read by others; chmod 600"))
    if os.geteuid() != 0:
        cases.append((str(private), "Permission denied"))
    for path, words in cases:
        for argv, code in programs("localhost:1", tmp_path).values():
            said = says([*argv, "--token-file", path], {})
            assert said.returncode == code and words in said.stderr, said
            hidden(said)


def test_what_is_a_token_arrives(tmp_path: Path) -> None:
    with Coordinator(tmp_path) as made:
        token = made.admin_token
        listing = ["study", "list", "--server", made.address]
        file = tmp_path / "token"
        for text in (token, token + "\n", token + "\r\n", "\n " + token + " \t\n\n"):
            file.write_text(text)
            file.chmod(0o600)
            run("luthier", *listing, "--token-file", file)
            run("luthier", *listing, env={**os.environ, "LUTHIER_TOKEN": text})
        run("luthier", *listing, "--token-file", "-", input=token + "\nmore")
        run("luthier", *listing, "--token-file", "/dev/stdin", input=token + "\n")
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(token + "\n",))
        writer.start()
        run("luthier", *listing, "--token-file", pipe)
        writer.join()


def test_a_token_is_in_no_line_of_a_talkative_program(tmp_path: Path) -> None:
    with Coordinator(tmp_path) as made:
        token = made.admin_token
        argv = ["luthier", "study", "list", "--server", made.address, "--verbose", "--log-level", "debug"]
        said = says(argv, {b"LUTHIER_TOKEN": token.encode()})
        assert said.returncode == 0, said
        hidden(said, token[-43:])
        # Where it does not belong, it is not repeated either.
        for wrong in (["--server", token], ["--project", token], ["--tls-ca", token], ["--db", token], [token],
                      ["--no-such", token], ["-o", token], ["--log-level", token]):
            said = says(["luthier", "study", "list", *wrong], {})
            assert said.returncode != 0
            hidden(said, token[-43:])
        for wrong in (["--server", token], ["--name", token], ["--study", token], ["--run-as", token], ["--gpus", token],
                      ["--commands-from", token], [token], ["--slots", token]):
            said = says(["luthier-worker", *wrong], {})
            assert said.returncode != 0
            hidden(said, token[-43:])


# Names that gRPC puts in a header beside the token.
ODD = ["größe:1", "\u202e:1", "%00:1", "%ff%fe:1", "a%0d%0ab:1", "[::1%25ü]:1", "host:1\x7f", "xn--0:1", "a" * 300 + ":1"]


def test_odd_names_end_no_program() -> None:
    def check(argv: list[str], code: int | None = None, **environment: str) -> None:
        every = {"LUTHIER_ACCEPT_PLAINTEXT": "1", "LUTHIER_TOKEN": TOKEN, **environment}
        said = says(argv, {os.fsencode(key): os.fsencode(value) for key, value in every.items()})
        assert 0 <= said.returncode < 126 if code is None else said.returncode == code, (argv, said)
        hidden(said)

    for odd in ODD:
        check(["luthier", "health", "--timeout", "300ms", "--server", odd])
    for name in ("größe", "\u202e", "a\nb", "a" * 300):
        check(["luthier", "health", "--timeout", "300ms", "--server", "localhost:1"], LUTHIER_TLS_CA="system",
              LUTHIER_TLS_SERVER_NAME=name)
    check(["python", ODD[0]], code=1)
