"""Makes two kinds of wheel: a pure one, and one for this platform that carries the programs.

The version is the one of the whole project, passed in LUTHIER_VERSION or read from lib/base/version.h; in an archive of the
package's own sources, from its PKG-INFO. The page that a registry shows is README.md of the project. A tree with programs in
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
    for file, line in (
        (HERE / "PKG-INFO", r"^Version: (\S+)$"),
        (HERE.parent.parent / "lib" / "base" / "version.h", r'kVersion\[\] = "(\S+)"'),
    ):
        found = re.search(line, file.read_text(encoding="utf-8"), re.MULTILINE) if file.is_file() else None
        if found is not None:
            return found.group(1)
    raise SystemExit("neither PKG-INFO nor lib/base/version.h names a version; set LUTHIER_VERSION")


def page() -> str:
    """Returns the text of README.md for readers who have no files beside it.

    Links to files of the project become absolute below LUTHIER_PROJECT_URL. Without it only their texts stay, and their pictures
    are left out.
    """
    file = next((f for f in (HERE / "README.md", HERE.parent.parent / "README.md") if f.is_file()), None)
    if file is None:
        return ""
    base = os.environ.get("LUTHIER_PROJECT_URL", "").rstrip("/")

    def link(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        if re.match(r"[a-z]+:", target):
            return found.group(0)
        if base:
            return f"{picture}[{text}]({base}/{target})"
        return "" if picture else text

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, file.read_text(encoding="utf-8"))


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


setup(
    version=version(),
    long_description=page(),
    long_description_content_type="text/markdown",
    distclass=ProgramDistribution,
    cmdclass={"bdist_wheel": ProgramWheel},
)
