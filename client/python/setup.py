"""Makes two kinds of wheel: a pure one, and one for this platform that carries the programs.

The version is the one of the whole project, passed in LUTHIER_VERSION or read from lib/base/version.h. A tree with programs in
luthier/_bin gives the wheel for this platform; everything else comes from pyproject.toml.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
HAS_PROGRAMS = (HERE / "luthier" / "_bin" / "luthierd").is_file()


def version() -> str:
    """Returns the version of the whole project."""
    given = os.environ.get("LUTHIER_VERSION")
    if given:
        return given
    text = (HERE.parent.parent / "lib" / "base" / "version.h").read_text(encoding="utf-8")
    found = re.search(r'kVersion\[\] = "(\S+)"', text)
    if found is None:
        raise SystemExit("lib/base/version.h names no version; set LUTHIER_VERSION")
    return found.group(1)


class ProgramDistribution(Distribution):
    """A distribution that counts as having extension modules if it carries programs: auditwheel repairs no other."""

    def has_ext_modules(self) -> bool:
        """Returns whether files of this platform are inside."""
        return HAS_PROGRAMS


class ProgramWheel(bdist_wheel):
    """A wheel for every Python 3: programs depend on the platform, not on the interpreter."""

    def finalize_options(self) -> None:
        """Marks the wheel as one for this platform if it carries programs."""
        super().finalize_options()
        self.root_is_pure = not HAS_PROGRAMS

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tag without a particular Python or ABI."""
        platform = super().get_tag()[2] if HAS_PROGRAMS else "any"
        return "py3", "none", platform


setup(version=version(), distclass=ProgramDistribution, cmdclass={"bdist_wheel": ProgramWheel})
