"""A coordinator of an attacker: takes every call, writes down what came with it, and answers none.

As a program (python3 fake_coordinator.py ADDRESS) it prints {"ready": ADDRESS}, then a line of JSON for each call. It needs
no file of ours, so that any user can run it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import Any


class Fake:
    """The program in a process of its own, perhaps of another user. `seen`: what came with each call."""

    def __init__(self, address: str, user: int | None = None) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", Path(__file__).read_text(), address], user=user, group=user,
                                        extra_groups=None if user is None else [], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd="/")
        self.seen: list[dict[str, Any]] = []
        self.address = json.loads(self.process.stdout.readline())["ready"]
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.seen.append(json.loads(line))

    def tokens(self) -> list[str]:
        """The tokens that arrived."""
        return [value for call in self.seen for key, value in call["metadata"] if key == "authorization"]

    def wait_for_tokens(self) -> list[str]:
        """The same once there is one; fails where there never is."""
        end = time.monotonic() + 60.0
        while not self.tokens():
            assert time.monotonic() < end, f"waited in vain for a token; seen: {self.seen}"
            time.sleep(0.01)
        return self.tokens()

    def wait_for_calls(self) -> list[dict[str, Any]]:
        """What came with the calls, once there is one; fails where there never is."""
        end = time.monotonic() + 60.0
        while not self.seen:
            assert time.monotonic() < end, "waited in vain for a call"
            time.sleep(0.01)
        return self.seen

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


def main(address: str) -> None:
    """Serves until standard input ends."""
    import grpc

    class Recorder(grpc.GenericRpcHandler):
        def service(self, details: Any) -> None:
            metadata = [(key, value if isinstance(value, str) else value.hex()) for key, value in details.invocation_metadata]
            print(json.dumps({"method": details.method, "metadata": metadata}), flush=True)

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Recorder(),))
    port = server.add_insecure_port(address)
    server.start()
    print(json.dumps({"ready": address if address.startswith("unix:") else address.rpartition(":")[0] + f":{port}"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
