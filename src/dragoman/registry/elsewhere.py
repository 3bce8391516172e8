"""An agent on another machine as a program of this one: `dragoman connect` stands for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.process.own_program import own_command, own_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS_VARIABLE: Final = "DRAGOMAN_CONNECT_HEADERS"
"""Headers for an agent elsewhere, as a JSON object."""


def connect_command(url: str, token_env: str = "", ca: str = "") -> tuple[str, ...]:
    """Return the program that stands for an agent elsewhere: it speaks to it as a local agent does.

    Args:
        url: Where it is.
        token_env: The variable that holds the token.
        ca: A file with certificates to trust.
    """
    token = ("--token-env", token_env) if token_env else ()
    trusted = ("--ca", os.path.abspath(ca)) if ca else ()
    return own_command("connect", url, *token, *trusted)


def host_of(command: Sequence[str]) -> str:
    """Return the machine that `connect_command` leads to, as a name for the agent; empty for other commands."""
    arguments = own_words(command)
    if arguments is None or arguments[:1] != ["connect"] or len(arguments) < 2:
        return ""
    from urllib.parse import urlsplit

    return urlsplit(arguments[1]).hostname or arguments[1]


def header_variable(headers: Mapping[str, str]) -> dict[str, str]:
    """Return how headers are passed to that program: on its command line other users could read them."""
    return {HEADERS_VARIABLE: msgspec.json.encode(dict(headers)).decode()} if headers else {}
