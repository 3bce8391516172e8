"""Every message of the protocol as a type: generated types, the method table, the codec.

Does not know what a message means, which side sent it, or how lines are framed. Read `parts.py` first, then any file
of `v1/`; `tools/schema` writes those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from dragoman.schema import v1
from dragoman.schema.codec import Loss, decode, decoder, encode
from dragoman.schema.gates import is_advertised
from dragoman.schema.methods import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS, Method
from dragoman.schema.parts import ExtensionValue, RequestId, Unknown, extension

if TYPE_CHECKING:
    from dragoman.schema.stability import UNSTABLE_MEMBERS, UNSTABLE_TYPES, find_unstable
    from dragoman.schema.v1 import *  # noqa: F403

__all__ = [
    "AGENT_METHODS",
    "CLIENT_METHODS",
    "PROTOCOL_METHODS",
    "PROTOCOL_VERSION",
    "SCHEMA_VERSION",
    "UNSET",
    "UNSTABLE_MEMBERS",
    "UNSTABLE_TYPES",
    "ExtensionValue",
    "Loss",
    "Method",
    "RequestId",
    "Unknown",
    "UnsetType",
    "decode",
    "decoder",
    "encode",
    "extension",
    "find_unstable",
    "is_advertised",
    "v1",
]

PROTOCOL_VERSION: Final = 1
# The schema carries no version of its own: this is the release of the official TypeScript SDK that published it.
SCHEMA_VERSION: Final = "2.4.0"


if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {".stability": ("UNSTABLE_MEMBERS", "UNSTABLE_TYPES", "find_unstable"), ".v1": v1.__all__},
    )
