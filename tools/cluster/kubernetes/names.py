"""Answers a cluster's questions for names (DNS): names.py ADDRESS KUBECONFIG listens on UDP port 53 of ADDRESS.

SERVICE.NAMESPACE.svc.cluster.local and POD.SERVICE.NAMESPACE.svc.cluster.local have the addresses of the service's pods, as
for services without an address of their own; nothing else has any. It asks the API server each time.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request

SUFFIX = ".svc.cluster.local"
TYPE_A = 1
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3


class Endpoints:
    """The addresses of services, as the API server knows them."""

    def __init__(self, kubeconfig: str) -> None:
        with open(kubeconfig, encoding="utf-8") as file:
            text = file.read()
        self.server, self.token = (re.findall(pattern, text)[0] for pattern in (r'server: "([^"]*)"', r"token: (\w+)"))
        self.context = ssl._create_unverified_context()  # On its own network, with a certificate that it made itself.

    def addresses(self, name: str) -> list[str] | None:
        """Returns the addresses of a name; None if there is no such name."""
        words = name[: -len(SUFFIX)].split(".") if name.endswith(SUFFIX) else []
        if len(words) not in (2, 3):
            return None
        service, namespace = words[-2:]
        request = urllib.request.Request(f"{self.server}/api/v1/namespaces/{namespace}/endpoints/{service}",
                                         headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=self.context) as answer:
                subsets = json.load(answer).get("subsets") or []
        except urllib.error.HTTPError:
            return None
        found = [address for subset in subsets for address in
                 (subset.get("addresses") or []) + (subset.get("notReadyAddresses") or [])]
        return [address["ip"] for address in found if len(words) == 2 or address.get("hostname") == words[0]]


def question(packet: bytes) -> tuple[str, int, int]:
    """Returns the name, the type, and where the first question ends."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("ascii").lower())
        at += 1 + packet[at]
    kind, _ = struct.unpack("!HH", packet[at + 1:at + 5])
    return ".".join(labels), kind, at + 5


def reply(packet: bytes, endpoints: Endpoints) -> bytes:
    """Returns the reply to a packet with one question."""
    name, kind, end = question(packet)
    try:
        addresses = endpoints.addresses(name)
        code = NO_ERROR if addresses is not None else NO_SUCH_NAME
    except OSError:
        addresses, code = None, SERVER_FAILURE
    records = [b"\xc0\x0c" + struct.pack("!HHIH", TYPE_A, 1, 1, 4) + socket.inet_aton(address)
               for address in (addresses or [])] if kind == TYPE_A else []
    flags = 0x8580 | code  # A reply of whom the name is, to one that wanted recursion.
    return packet[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + packet[12:end] + b"".join(records)


def main() -> None:
    """Answers until it is ended."""
    endpoints = Endpoints(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((sys.argv[1], 53))
        while True:
            packet, peer = listener.recvfrom(4096)
            try:
                listener.sendto(reply(packet, endpoints), peer)
            except (IndexError, UnicodeDecodeError, struct.error):
                continue  # It was no question.


if __name__ == "__main__":
    main()
