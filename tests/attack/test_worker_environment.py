"""What a worker has in its environment for itself stays with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack import Coordinator, run
from workers import PLAIN, Study, start_worker, worker_command

SHOWS = r"""
import json, os
json.dump(dict(os.environ), open("seen.json", "w"))
print(json.dumps({"loss": 0}))
"""
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s3cret-1", "WANDB_API_KEY": "s3cret-2", "GITHUB_TOKEN": "s3cret-3",
    "DATABASE_URL": "postgres://u:s3cret-4@db/x", "SSH_AUTH_SOCK": "/tmp/s3cret-5", "HF_TOKEN": "s3cret-6",
    "SLURM_JWT": "s3cret-7", "https_proxy": "http://me:s3cret-8@proxy:3128", "CREDENTIALS_DIRECTORY": "/run/s3cret-9",
    "CONDA_TOKEN": "s3cret-10", "PGPASSWORD": "s3cret-11", "LUTHIER_TOKEN": "s3cret-12", "LUTHIER_ANYTHING": "s3cret-13",
    "HTTPS_PROXY": "me:s3cret-16@proxy:3128", "all_proxy": "s3cret-17@proxy:1080", "PYTHON_PASSWORDS": "s3cret-18",
    "PYTHONPASSWORD": "s3cret-19", "NVIDIA_PAT": "s3cret-20", "JAVA_TOOL_OPTIONS": "-Xmx1g -Dpassword=s3cret-21",
    "HF_TOKENS": "s3cret-22", "CUDA_ApiKey": "s3cret-23", "NVIDIAKEY": "s3cret-24", "NVIDIA_NGCKEYS": "s3cret-25",
    "PYTHON_DB": "host=db password=s3cret-26", "PYTHON_JSON": '{"access_token": "s3cret-27"}', "TF_PWD": "s3cret-28",
    "JAVA_OPTS": "-Djavax.net.ssl.keyStorePassword=s3cret-29", "R_OPTIONS": "--token s3cret-30 -v",
    "HF_MIRROR": "https://hub/?api_key=s3cret-31", "ftp_proxy": "http://me:pa/s3cret-32@proxy:3128",
    "CONDA_CHANNELS": "a, me:s3cret-33@host/channel", "PERL5LIB": "https://me:s3cret-34@host/x",
    "JAX_OAUTH2": "s3cret-35", "FI_CREDS": "s3cret-36", "TORCH_GITHUBTOKEN": "s3cret-37", "SLURM_PASSPHRASES": "s3cret-38",
    "BASH_FUNC_f%%": "() { echo s3cret-14; }", "KUBECONFIG": "/s3cret-15"}
NEEDED = {
    "LANG": "C.UTF-8", "LC_NUMERIC": "C", "TZ": "UTC", "LD_LIBRARY_PATH": "/opt/lib", "PYTHONPATH": "/opt/modules",
    "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "4", "CUDA_HOME": "/opt/cuda", "NCCL_DEBUG": "INFO", "VIRTUAL_ENV": "/v",
    "CONDA_PREFIX": "/c", "HF_HOME": "/hf", "TOKENIZERS_PARALLELISM": "false", "http_proxy": "http://proxy:3128",
    "SLURM_CPUS_PER_TASK": "2", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/cache",
    "TRANSFORMERS_CACHE": "/t", "PATH": "/opt/monkey:/spack/gcc@13/bin:" + PLAIN["PATH"], "MODULEPATH": "/key:/a@1/modules",
    "LOADEDMODULES": "gcc@13:openmpi@5", "NVIDIA_COMPAT": "1", "NVIDIA_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0",
    "XLA_FLAGS": "--xla_dump_to=/x --xla_gpu_autotune_level=2", "UCX_NET_DEVICES": "mlx5_0:1", "no_proxy": "localhost,.corp",
    "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True", "CONDA_DEFAULT_ENV": "tokenizer-work",
    "JAVA_HOME": "/java", "HF_ENDPOINT": "https://hub:8080/x", "LC_TIME": "de_DE.UTF-8@euro", "PYTHONHASHSEED": "0",
    "SLURM_JOB_NODELIST": "n[1-4]", "OMP_PLACES": "{0:4}:2", "TOKENIZERS_MAX": "3", "JAX_PLATFORMS": "cpu"}


@pytest.fixture()
def server(tmp_path: Path) -> Iterator[str]:
    with Coordinator(tmp_path) as made:
        yield made.own_socket


def seen_by_a_command(server: str, folder: Path, *flags: str) -> dict[str, str]:
    environment = {**PLAIN, **SECRETS, **NEEDED}
    del environment["LUTHIER_TOKEN"]  # This coordinator's socket takes none.
    worker = start_worker(server, folder, "--study", "s", "--exit-when-done", *flags, environment=environment)
    assert worker.wait(60) == 0, (folder / "worker.log").read_text()
    return dict(json.loads((folder / "seen.json").read_text()))


def test_a_command_gets_what_it_needs_and_no_secret(server: str, tmp_path: Path) -> None:
    Study(tmp_path, SHOWS, environment={"MINE": "1"}).create(server)
    seen = seen_by_a_command(server, tmp_path)
    assert "s3cret" not in json.dumps(seen)
    assert {name: seen.get(name) for name in NEEDED} == NEEDED
    assert seen["MINE"] == "1" and seen["LUTHIER_TRIAL"] == "1"
    log = (tmp_path / "worker.log").read_text()
    assert "variables_withheld" in log and "WANDB_API_KEY" in log and "--env-allow" in log
    assert "s3cret" not in log


def test_env_allow_adds_what_it_names(server: str, tmp_path: Path) -> None:
    Study(tmp_path, SHOWS).create(server)
    seen = seen_by_a_command(server, tmp_path, "--env-allow", "WANDB_*", "--env-allow", "GITHUB_TOKEN")
    assert {name for name, value in seen.items() if "s3cret" in value} == {"WANDB_API_KEY", "GITHUB_TOKEN"}


def test_env_allow_of_everything_still_keeps_the_workers_own(server: str, tmp_path: Path) -> None:
    Study(tmp_path, SHOWS).create(server)
    seen = seen_by_a_command(server, tmp_path, "--env-allow", "*")
    assert "LUTHIER_ANYTHING" not in seen and seen["KUBECONFIG"] == "/s3cret-15"


def test_luthier_run_passes_its_users_variables_to_its_users_program(tmp_path: Path) -> None:
    study = Study(tmp_path, SHOWS)
    run("luthier", "run", study.file, "--workers", "1", cwd=tmp_path, env={**PLAIN, **SECRETS, **NEEDED})
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["WANDB_API_KEY"] == "s3cret-2"
    assert not [name for name in seen if name in ("LUTHIER_TOKEN", "LUTHIER_ANYTHING")]


@pytest.mark.parametrize("pattern", ["LUTHIER_TOKEN", "LUTHIER_*", "A=s3cret", "", "a b", "1"])
def test_patterns_that_can_not_be_followed_are_refused(tmp_path: Path, pattern: str) -> None:
    refused = subprocess.run(worker_command("localhost:1", tmp_path, "--env-allow", pattern), capture_output=True,
                             text=True, timeout=60, env=PLAIN)
    assert refused.returncode == 2 and "--env-allow" in refused.stderr, refused
    assert "s3cret" not in refused.stderr


def test_a_program_that_misses_a_variable_is_told_of_it(server: str, tmp_path: Path) -> None:
    study = Study(tmp_path, 'import os; os.environ["WANDB_API_KEY"]').create(server)
    worker = start_worker(server, tmp_path, "--study", "s", "--max-trials", "1",
                          environment={**PLAIN, "WANDB_API_KEY": "s3cret"})
    assert worker.wait(60) == 0, (tmp_path / "worker.log").read_text()
    trial = json.dumps(study.trial())
    assert "--env-allow WANDB_API_KEY" in trial and "s3cret" not in trial
