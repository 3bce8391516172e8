"""How an agent ended, as the members of an error for clients. Pure.

`exitCode` is negative for a signal, whose name is `signal`. `stderr` holds the last lines that the agent wrote, with
the keys of this machine's user masked.
"""

from __future__ import annotations

import signal
from typing import Any, Final

from dragoman.errors import AgentExited
from dragoman.text.secrets import Secrets
from dragoman.text.terminal import shorten

_LINES: Final = 12
_COLUMNS: Final = 500


def end_members(error: BaseException | None, *, with_code: bool = True) -> dict[str, Any]:
    """Return what is known about the end; `with_code` names the exit code also if it is not known."""
    ended = error if isinstance(error, AgentExited) else None
    code = None if ended is None else ended.returncode
    found: dict[str, Any] = {"exitCode": code} if with_code or code is not None else {}
    if isinstance(code, int) and code < 0:
        found["signal"] = _signal_name(-code)
    tail = "" if ended is None else ended.stderr_tail
    lines = [line for line in tail.splitlines() if line.strip()][-_LINES:]
    if lines:
        mask = Secrets().mask
        found["stderr"] = [shorten(mask(line), _COLUMNS) for line in lines]
    return found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
