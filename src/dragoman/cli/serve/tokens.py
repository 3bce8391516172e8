"""`dragoman serve token`: adds, lists and revokes the tokens of a host.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.exits import OK, CliError
from dragoman.cli.serve.places import ServePlaces
from dragoman.host.serving.tokens import USUAL_RIGHTS, HostToken, HostTokens, checked_user

if TYPE_CHECKING:
    from typing import Any

_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def change_tokens(given: Any) -> int:
    """Do what the command line says about tokens."""
    tokens = HostTokens(ServePlaces(given.data).tokens)
    match given.action:
        case "add":
            return _add(tokens, given)
        case "list":
            return _list(tokens, given)
        case "pair":
            return _pair(given)
        case _:
            token = tokens.revoke(_name(given))
            write_note(f"revoked {token.name}; hosts that run end its connections within a second")
            return OK


def _add(tokens: HostTokens, given: Any) -> int:
    name = _name(given)
    folders = _folders(given)
    token = HostToken(
        name=name,
        digest="",
        user=given.user or name,
        rights=tuple(dict.fromkeys(given.right)) or USUAL_RIGHTS,
        folders=folders,
        may_start_programs=given.programs,
        expires_at=None if given.expires is None else time.time() + read_duration(given.expires),
    )
    secret = tokens.add(token)
    if given.json:
        write_json({**_document(token), "token": secret})
        return OK
    sys.stdout.write(f"{secret}\n")
    write_note(f"this is the token {name!r}; it is shown this once and kept as a hash only")
    return OK


def _pair(given: Any) -> int:
    """Print a code that pairs a browser with the host that uses this folder."""
    from dragoman.host.serving.pairing import CODE_SECONDS, NewDevice, PairingCodes

    rights = tuple(dict.fromkeys(given.right)) or USUAL_RIGHTS
    if "view" not in rights:
        raise CliError("a browser without the right view could not show anything", hint="add --right view")
    if given.programs:
        raise CliError("--programs goes with serve token add", hint="a browser sends no MCP servers")
    device = NewDevice(
        user=checked_user(given.user or "local"),
        rights=rights,
        folders=_folders(given),
        expires_at=None if given.expires is None else time.time() + read_duration(given.expires),
    )
    code = PairingCodes(ServePlaces(given.data).tokens.with_name("codes.json")).issue(device)
    if given.json:
        write_json({"code": code, "seconds": CODE_SECONDS, "user": device.user, "rights": list(rights)})
        return OK
    sys.stdout.write(f"{code}\n")
    write_note(
        f"it pairs one browser, for {device.user}, within {CODE_SECONDS // 60} minutes; the host runs with --web"
    )
    return OK


def _list(tokens: HostTokens, given: Any) -> int:
    found = tokens.all()
    if given.json:
        write_json([_document(token) | {"isExpired": tokens.is_expired(token)} for token in found])
        return OK
    rows = [
        (
            f"{token.name} ({token.title})" if token.title else token.name,
            token.user,
            ",".join(token.rights),
            "all of the host" if token.folders is None else ", ".join(token.folders),
            "yes" if token.may_start_programs else "no",
            _until(token, is_expired=tokens.is_expired(token)),
        )
        for token in found
    ]
    write_table(("TOKEN", "USER", "RIGHTS", "FOLDERS", "PROGRAMS", "EXPIRES"), rows)
    return OK


def _folders(given: Any) -> tuple[str, ...] | None:
    folders = None if not given.folder else tuple(os.path.realpath(folder) for folder in given.folder)
    for folder in folders or ():
        if not os.path.isdir(folder):
            raise CliError(f"--folder {folder}: no such folder", hint="choose a folder that exists on this machine")
    return folders


def _name(given: Any) -> str:
    if given.name is None:
        raise CliError(f"serve token {given.action} needs a name", hint="dragoman serve token add laptop")
    name: str = given.name
    return name


def read_duration(text: str) -> float:
    """Return the seconds of `90m`, `12h`, `30d` or `4w`.

    Raises:
        CliError: it is not a duration.
    """
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if found is None or int(found[1]) == 0:
        raise CliError(f"{text!r} is not a duration", hint="write it like 90m, 12h, 30d or 4w")
    return int(found[1]) * _SECONDS[found[2]]


def _until(token: HostToken, *, is_expired: bool) -> str:
    if token.expires_at is None:
        return "never"
    shown = datetime.fromtimestamp(token.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{shown} (expired)" if is_expired else shown


def _document(token: HostToken) -> dict[str, object]:
    return {
        "name": token.name,
        "user": token.user,
        "rights": list(token.rights),
        "folders": None if token.folders is None else list(token.folders),
        "mayStartPrograms": token.may_start_programs,
        "kind": token.kind,
        **({"title": token.title} if token.title else {}),
        "expiresAt": token.expires_at,
    }
