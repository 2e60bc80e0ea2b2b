"""Heartbeats of the processes of `optimize(processes=...)`, which their parent sends for them.

An objective that keeps the interpreter's lock starves every thread of its process, the one of heartbeats, too. The
parent only waits, so its thread runs. A process tells its leases in lines of JSON on a socket, and hears there what the
service wants of them. When it dies, the parent lets its leases go.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from luthier._client import Client, Heartbeats


class Told(Heartbeats):
    """Stands for the heartbeats of a process whose parent sends them; `fd` is the socket to the parent."""

    def __init__(self, client: Client, fd: int) -> None:
        super().__init__(client)
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._hearers: dict[str, Callable[[str], None]] = {}
        threading.Thread(target=self._hear, name="luthier-directives", daemon=True).start()

    def add(self, worker: str, token: bytes, ttl: float, tell: Callable[[str], None]) -> None:
        """Has a lease kept until `remove`; `tell` hears every directive but CONTINUE."""
        with self._lock:
            self._hearers[token.hex()] = tell
            self._say({"add": token.hex(), "worker": worker, "ttl": ttl})

    def remove(self, token: bytes) -> None:
        """Lets a lease go."""
        with self._lock:
            if self._hearers.pop(token.hex(), None) is not None:
                self._say({"remove": token.hex()})

    def _say(self, what: dict[str, Any]) -> None:
        try:
            self._socket.sendall((json.dumps(what) + "\n").encode())
        except OSError:
            pass  # The parent is gone, and this process is being ended.

    def _hear(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                said = json.loads(line)
                with self._lock:
                    tell = self._hearers.get(said["token"])
                if tell is not None:
                    tell(said["directive"])


class Relay:
    """The parent's end for one process: what it holds is kept alive by `beats`. `fileno` is for the process."""

    def __init__(self, beats: Heartbeats) -> None:
        self._beats = beats
        self._ours, self._theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._held: set[bytes] = set()
        self._closed = False

    def fileno(self) -> int:
        """The descriptor that the process inherits."""
        return self._theirs.fileno()

    def begin(self) -> None:
        """Listens, once the process has its end."""
        self._theirs.close()
        threading.Thread(target=self._listen, name="luthier-relay", daemon=True).start()

    def _listen(self) -> None:
        try:
            with self._ours.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except (OSError, ValueError):
            pass  # It was killed in the middle of a line, or this end is closed.
        self.close()

    def _take(self, said: dict[str, Any]) -> None:
        with self._lock:
            if "remove" in said:
                token = bytes.fromhex(said["remove"])
                self._held.discard(token)
                self._beats.remove(token)
            elif not self._closed:
                token = bytes.fromhex(said["add"])
                self._held.add(token)
                self._beats.add(said["worker"], token, said["ttl"], lambda directive: self._tell(token, directive))

    def _tell(self, token: bytes, directive: str) -> None:
        if directive != "CONTINUE":
            try:
                line = json.dumps({"token": token.hex(), "directive": directive}) + "\n"
                self._ours.send(line.encode(), socket.MSG_DONTWAIT)
            except OSError:
                pass  # It has ended, or has heard enough: the next beat says it again.

    def close(self) -> None:
        """Lets go what the process held; it has ended."""
        with self._lock:
            self._closed = True
            held, self._held = self._held, set()
        for token in held:
            self._beats.remove(token)
        try:
            self._ours.shutdown(socket.SHUT_RDWR)  # Ends `_listen`, also where a child of the process has its end.
        except OSError:
            pass
