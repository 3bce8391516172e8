"""Looks up the addresses of a host.

Owns the lookup, which may block for a long time: it runs in a thread that neither a cancelled turn nor the end of the
program waits for.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


async def resolve(host: str) -> Sequence[str]:
    """Return all addresses of a host, in the order of the system's preference. Raises: OSError."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: list[str] | OSError
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except OSError as error:
            found = error
        except UnicodeError:  # a label too long for DNS
            found = OSError("it is not a valid host name")
        with suppress(RuntimeError):  # the event loop is closed, and nothing waits for the result
            loop.call_soon_threadsafe(settle, found)

    # Not an executor: the program waits for its threads at the end.
    threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
    return await answer
