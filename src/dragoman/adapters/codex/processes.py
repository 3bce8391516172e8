"""The processes of the commands that Codex runs, found by what Codex writes into their environment.

Codex ends a command at once and completely, which is wrong twice. The helper of its sandbox gets no time to remove the
folders that it makes for the sandbox, so that an empty `.git` stays in the user's project. And the end is reported when
the first process is gone, while others are still there for a moment. So commands are asked to end first, all but the
helper, and their processes are waited for.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.process.proctable import environment, name, pids, status

if TYPE_CHECKING:
    from collections.abc import Collection

_THREAD: Final = b"CODEX_THREAD_ID="
_CALL: Final = b"CODEX_TOOL_CALL_ID="
# Programs of the sandbox, by the beginning of what the kernel calls them.
_HELPERS: Final = ("codex", "bwrap")


def processes_of(marker: str, threads: Collection[str], earlier: Collection[str]) -> list[int]:
    """Return the living processes of commands, not named: Codex does not report every command before it runs.

    Args:
        marker: what everything that this program started has in its environment.
        threads: the threads whose commands are meant.
        earlier: the ids of commands that are not meant.
    """
    found: list[int] = []
    for pid in pids():
        with suppress(OSError):
            variables = environment(pid)
            if marker.encode() not in variables or _CALL not in variables:
                continue
            values = variables.split(b"\0")
            is_meant = any(_THREAD + thread.encode() in values for thread in threads)
            if is_meant and not any(_CALL + call.encode() in values for call in earlier) and status(pid).is_alive:
                found.append(pid)
    return found


def ask_to_end(processes: Collection[int]) -> set[int]:
    """Send SIGTERM to the commands themselves; the helper of the sandbox follows when they are gone.

    Returns: those that were asked.
    """
    asked: set[int] = set()
    for pid in processes:
        with suppress(OSError):
            if not name(pid).startswith(_HELPERS):
                os.kill(pid, signal.SIGTERM)
                asked.add(pid)
    return asked


def kill(processes: Collection[int]) -> None:
    """End processes at once."""
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
