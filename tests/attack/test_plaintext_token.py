"""A token goes to another machine in plain text only when its owner says so; and what is sent is read in any case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from attack import ROOT, Coordinator, run, wait_for
from fake_coordinator import Fake

TOKEN = "lut_0123456789abcdef_" + "S" * 43
PYTHON = (f"import sys; sys.path.insert(0, {str(ROOT / 'client/python')!r})\nimport luthier\n"
          "luthier.load('s', server=sys.argv[1], accept_plaintext=sys.argv[2] == 'yes')\n")


def elsewhere(fake: Fake) -> str:
    """An address that leads to this machine, and that nobody knows to do so by how it is written."""
    return f"0.0.0.0:{fake.address.rpartition(':')[2]}"


def clients(server: str, tmp_path: Path, accepted: bool) -> list[list[str]]:
    more = ["--accept-plaintext"] if accepted else []
    worker = ["luthier-worker", "--server", server, "--spool", str(tmp_path / "spool"), "--run-as", str(os.geteuid())]
    return [["luthier", "study", "list", "--server", server, *more],
            ["luthier", "ask", "s", "--server", server, *more],
            [*worker, "--study", "s", *more],
            [sys.executable, "-c", PYTHON, server, "yes" if accepted else "no"]]


def says(argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    every = {**os.environ, "LUTHIER_TOKEN": TOKEN, "XDG_STATE_HOME": "/nonexistent", **environment}
    if argv[0] == sys.executable:
        return subprocess.run(argv, capture_output=True, text=True, env=every, timeout=60, check=False)
    return run(*argv, check=False, env=every, timeout=60)


def test_no_token_to_other_machines_unasked(tmp_path: Path) -> None:
    with Fake("127.0.0.1:0") as fake:
        server = elsewhere(fake)
        for argv in clients(server, tmp_path, accepted=False):
            said = says(argv)
            assert said.returncode in (1, 2), said
            assert "plain text" in said.stderr and "LUTHIER_ACCEPT_PLAINTEXT=1" in said.stderr, said
            assert "LUTHIER_TLS_CA" in said.stderr and "SSSS" not in said.stderr
        assert fake.seen == []
        said = says(["luthier", "health", "--server", server])  # Which needs no token, and sends none.
        assert fake.wait_for_calls() and fake.tokens() == [], said
        # Asked for, by an option or the variable.
        sent = []
        for accepted, variable in ((True, ""), (False, "1")):
            for argv in clients(server, tmp_path, accepted):
                sent.append(f"{TOKEN}{len(sent)}")
                says(argv, LUTHIER_TOKEN=sent[-1], LUTHIER_ACCEPT_PLAINTEXT=variable)
        wait_for(lambda: {f"Bearer {token}" for token in sent} <= set(fake.tokens()), "the tokens of all clients")


def test_without_a_token_nothing_is_refused(tmp_path: Path) -> None:
    with Fake("127.0.0.1:0") as fake:
        server = elsewhere(fake)
        says(["luthier", "study", "list", "--server", server], LUTHIER_TOKEN="")
        assert fake.wait_for_calls() and fake.tokens() == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9"])
def test_this_machine_needs_no_word(host: str) -> None:
    with Fake("127.9.9.9:0" if host == "127.9.9.9" else "127.0.0.1:0") as fake:
        says(["luthier", "study", "list", "--server", f"{host}:{fake.address.rpartition(':')[2]}"])
        fake.wait_for_tokens()


def test_a_switch_that_is_none_is_refused() -> None:
    said = says(["luthier", "study", "list", "--server", "localhost:1"], LUTHIER_ACCEPT_PLAINTEXT="perhaps")
    assert said.returncode == 2 and "LUTHIER_ACCEPT_PLAINTEXT: \"perhaps\" is neither 1 nor 0" in said.stderr, said


def test_the_scheme_is_read_in_any_case(coordinator: Coordinator) -> None:
    token = coordinator.admin_token
    caller = coordinator.caller()
    for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
        caller.metadata = [("authorization", f"{scheme} {token}")]
        caller.call("StudyService/ListStudies", parent="projects/default")
    for wrong in ("Basic", "Bearers", "Beare", ""):
        caller.metadata = [("authorization", f"{wrong} {token}")]
        assert caller.error("StudyService/ListStudies", parent="projects/default").code() is grpc.StatusCode.UNAUTHENTICATED
    caller.close()
