"""The package's version."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=None)
def installed() -> str:
    """Returns the version of the package that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("luthier")
    except PackageNotFoundError:
        return "0+sources"  # Used as it lies in the sources.
