"""Addresses of data at servers, `scheme://host/path`, as texts. No function asks a server.

A name in a file never leads from one server to another, or from a server to this machine: see `join`.
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from farfield.errors import UsageError

SCHEMES = {"http", "https", "s3", "gs", "az", "farfield", "ssh"}
"""Schemes of servers that are read."""
UNLISTED = ("http", "https")
"""Schemes of servers that say what a file is, and not what a folder holds."""
DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
"""Files that make a folder a store. A server that lists nothing shows by them that it has the folder."""
SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
"""Beginning of an address, of a known scheme or not."""
_ROOT = re.compile(r"[a-z][a-z0-9+.-]+://[^/]*")
_ONE_SLASH = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")
Path = str | os.PathLike[str]


def is_remote(path: Path) -> bool:
    """Whether a path is an address at a server of a known scheme.

    >>> is_remote("s3://bucket/a.zarr"), is_remote("data/a.zarr"), is_remote("ftp://host/a.nrrd")
    (True, False, False)
    """
    text = path if isinstance(path, str) else os.fspath(path)
    at = text.find("://")
    return at > 0 and text[:at] in SCHEMES


def can_list(path: Path) -> bool:
    """Whether the place of a path says what its folders hold.

    >>> can_list("s3://bucket/run"), can_list("https://host/run"), can_list("run")
    (True, False, True)
    """
    return not (is_remote(path) and os.fspath(path).partition("://")[0] in UNLISTED)


def refuse_unknown(path: str) -> None:
    """Refuses an address that is none of a known scheme.

    Raises:
        UsageError: naming the known schemes.
    """
    broken = _ONE_SLASH.match(path)
    if broken is not None and broken[1] in SCHEMES and not os.path.exists(path):
        raise UsageError(
            f"{path}: this address has lost a slash, as those in a pathlib.Path do; give it as text: "
            f"'{path.replace(':/', '://', 1)}'"
        )
    if is_remote(path) or SCHEME.match(path) is None:
        return
    scheme, _, rest = path.partition("://")
    if scheme == "file":
        raise UsageError(f"{path}: name the file by its path: '{unquote(rest.removeprefix('localhost'))}'")
    known = ", ".join(f"{name}://" for name in sorted(SCHEMES))
    raise UsageError(f"{path}: {scheme}:// addresses are not read; there are: {known}; else copy the data here first")


def parts(address: str) -> tuple[str, str, str]:
    """The server, the path there, and the query, which only HTTP has.

    >>> parts("https://host/a/b.nrrd?key=1"), parts("s3://bucket")
    (('https://host', '/a/b.nrrd', '?key=1'), ('s3://bucket', '', ''))
    """
    found = _ROOT.match(address)
    root = found[0] if found is not None else ""
    rest = address[len(root) :]
    if not root.startswith("http"):
        return root, rest, ""
    if not rest and "?" in root:
        root, mark, query = root.partition("?")
        return root, "", mark + query
    path, mark, query = rest.partition("?")
    return root, path, mark + query


def normpath(path: str) -> str:
    """`os.path.normpath`; of an address without `.` and `..`, and without slashes at its end.

    >>> normpath("s3://bucket/a/./b/../c/"), normpath("s3://bucket/"), normpath("a/../b")
    ('s3://bucket/a/c', 's3://bucket', 'b')
    """
    if not is_remote(path):
        return os.path.normpath(path)
    root, rest, query = parts(path)
    kept: list[str] = []
    for name in rest.split("/")[1:]:
        if name == "..":
            kept[-1:] = []
        elif name != ".":
            kept.append(name)
    return (root + "".join(f"/{name}" for name in kept)).rstrip("/") + query


def abspath(path: str) -> str:
    """`os.path.abspath`; of an address as `normpath`."""
    return normpath(path) if is_remote(path) else os.path.abspath(path)


def realpath(path: str) -> str:
    """`os.path.realpath`; of an address as `normpath`, since no link at a server is seen."""
    return normpath(path) if is_remote(path) else os.path.realpath(path)


def expanduser(path: Path) -> str:
    """`os.path.expanduser`, also behind the `@` of a list file; of an address without slashes at its end.

    >>> expanduser("https://host/a.zarr/"), expanduser("a.zarr/")
    ('https://host/a.zarr', 'a.zarr/')
    """
    text = os.fspath(path)
    if is_remote(text):
        return text if parts(text)[2] else text.rstrip("/")
    if text.startswith("@~"):
        return "@" + os.path.expanduser(text[1:])
    return os.path.expanduser(text)


def dirname(path: str) -> str:
    """`os.path.dirname`; of an address never above its server.

    >>> dirname("s3://bucket/a/b"), dirname("s3://bucket"), dirname("a/b")
    ('s3://bucket/a', 's3://bucket', 'a')
    """
    if not is_remote(path):
        return os.path.dirname(path)
    root, rest, _ = parts(path)
    return root + posixpath.dirname(rest).rstrip("/")


def join(folder: str, name: str) -> str:
    """`os.path.join` for a name that stands in a file of `folder`. What is named by a file at a server is at that server;
    what is named by a file of this machine is here.

    >>> join("s3://bucket/a", "b.raw"), join("s3://bucket/a", "/b.raw"), join("s3://bucket/a", "https://host/b")
    ('s3://bucket/a/b.raw', 's3://bucket/b.raw', 's3://bucket/a/https://host/b')
    >>> join("", "https://host/b"), join("run", "b.raw")
    ('./https://host/b', 'run/b.raw')
    """
    if is_remote(folder):
        root, rest, _ = parts(folder)
        path = name if name.startswith("/") else f"{rest.rstrip('/')}/{name}"
        return normpath(root + path) if "./" in path or path.endswith("/.") else root + path
    found = os.path.join(folder, name)
    return os.path.join(os.curdir, found) if is_remote(found) else found


def relpath(path: str, start: str) -> str:
    """`os.path.relpath`, also between addresses of one server.

    >>> relpath("s3://bucket/a/0", "s3://bucket/a"), relpath("s3://bucket/a", "s3://bucket/a/")
    ('0', '.')
    """
    if not is_remote(path):
        return os.path.relpath(path, start)
    (root, below, _), (other, above, _) = parts(normpath(path)), parts(normpath(start))
    return posixpath.relpath(below or "/", above or "/") if root == other else path


def has_magic(path: str) -> bool:
    """Whether a path has wildcards. In an address `?` begins a query, and is none.

    >>> has_magic("s3://bucket/sol_*.q"), has_magic("http://[::1]/a.nrrd?key=1"), has_magic("a?.q")
    (True, False, True)
    """
    if is_remote(path):
        return any(mark in parts(path)[1] for mark in "*[")
    return any(mark in path for mark in "*?[")
