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

_CALL: Final = b"CODEX_TOOL_CALL_ID="
# Programs of the sandbox, by the beginning of what the kernel calls them.
_HELPERS: Final = ("codex", "bwrap")


def processes_of(marker: str, calls: Collection[str]) -> list[int]:
    """The living processes of commands.

    Args:
        marker: what everything that this program started has in its environment.
        calls: the ids of the commands.
    """
    wanted = {_CALL + call.encode() for call in calls}
    found: list[int] = []
    for pid in pids() if wanted else ():
        with suppress(OSError):
            variables = environment(pid)
            if marker.encode() in variables and not wanted.isdisjoint(variables.split(b"\0")) and status(pid).is_alive:
                found.append(pid)
    return found


def ask_to_end(processes: Collection[int]) -> None:
    """Send SIGTERM to the commands themselves; the helper of the sandbox follows when they are gone."""
    for pid in processes:
        with suppress(OSError):
            if not name(pid).startswith(_HELPERS):
                os.kill(pid, signal.SIGTERM)


def kill(processes: Collection[int]) -> None:
    """End processes at once."""
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
