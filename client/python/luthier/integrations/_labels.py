"""Texts for choices that are not texts: Luthier's categorical parameters have labels, other packages' have any
objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MAX_BYTES = 200


def labels_of(choices: Sequence[Any]) -> list[str]:
    """Returns a different, legal label for each of `choices`, in order: its text where that will do."""
    texts = [str(choice) for choice in choices]
    if len(set(texts)) == len(texts) and all(t.isprintable() and 0 < len(t.encode()) <= _MAX_BYTES for t in texts):
        return texts
    return [f"{i}:{''.join(c for c in t if c.isprintable())[:40]}" for i, t in enumerate(texts)]
