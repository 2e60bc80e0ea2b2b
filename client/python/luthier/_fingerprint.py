"""What an objective does, as a short text that changes with it: trials carry it, so results of an edited objective are
told from those before.

It is a digest of the function's source without comments, layout and decorators, of the functions and classes of the
same file that it names, and of the methods of the object that it is. What other files and data do is not seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import re
import textwrap
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Optional

_MARK = re.compile(r"py-[0-9a-f]{20}\.([0-9a-f]{12})\Z")  # Workers' names are what every attempt has of its program.


def worker_of(unique: str, objective: str) -> str:
    """Returns the name of who asks for an objective's trials. `unique` has 20 hexadecimal digits."""
    return f"py-{unique}.{objective}" if objective else f"py-{unique}"


def new_worker(objective: str = "") -> str:
    """Returns a name for who asks: leases belong to it. It carries the fingerprint of the objective."""
    return worker_of(uuid.uuid4().hex[:20], objective)


def objective_of(worker: str) -> str:
    """Returns the fingerprint that a worker's name carries; empty where it has none."""
    found = _MARK.match(worker)
    return found.group(1) if found else ""


def fingerprint(fn: Callable[..., Any]) -> str:
    """Returns 12 hexadecimal digits for an objective; empty where nothing of it can be seen."""
    texts = [_text(function) for function in _functions(fn)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12] if texts else ""


def _functions(fn: Any) -> Iterator[types.FunctionType]:
    """Yields the function, and those of its file that it reaches by name or holds, each once."""
    waiting, seen = [fn], set()
    first: Optional[types.FunctionType] = None
    while waiting:
        found = waiting.pop(0)
        function = _function(found)
        if function is None or id(function.__code__) in seen:
            continue
        first = first or function
        seen.add(id(function.__code__))
        yield function
        held: list[Any] = []
        for cell in function.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:
                pass  # Not assigned yet.
        named = [function.__globals__.get(name) for name in sorted(_names(function.__code__))]
        waiting += [x for x in held if _function(x) is not None]
        waiting += [x for x in named if inspect.isfunction(x) and x.__module__ == first.__module__]
        classes = [x for x in [_class_of(found), *named] if isinstance(x, type)]
        for base in [base for one in classes for base in one.__mro__ if base.__module__ == first.__module__]:
            members = [_function(_of_class(x)) for _, x in sorted(vars(base).items())]
            file = first.__code__.co_filename  # Dataclasses and the like have methods that nobody wrote.
            waiting += [x for x in members if x is not None and x.__code__.co_filename == file]


def _class_of(found: Any) -> Optional[type]:
    """Returns the class of the object that a method or part is of, or that is called."""
    for _ in range(16):
        if not isinstance(found, functools.partial):
            break
        found = found.func
    if isinstance(found, types.MethodType):
        of = found.__self__
        return of if isinstance(of, type) else type(of)
    return None if isinstance(found, (type, types.FunctionType)) else type(found)


def _of_class(member: Any) -> Any:
    """Returns the function behind what a class has: a method of one of the kinds, or a property."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _function(of: Any) -> Optional[types.FunctionType]:
    """Returns the function behind a decorator, a part, a method or an object that is called."""
    for _ in range(16):
        if isinstance(of, functools.partial):
            of = of.func
        elif isinstance(of, types.MethodType):
            of = of.__func__
        elif hasattr(of, "__wrapped__"):
            of = of.__wrapped__
        elif isinstance(of, types.FunctionType):
            return of
        elif not isinstance(of, type) and isinstance(getattr(type(of), "__call__", None), types.FunctionType):
            of = getattr(type(of), "__call__")
        else:
            return None
    return None


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _text(function: types.FunctionType) -> str:
    """Returns a function's source in one layout, else what it compiled to."""
    code = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):  # As of `exec`, or a part of a line.
        return _compiled(code)
    if code.co_name == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        same = {ast.unparse(node) for node in lambdas if len(lambdas) == 1 or _is(node, code)}
        return same.pop() if len(same) == 1 else _compiled(code)
    found = tree.body[0] if tree.body else None
    if not isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _compiled(code)
    found.decorator_list, found.name = [], "objective"
    first = found.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        found.body = found.body[1:] or [ast.Pass()]  # A docstring.
    return ast.unparse(found)


def _is(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether a lambda in a source is the one that was compiled to `code`."""
    try:
        made = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval").co_consts
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(x, types.CodeType) and _compiled(x) == _compiled(code) for x in made)


def _compiled(code: types.CodeType) -> str:
    constants = [_compiled(x) if isinstance(x, types.CodeType) else repr(x) for x in code.co_consts]
    return repr((code.co_code.hex(), constants, code.co_names, len(code.co_freevars)))
