"""Names of hosts become addresses.

Owns the lookup, which blocks as long as the system likes: in a thread that nothing waits for, neither a cancelled turn
nor the end of the program.
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
    """All addresses of a host, the system's favourite first. Raises: OSError."""
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
            found = OSError("it is no name that can be looked up")
        with suppress(RuntimeError):  # the loop is over, and nobody waits any more
            loop.call_soon_threadsafe(settle, found)

    # No executor: its threads are waited for at the end of the program.
    threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
    return await answer
