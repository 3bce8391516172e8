"""What kind of endpoint an address is, found without a run of its agent.

Theory of operation. An address that ends like a chat API, or that lists models, is one. Otherwise an empty object is
posted, which every kind refuses: the refusal names the members that are missing, or comes in the kind's own form.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from dragoman.adapters.endpoints.http import StreamBroken, StreamEndpoint, start_of
from dragoman.adapters.values import AdapterError
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Mapping

EndpointKind: TypeAlias = Literal["ui-stream", "ag-ui", "chat"]
KINDS: Final[tuple[EndpointKind, ...]] = ("ui-stream", "ag-ui", "chat")
_SECONDS: Final = 10.0
_UI_HEADER: Final = "x-vercel-ai-ui-message-stream"
_AG_UI_MEMBERS: Final = ("threadId", "thread_id", "runId", "run_id")
_UI_MEMBERS: Final = ("trigger", "UIMessage", "messages")


async def detect(url: str, headers: Mapping[str, str] | None = None) -> EndpointKind:
    """Return the kind of an endpoint. Raises: AdapterError if it cannot be reached or found out; ConfigError."""
    endpoint = StreamEndpoint(url, headers)
    try:
        if url.rstrip("/").endswith(("/chat/completions", "/v1")):
            return "chat"
        listed = await endpoint.json(f"{url.rstrip('/')}/models", _SECONDS)
        if isinstance(listed, dict) and isinstance(listed.get("data"), list):
            return "chat"
        try:
            async with asyncio.timeout(_SECONDS), endpoint.answer("POST", url, {}) as response:
                found = _kind_of(response.status_code, dict(response.headers), await start_of(response))
        except (TimeoutError, StreamBroken):
            found = None
        if found is None:
            raise AdapterError(
                f"{url} answers, but it cannot be found out what kind of endpoint it is; name it with --as: "
                f"{', '.join(KINDS)}"
            )
        return found
    finally:
        await endpoint.close()


def _kind_of(status: int, headers: Mapping[str, str], body: bytes) -> EndpointKind | None:
    """Return the kind that an answer to an empty object speaks of."""
    if _UI_HEADER in {name.lower() for name in headers}:
        return "ui-stream"
    for line in body.splitlines():
        kind = _kind_of_event(line.removeprefix(b"data:").strip())
        if kind is not None:
            return kind
    text = body.decode(errors="replace")
    if any(name in text for name in _AG_UI_MEMBERS):
        return "ag-ui"
    if any(name in text for name in _UI_MEMBERS):
        return "chat" if '"model"' in text or "'model'" in text else "ui-stream"
    return "ui-stream" if status == 500 else None  # servers in JavaScript fail on `messages.map`


def _kind_of_event(data: bytes) -> EndpointKind | None:
    try:
        value: Any = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return None
    if kind.isupper() and "_" in kind:
        return "ag-ui"
    return "ui-stream" if kind in c.KNOWN_TYPES and kind != "error" else None
