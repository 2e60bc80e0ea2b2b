"""What users give as arguments: checked, with errors that name the argument. Numbers of numpy and the like will do."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_MOST = 2**63 - 1


def representation(value: Any) -> str:
    """Returns the repr of a value, also of one that can't say it."""
    try:
        return repr(value)
    except Exception:  # The value may raise any class.
        return object.__repr__(value)


def shown(value: Any) -> str:
    """Returns what a message shows of a value: one line of at most 80 characters."""
    text = " ".join(representation(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def scalar(value: Any) -> Any:
    """Returns the number in an array of one, else what was given."""
    return value.item() if getattr(value, "size", 0) == 1 and hasattr(value, "item") else value


def whole(name: str, value: Any) -> int:
    """Returns a whole number; 1e3 is one. TypeError, ValueError."""
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {shown(value)}: it is a whole number")
    if not isinstance(value, numbers.Integral) and not float(value).is_integer():
        raise ValueError(f"{name} is {shown(value)}: it is a whole number")
    out = int(value) if isinstance(value, numbers.Integral) else int(float(value))
    if abs(out) > _MOST:
        raise ValueError(f"{name} is {shown(value)}: it has at most 63 bits")
    return out


def count(name: str, value: Any) -> int:
    """Returns a whole number from 0 to 2^31 - 1. TypeError, ValueError."""
    out = whole(name, value)
    if not 0 <= out < 2**31:
        raise ValueError(f"{name} is {shown(value)}: it is from 0 to 2147483647")
    return out


def number(name: str, value: Any) -> float:
    """Returns a number; it may be infinite. TypeError, ValueError."""
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        raise TypeError(f"{name} is {shown(value)}: it is a number")
    try:
        out = float(value)
    except OverflowError:
        raise ValueError(f"{name} is {shown(value)}: it is too large") from None
    if math.isnan(out):
        raise ValueError(f"{name} is {shown(value)}: it is a number")
    return out


def text(name: str, value: Any) -> str:
    """Returns a text. TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}: it is a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {shown(value)}: it has half a character, which UTF-8 can't write") from None
    return value


def flag(name: str, value: Any) -> bool:
    """Returns True or False. TypeError."""
    value = scalar(value)
    if isinstance(value, bool):
        return value
    raise TypeError(f"{name} is {shown(value)}: it is True or False")


def sequence(name: str, value: Any) -> list[Any]:
    """Returns a list of what can be gone through, but for texts and dictionaries. TypeError."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {shown(value)}: it is a list")
    return list(value)


def mapping(name: str, value: Any, example: str) -> Mapping[Any, Any]:
    """Returns a dictionary. TypeError."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {shown(value)}: it is a dictionary, as {example}")
    return value


def texts(name: str, value: Any, example: str) -> dict[str, str]:
    """Returns a dictionary of texts. TypeError, ValueError."""
    given = mapping(name, value, example)
    return {text(f"a key of {name}", key): text(f"{name}[{key!r}]", word) for key, word in given.items()}


def json_value(value: Any) -> Any:
    """Returns a value as JSON has it: scalars and arrays of numpy, torch and the like as numbers and lists. TypeError."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(json_value(key)) if not isinstance(key, bool) else key: json_value(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(x) for x in value]
    if hasattr(value, "tolist"):
        plain = value.tolist()
        if isinstance(plain, (bool, int, float, str, list)):
            return json_value(plain)
    raise TypeError(f"{shown(value)} is nothing that JSON can say")


def options(name: str, value: Any, example: str) -> dict[str, Any]:
    """Returns {name: options} of a name or of that itself. TypeError."""
    if isinstance(value, str):
        return {text(name, value): {}}
    return {text(f"a key of {name}", key): more for key, more in mapping(name, value, example).items()}
