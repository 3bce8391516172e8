"""The git repository of a folder, for the log: its remote and the commit that is checked out.

Reads git's files and runs nothing: a repository may name programs that git would run. Everything is optional.
"""

from __future__ import annotations

import os
import re
from typing import Final

_MOST_BYTES: Final = 1 << 20
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_REMOTE: Final = re.compile(r'^\[remote "origin"\]\s*$(?P<members>(?:\n(?!\[).*)*)', re.MULTILINE)
_URL: Final = re.compile(r"^\s*url\s*=\s*(?P<url>\S+)", re.MULTILINE)
_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]*@")


def describe_repository(folder: str) -> dict[str, str] | None:
    """The remote `origin` without a login, the branch and the commit; None without a repository."""
    place = _git_folder(folder)
    if place is None:
        return None
    found: dict[str, str] = {}
    common = os.path.normpath(os.path.join(place, _read(place, "commondir").strip() or "."))
    head = _read(place, "HEAD").strip()
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ")
        found["branch"] = name.removeprefix("refs/heads/")
        head = _read(common, name).strip() if ".." not in name else ""
        head = head or _packed(common, name)
    if _COMMIT.fullmatch(head):
        found["commit"] = head
    remote = _REMOTE.search(_read(common, "config"))
    url = None if remote is None else _URL.search(remote["members"])
    if url is not None:
        found["remote"] = _LOGIN.sub("", url["url"])
    return found or None


def _git_folder(folder: str) -> str | None:
    here = os.path.realpath(folder)
    while True:
        place = os.path.join(here, ".git")
        if os.path.isdir(place):
            return place
        if os.path.isfile(place):
            target = _read(here, ".git").removeprefix("gitdir:").strip()
            return os.path.join(here, target) if target else None
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _packed(place: str, name: str) -> str:
    for line in _read(place, "packed-refs").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
