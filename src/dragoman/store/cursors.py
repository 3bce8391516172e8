"""The cursor of a page of sessions: the place in the list after which the next page begins.

Owns its form, which clients pass back unread.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from dragoman.errors import StoreError


def cursor_of(updated_at: str, session_id: str) -> str:
    """Return the cursor behind this session."""
    return base64.urlsafe_b64encode(msgspec.json.encode([updated_at, session_id])).decode().rstrip("=")


def read_cursor(cursor: str) -> list[str]:
    """Return the time and the id of the session before the page. Raises: StoreError."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        updated_at, id = msgspec.json.decode(data, type=tuple[str, str])
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise StoreError("the cursor is not one of this store; list the sessions again without a cursor") from None
    return [updated_at, id]
