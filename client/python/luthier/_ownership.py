"""Who may have put a file where it is: lib/base/ownership.h's twin."""

from __future__ import annotations

import errno
import os
import stat
from typing import Optional

_MOST_LINKS = 40  # The kernel follows no more.
_LOOK: int = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)  # Linux asks for no right to read.


def trouble(path: str) -> Optional[str]:
    """Returns why another user may have put what is at `path` there, or could put something else in its place; None if
    nobody but this user and root can, or if there is nothing. The folder in which a relative path begins is trusted.
    Elsewhere than on POSIX nothing is looked at."""
    if os.name != "posix":
        return None
    try:
        os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            return None
    return _walk(path)


def _walk(path: str) -> Optional[str]:
    names, links = _names(path), 0
    where = "/" if path.startswith("/") else ""
    folder = os.open(where or ".", _LOOK)
    try:
        found = _of_folder(where, os.fstat(folder), last=not names) if where else None
        while names and not found:
            name = names.pop(0)
            here = where + name if where in ("", "/") else f"{where}/{name}"
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not _ours(info):
                return _foreign(here, info)
            if stat.S_ISLNK(info.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return f"{here!r} leads to too many links"
                target = os.readlink(name, dir_fd=folder)
                names = _names(target) + names
                if not target.startswith("/"):
                    continue
                name, here = "/", "/"
            elif not stat.S_ISDIR(info.st_mode):
                return None
            below = os.open(name, _LOOK, dir_fd=folder)
            os.close(folder)
            folder, where = below, here
            found = _of_folder(where, os.fstat(folder), last=not names)
        return found
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{error.filename!r} can't be looked at: {error.strerror}"
    finally:
        os.close(folder)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _ours(info: os.stat_result) -> bool:
    return info.st_uid in (os.geteuid(), 0)


def _of_folder(where: str, info: os.stat_result, last: bool) -> Optional[str]:
    if not _ours(info):
        return _foreign(where, info)
    everybody = bool(info.st_mode & stat.S_IWOTH)
    group = bool(info.st_mode & stat.S_IWGRP) and not any(_alone_in(info.st_gid, uid) for uid in (os.geteuid(), 0))
    if not (everybody or group) or (info.st_mode & stat.S_ISVTX and not last):
        return None
    return f"{where!r} can be written to by {'everybody' if everybody else 'its group'}"


def _foreign(where: str, info: os.stat_result) -> str:
    ours = f"neither to {user_name(os.geteuid())} nor to root" if os.geteuid() else "not to root"
    return f"{where!r} belongs to {user_name(info.st_uid)}, {ours}"


def user_name(uid: int) -> str:
    """Returns the name of a user, else its number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _alone_in(gid: int, uid: int) -> bool:
    """Tells if nobody but `uid` is in the group; many systems make such a one for each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
