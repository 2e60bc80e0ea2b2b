"""How a connection is protected: TLS and the token, as the environment says. The variables are those of the
programs."""

from __future__ import annotations

import os
import re
import select
import socket
import stat
import time
from typing import Any, Optional
from urllib.parse import quote

Metadata = tuple[tuple[str, str], ...]
_TOKEN_BYTES = 4096  # Most bytes of a token's file; tokens have 64.
_SOCKET_BYTES = 107  # Longest path of a Unix socket.
_TOKEN_SECONDS = 60.0  # Somebody may have to type a password first.
_MESSAGE_BYTES = 16 << 20
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # A proxy meant for the web is never wanted.
    ("grpc.keepalive_time_ms", 10_000),  # After a partition calls would hang until their deadlines.
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]


_DNS = "dns:///"  # Before a name that may have several addresses.
_MOST_ADDRESSES = 16


def addresses(server: str) -> list[str]:
    """Returns the addresses in "a:1,b:1". What begins with "unix:" is one address to its end, since paths may have
    commas: a socket comes last. The C++ client's twin (lib/wire/addresses.h)."""
    found: list[str] = []
    left = server
    while not left.startswith("unix:") and "," in left:
        one, _, left = left.partition(",")
        found.append(one)
    return [*found, left]


def check_address(server: str) -> str:
    """Returns the addresses of a coordinator, each HOST:PORT, dns:///HOST:PORT or unix:PATH. ValueError says what is
    wrong with others."""
    several = addresses(server)
    if len(several) == 1:
        return _check_one(server)
    if len(several) > _MOST_ADDRESSES:
        raise ValueError(
            f"server= names more than {_MOST_ADDRESSES} addresses; a name that has several can be given as "
            "dns:///NAME:PORT"
        )
    for one in several:
        if not one:
            raise ValueError(f"server={server!r} has an empty address; write HOST:PORT,HOST:PORT")
        _check_one(one)
    return server


def _check_one(server: str) -> str:
    if server.startswith("unix:"):
        if not server[len("unix:") :]:
            raise ValueError(f"server={server!r} names no socket; give unix:PATH")
        return server
    if re.search(r"[\x00-\x20\x7f]", server):
        raise ValueError(f"server={server!r} contains spaces or control characters")
    name = server[len(_DNS) :] if server.startswith(_DNS) else server
    if "/" in name:
        raise ValueError(
            f"server={server!r} is not HOST:PORT, dns:///HOST:PORT or unix:PATH; leave out the scheme and slashes"
        )
    host, _, port = name.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"server={server!r} has no host or no port; give HOST:PORT, for instance localhost:7790")
    if ":" in host and not host.startswith("["):
        raise ValueError(f"server={server!r} looks like an IPv6 address; write [ADDRESS]:PORT")
    return server


class Secret(str):
    """A text that is not shown: not in a traceback with its variables, not in a log."""

    def __repr__(self) -> str:
        return "'…'"

    def __str__(self) -> str:
        return "…"

    def __format__(self, spec: str) -> str:
        return "…"


def metadata() -> Metadata:
    """Returns what goes with every call: the token of LUTHIER_TOKEN_FILE, else of LUTHIER_TOKEN. ValueError where the
    file is missing, others may read it, or what is there is no token; it has nothing of the token."""
    path = os.environ.get("LUTHIER_TOKEN_FILE")
    if path:
        token = _token_in(_read_token(path), f"LUTHIER_TOKEN_FILE: {path}")
    else:
        given = os.fsencode(os.environ.get("LUTHIER_TOKEN", ""))
        token = _token_in(given, "LUTHIER_TOKEN:") if given else ""
    return (("authorization", Secret("Bearer " + token)),) if token else ()


def check_plaintext(server: str, sent: Metadata, accept_plaintext: bool) -> None:
    """Raises ValueError where a token would go to another machine in plain text, unasked."""
    accept_plaintext = accept_plaintext or _is_set("LUTHIER_ACCEPT_PLAINTEXT")
    if accept_plaintext or not sent or _encrypted():
        return
    others = [one for one in addresses(server) if not _is_this_machine(one)]
    if not others:
        return
    raise ValueError(
        f"server={others[0]!r} is another machine, and would get the token in plain text, which everybody on the way can "
        "read; set LUTHIER_TLS_CA to the file of the certificate that signed the coordinator's, or give "
        "accept_plaintext=True (LUTHIER_ACCEPT_PLAINTEXT=1) where the network is trusted"
    )


def _encrypted() -> bool:
    return bool(os.environ.get("LUTHIER_TLS_CA") or os.environ.get("LUTHIER_TLS_CERT"))


def _is_set(variable: str) -> bool:
    value = os.environ.get(variable, "").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"{variable}={value!r} is neither 1 nor 0")


def _is_this_machine(server: str) -> bool:
    """Tells if an address reaches this machine alone. Names that are written otherwise may be anybody's."""
    host = server.rpartition(":")[0]
    if host.startswith(_DNS):
        host = host[len(_DNS) :]
    if server.startswith("unix:") or host.lower() == "localhost":
        return True
    family, host = (socket.AF_INET6, host[1:-1]) if host.startswith("[") else (socket.AF_INET, host)
    try:
        packed = socket.inet_pton(family, host)
    except (OSError, ValueError):
        return False
    return packed == b"\0" * 15 + b"\1" if len(packed) == 16 else packed[0] == 127


def _token_in(text: bytes, shown: str) -> str:
    """Returns the token that a text consists of. ValueError says what else it is, without any of it."""
    if text.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{shown} begins with a byte order mark; save it as plain text without one")
    if len(text) > _TOKEN_BYTES:
        raise ValueError(f"{shown} is larger than a token can be; is it the right one?")
    token = text.strip()
    if not token:
        raise ValueError(f"{shown} holds no token: it is empty")
    if not token.startswith(b"lut_"):
        raise ValueError(f"{shown} holds no token: they begin with lut_")
    if b"\n" in token:
        raise ValueError(f"{shown} holds more than one line; leave the token alone in it")
    for at, byte in enumerate(token, 1):
        if not 0x21 <= byte <= 0x7E:
            raise ValueError(
                f"{shown} holds no token: character {at} is {_kind(byte)}, which no token has; copy it once more"
            )
    return token.decode("ascii")


def _kind(byte: int) -> str:
    if byte in b" \t":
        return "a blank"
    if byte == 0:
        return "a zero byte"
    return "a control character" if byte < 0x20 or byte == 0x7F else "a character beyond ASCII"


def _read_token(path: str) -> bytes:
    if re.search(r"lut_[A-Za-z0-9]{16}_", path):
        raise ValueError(
            "LUTHIER_TOKEN_FILE: is a token where the name of a file with it belongs; whoever lists processes may have "
            "read it: rotate it"
        )
    if os.name != "posix":
        return (_read("LUTHIER_TOKEN_FILE", path) or b"")[: _TOKEN_BYTES + 1]
    try:
        # Not to wait here for the other end of a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"LUTHIER_TOKEN_FILE: {error}") from None
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise ValueError(f"LUTHIER_TOKEN_FILE: {path} is a folder; name the file with the token")
        # A service manager hands over files of root, with a group or an access list of ours.
        others = stat.S_IRWXO | (stat.S_IRWXG if info.st_uid == os.geteuid() else 0)
        if stat.S_ISREG(info.st_mode) and info.st_mode & others:
            raise ValueError(f"LUTHIER_TOKEN_FILE: {path} can be read by others; chmod 600 {path}")
        return os.read(fd, _TOKEN_BYTES + 1) if stat.S_ISREG(info.st_mode) else _read_line(fd, path)
    except OSError as error:
        raise ValueError(f"LUTHIER_TOKEN_FILE: {path}: {error.strerror}") from None
    finally:
        os.close(fd)


def _read_line(fd: int, path: str) -> bytes:
    """Returns the first line of a pipe, or of something like it, for which a minute is waited."""
    line, until = b"", time.monotonic() + _TOKEN_SECONDS
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    while len(line) <= _TOKEN_BYTES:
        left = until - time.monotonic()
        if left <= 0:
            raise ValueError(f"LUTHIER_TOKEN_FILE: {path}: nobody wrote a line to it within a minute")
        if not ready.poll(1000 * left):
            continue
        try:
            byte = os.read(fd, 1)
        except BlockingIOError:
            continue
        if byte in (b"", b"\n"):
            break
        line += byte
    return line


def _unix_target(server: str) -> str:
    """Returns gRPC's target for unix:PATH: the one place where file names are escaped. gRPC takes off what % stands
    for; at commas it splits a path, encoded or not, and a long one it can't have: those go by way of their folder,
    opened here, and open as long as the process. ValueError. The C++ client's twin (lib/wire/channel.cc)."""
    path = os.fsencode(server[len("unix:") :])
    if path.startswith(b"///"):
        path = path[2:]  # As some write it.
    if len(path) > _SOCKET_BYTES or b"," in path:
        folder, name = os.path.split(path)
        if b"," in name:
            raise ValueError(f"server={server!r} has a comma in the socket's own name, which gRPC can't have there")
        try:
            fd = os.open(folder or b".", getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            why = f"{error.strerror}, where its folder should be"
            raise ValueError(f"server={server!r} can't be reached: {why}") from None
        path = b"/proc/self/fd/%d/%s" % (fd, name)
        if len(path) > _SOCKET_BYTES:
            os.close(fd)
            raise ValueError(f"server={server!r} has a name of the socket that is too long: 107 bytes with a path")
    return "unix:" + quote(path, safe="/")


def channel(grpc: Any, server: str, several: bool = False) -> Any:
    """Returns a channel of `grpc` (or of `grpc.aio`) to one address of a coordinator, encrypted where LUTHIER_TLS_CA or
    LUTHIER_TLS_CERT is set. `several`: there are others, so that an attempt to connect takes a second at most.
    ValueError for files that are missing or do not go together."""
    options = [*_OPTIONS, ("grpc.min_reconnect_backoff_ms", 1000)] if several or server.startswith(_DNS) else _OPTIONS
    ca, cert, key = (os.environ.get("LUTHIER_TLS_" + name) for name in ("CA", "CERT", "KEY"))
    if server.startswith("unix:"):
        return grpc.insecure_channel(_unix_target(server), options=options)
    if not (ca or cert):
        return grpc.insecure_channel(server, options=options)
    if bool(cert) != bool(key):
        raise ValueError("LUTHIER_TLS_CERT and LUTHIER_TLS_KEY go together: one of them is missing")
    from grpc import ssl_channel_credentials

    roots = None if not ca or ca == "system" else _read("LUTHIER_TLS_CA", ca)
    credentials = ssl_channel_credentials(roots, _read("LUTHIER_TLS_KEY", key), _read("LUTHIER_TLS_CERT", cert))
    name = os.environ.get("LUTHIER_TLS_SERVER_NAME")
    more = [("grpc.ssl_target_name_override", name)] if name else []
    return grpc.secure_channel(server, credentials, options=[*options, *more])


def _read(variable: str, path: Optional[str]) -> Optional[bytes]:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"{variable}: {error}") from None
