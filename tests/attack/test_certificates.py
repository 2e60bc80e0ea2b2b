"""Keys and certificates that are replaced, damaged or out of date: new connections go on, and the log says why."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attack import Coordinator, make_certificates, run, wait_for


def handshake(coordinator: Coordinator, authority: Path) -> str:
    """Serial number of the certificate that a new connection is shown. Raises OSError."""
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(coordinator.host_and_port, timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as made:
            return made.getpeercert()["serialNumber"]


def issue(folder: Path) -> Path:
    """Another certificate of the authority in `folder`, in a folder of its own."""
    copy = folder.with_name(folder.name + "-new")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    run("luthier", "admin", "pki", "issue", "--out", copy, "--server", "localhost", "--server", "127.0.0.1")
    return copy


def dated(folder: Path, begin: str, end: str) -> None:
    """Replaces the server's certificate by one that holds from `begin` to `end` (YYYYMMDD)."""
    (folder / "openssl.cnf").write_text(
        "[ca]\ndefault_ca=d\n[d]\nnew_certs_dir=.\ndatabase=index.txt\nserial=serial\ndefault_md=sha256\npolicy=p\n"
        "x509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=DNS:localhost\n")
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("1234\n")
    subprocess.run(["openssl", "req", "-new", "-key", "server.key", "-subj", "/CN=localhost", "-out", "server.csr"],
                   cwd=folder, check=True, capture_output=True)
    subprocess.run(["openssl", "ca", "-batch", "-config", "openssl.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-in",
                    "server.csr", "-out", "dated.pem", "-notext", "-startdate", begin + "000000Z", "-enddate",
                    end + "000000Z"], cwd=folder, check=True, capture_output=True)
    os.replace(folder / "dated.pem", folder / "server.pem")


@pytest.fixture()
def pki(tmp_path: Path) -> Path:
    return make_certificates(tmp_path / "pki")


@pytest.fixture()
def served(tmp_path: Path, pki: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path, "--metrics-listen", "127.0.0.1:0", tls=pki) as made:
        yield made


def days_left(coordinator: Coordinator) -> float:
    """The metric, of the server's certificate."""
    port = int(re.search(r"http://127.0.0.1:(\d+)/metrics", coordinator.log())[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return float(re.search(r'luthier_certificate_days_left\{certificate="server"\} (\S+)', text)[1])


def replace_by_zeros(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_huge(path: Path) -> None:
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + b"A" * (4 << 20))


@pytest.mark.parametrize("name", ["server.pem", "server.key"])
@pytest.mark.parametrize("spoil", [replace_by_zeros, replace_by_pipe, make_huge])
def test_what_has_no_end_keeps_nobody_waiting(served: Coordinator, pki: Path, name: str,
                                              spoil: Callable[[Path], None]) -> None:
    before = handshake(served, pki / "ca.pem")
    new = issue(pki)
    spoil(pki / name)
    wait_for(lambda: "certificate_not_taken" in served.log(), "the reason in the log", 10)
    assert str(pki / name) in served.log()
    assert handshake(served, pki / "ca.pem") == before
    assert served.resident_bytes() < 200 << 20
    (pki / name).unlink()
    for file in ("server.key", "server.pem"):
        shutil.copyfile(new / file, pki / "copy")
        (pki / "copy").chmod(0o600)
        os.replace(pki / "copy", pki / file)
    wait_for(lambda: handshake(served, pki / "ca.pem") != before, "the new certificate", 10)
    spoil(pki / name)
    assert served.stop(10) == 0
    again = run("luthierd", "--listen", "127.0.0.1:0", "--data-dir", served.data, *served.flags, check=False, timeout=10)
    assert again.returncode in (1, 2) and str(pki / name) in again.stderr, again


@pytest.mark.parametrize("order", [("server.key", "server.pem"), ("server.pem", "server.key")])
def test_new_connections_never_fail_between_key_and_certificate(served: Coordinator, pki: Path,
                                                                order: tuple[str, str]) -> None:
    before = handshake(served, pki / "ca.pem")
    new = issue(pki)
    shutil.copyfile(new / order[0], pki / order[0])
    wait_for(lambda: "certificate_not_taken" in served.log(), "the reason in the log", 10)
    for _ in range(20):
        assert handshake(served, pki / "ca.pem") == before
    assert str(pki / "server.key") in served.log()
    shutil.copyfile(new / order[1], pki / order[1])
    wait_for(lambda: handshake(served, pki / "ca.pem") != before, "the new certificate", 10)
    assert served.log().count("certificate_not_taken") <= 2, served.log()
    assert 363 < days_left(served) < 366
    for address in (served.address, served.own_socket):
        flags = ["--tls-ca", pki / "ca.pem"] if address == served.address else []
        said = run("luthier", "health", "--verbose", "--server", address, *flags).stdout
        assert re.search(r"^serving\ncertificate server: 36[45] days left, until 20\d\d-", said), said


def test_damaged_missing_and_open_files_are_not_taken(served: Coordinator, pki: Path) -> None:
    before = handshake(served, pki / "ca.pem")
    good = {name: (pki / name).read_bytes() for name in ("server.pem", "server.key")}
    seen = 0
    # Each for another reason than the one before, which is said once.
    for name, content in [("server.pem", b""), ("server.key", b"\xff" * 500), ("server.pem", good["server.pem"][:300]),
                          ("server.key", None), ("server.pem", good["server.pem"] + good["server.pem"])]:
        if content is None:
            (pki / name).unlink()
        else:
            (pki / name).write_bytes(content)
        seen += 1
        wait_for(lambda: served.log().count("certificate_not_taken") >= seen, f"a word about {name}", 10)
        assert handshake(served, pki / "ca.pem") == before
        (pki / name).write_bytes(good[name])
        os.chmod(pki / name, 0o600)
    served.assert_alive()


def test_a_certificate_out_of_date_is_served_and_said(tmp_path: Path, pki: Path) -> None:
    dated(pki, "20200101", "20210101")
    with Coordinator(tmp_path, "--metrics-listen", "127.0.0.1:0", tls=pki) as coordinator:
        assert re.search(r" error certificate_ended .*until=2021-01-01T00:00:00Z", coordinator.log()), coordinator.log()
        assert days_left(coordinator) < 0
        said = run("luthier", "health", "--verbose", "--server", coordinator.own_socket).stdout
        assert "certificate server: ended on 2021-01-01T00:00:00Z" in said, said
        with pytest.raises(ssl.SSLError):
            handshake(coordinator, pki / "ca.pem")
        new = issue(pki)
        for name in ("server.key", "server.pem"):
            shutil.copyfile(new / name, pki / name)
        wait_for(lambda: "certificate_taken" in coordinator.log(), "the new certificate", 10)
        handshake(coordinator, pki / "ca.pem")
        # One that has ended does not replace it.
        dated(pki, "20200101", "20210101")
        wait_for(lambda: "the certificate ended on 2021-01-01" in coordinator.log(), "the reason", 10)
        handshake(coordinator, pki / "ca.pem")


def test_one_that_does_not_hold_yet_is_said(tmp_path: Path, pki: Path) -> None:
    dated(pki, "20400101", "20490101")
    with Coordinator(tmp_path, tls=pki) as coordinator:
        assert "certificate_not_yet" in coordinator.log()


def test_an_authority_of_clients_is_replaced_only_by_one(tmp_path: Path, pki: Path) -> None:
    with Coordinator(tmp_path, tls=pki, mtls=True) as coordinator:
        good = (pki / "ca.pem").read_bytes()
        keep = tmp_path / "ca-for-clients.pem"
        keep.write_bytes(good)
        (pki / "ca.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n")
        wait_for(lambda: "certificate_not_taken" in coordinator.log(), "the reason", 10)
        (tmp_path / "trusted").mkdir()
        shutil.copytree(pki, tmp_path / "trusted", dirs_exist_ok=True)
        shutil.copyfile(keep, tmp_path / "trusted" / "ca.pem")
        coordinator.tls = tmp_path / "trusted"
        coordinator.caller(coordinator.admin_token).call("WorkerService/GetServerInfo")
