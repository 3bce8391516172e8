"""The versions of this program that `dragoman version` shows and a bug report holds."""

from __future__ import annotations

import platform
from typing import Any

import msgspec

from dragoman._version import __version__
from dragoman.schema import PROTOCOL_VERSION, SCHEMA_VERSION


def versions() -> dict[str, Any]:
    """Return the versions that a bug report needs."""
    return {
        "dragoman": __version__,
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "protocol": PROTOCOL_VERSION,
        "schema": SCHEMA_VERSION,
    }
