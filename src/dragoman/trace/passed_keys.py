"""Keys that a client passes to an agent in a request: in no environment, so that they are found in the conversation.

Owns the places: `_meta["api-key"]` of `authenticate` and of a host's login, and the headers of `providers/set` and of
a gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK: Final = "[passed key]"
_METHODS: Final = ("authenticate", "_dragoman/log_in", "providers/set")
_SPELLINGS: Final = tuple(f'"{name}"'.encode() for method in _METHODS for name in (method, method.replace("/", "\\/")))


def passed_keys(line: bytes) -> dict[str, str]:
    """Return the keys in a line of the conversation, each with its mask; empty for almost every line."""
    if not any(method in line for method in _SPELLINGS):
        return {}
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict) or message.get("method") not in _METHODS:
        return {}
    return dict.fromkeys(_passed(params), MASK)


def _passed(params: dict[str, Any]) -> Iterator[str]:
    meta = _object(params.get("_meta"))
    key = meta.get("api-key")
    yield from _texts(key, _object(key).get("apiKey"))
    for headers in (params.get("headers"), _object(meta.get("gateway")).get("headers")):
        for value in _object(headers).values():
            # `Bearer KEY`: the key may be repeated alone.
            yield from (word for text in _texts(value) for word in (text, *text.split()))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(*values: Any) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))
