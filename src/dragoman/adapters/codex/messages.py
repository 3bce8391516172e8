"""What the program says: notifications, requests, errors, and that it has ended."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.adapters.values import AdapterError


class CodexRefused(AdapterError):
    """Codex answered a request with an error."""


class CodexEnded(AdapterError):
    """The program ended, or was ended."""


class Report(msgspec.Struct, frozen=True):
    """A notification of the program."""

    method: str
    params: dict[str, Any]


class CodexQuestion(msgspec.Struct, frozen=True):
    """A request of the program."""

    id: int | str
    method: str
    params: dict[str, Any]
