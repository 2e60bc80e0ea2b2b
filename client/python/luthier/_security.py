"""How a connection is protected: TLS and the token, as the environment says. The variables are those of the
programs."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Optional

_Metadata = tuple[tuple[str, str], ...]


def check_address(server: str) -> str:
    """Returns the address of a coordinator, HOST:PORT or unix:PATH. ValueError says what is wrong with others."""
    if re.search(r"[\x00-\x20\x7f]", server):
        raise ValueError(f"server={server!r} contains spaces or control characters")
    if server.startswith("unix:"):
        return server
    if "/" in server:
        raise ValueError(f"server={server!r} is not HOST:PORT or unix:PATH; leave out the scheme and slashes")
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"server={server!r} has no host or no port; give HOST:PORT, for instance localhost:7790")
    if ":" in host and not host.startswith("["):
        raise ValueError(f"server={server!r} looks like an IPv6 address; write [ADDRESS]:PORT")
    return server


def metadata() -> _Metadata:
    """Returns what goes with every call: the token of LUTHIER_TOKEN_FILE, else of LUTHIER_TOKEN. ValueError where the
    file is missing, others may read it, or it has no token."""
    path = os.environ.get("LUTHIER_TOKEN_FILE")
    token = _read_token(path) if path else os.environ.get("LUTHIER_TOKEN", "").strip()
    return (("authorization", f"Bearer {token}"),) if token else ()


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.readline().strip()
    except OSError as error:
        raise ValueError(f"LUTHIER_TOKEN_FILE: {error}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"LUTHIER_TOKEN_FILE: {path} can be read by others; chmod 600 {path}")
    if not token.startswith("lut_"):
        raise ValueError(f"LUTHIER_TOKEN_FILE: {path} holds no token: they begin with lut_")
    return token


def channel(grpc: Any, target: str, options: list[tuple[str, Any]]) -> Any:
    """Returns a channel of `grpc` (or of `grpc.aio`) to a coordinator, encrypted where LUTHIER_TLS_CA or
    LUTHIER_TLS_CERT is set. ValueError for files that are missing or do not go together."""
    ca, cert, key = (os.environ.get("LUTHIER_TLS_" + name) for name in ("CA", "CERT", "KEY"))
    if target.startswith("unix:") or not (ca or cert):
        return grpc.insecure_channel(target, options=options)
    if bool(cert) != bool(key):
        raise ValueError("LUTHIER_TLS_CERT and LUTHIER_TLS_KEY go together: one of them is missing")
    from grpc import ssl_channel_credentials

    roots = None if not ca or ca == "system" else _read("LUTHIER_TLS_CA", ca)
    credentials = ssl_channel_credentials(roots, _read("LUTHIER_TLS_KEY", key), _read("LUTHIER_TLS_CERT", cert))
    name = os.environ.get("LUTHIER_TLS_SERVER_NAME")
    more = [("grpc.ssl_target_name_override", name)] if name else []
    return grpc.secure_channel(target, credentials, options=[*options, *more])


def _read(variable: str, path: Optional[str]) -> Optional[bytes]:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"{variable}: {error}") from None
