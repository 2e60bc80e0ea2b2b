"""The order in which the package's modules may import each other: no circles, and no arrow up."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "client" / "python" / "luthier"
# A module imports those above it and those before it in its line, and no others, also inside of functions.
LAYERS = """
errors _arguments _version _fingerprint _notes _optuna_refused _ownership _programs _tied _csv
_wire _retry _security _server _threads _tasks _calls _aio_calls _client
space _dynamic _goals _results _gradient _frozen
table _stored
_granted _progress _asking _aio_asking trial
_foreign _notebook _plots _processes _changed study _create objective run aio
_optuna_samplers _optuna_trial _optuna_study _optuna_create _optuna_words
integrations integrations._implicit integrations.jax integrations.torch jax torch
luthier
integrations._asking integrations._reporting integrations.keras integrations.lightgbm integrations.lightning
integrations.transformers integrations.xgboost integrations.optuna integrations.ray integrations.sklearn
optuna ray sklearn
""".split()


def imports(node: ast.AST) -> Iterator[str]:
    """Yields the full names of what is imported anywhere below a node, but for what is there for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from imports(child)


def test_no_module_imports_one_that_stands_above_it() -> None:
    paths = {str(path.relative_to(PACKAGE))[:-3].replace("/", "."): path for path in PACKAGE.rglob("*.py")}
    modules = {"luthier" if name == "__init__" else name.replace(".__init__", ""): path for name, path in paths.items()}
    assert sorted(modules) == sorted(LAYERS), "each module has its place in LAYERS"
    up = set()
    for name, path in modules.items():
        for full in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if full.split(".")[0] == "luthier":
                inner = full.partition(".")[2]
                found = next((m for m in (inner, inner.rpartition(".")[0]) if m in modules), "luthier")
                if found != name and LAYERS.index(found) > LAYERS.index(name):
                    up.add((name, found))
    assert not up


def test_modules_for_threads_are_what_is_made_from_those_for_event_loops() -> None:
    subprocess.run([sys.executable, str(PACKAGE.parent / "make_sync.py"), "--check"], check=True)
