"""What a model reads of a command: its output without control sequences, and what the sandbox kept from it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.placement import Placement
    from dragoman.builtin.tools.tool import CommandResult
    from dragoman.process.sandbox import Denial

# Denials that are listed; `git init` in a sandbox creates twenty of them.
MOST_LISTED: Final = 5
# What programs print when the sandbox refuses them something, at the end of their output.
ERROR_CHARACTERS: Final = 16_000
REFUSED: Final = re.compile(
    r"not permitted|permission denied|read-only file system|could not resolve|name resolution|unreachable"
    r"|connection (?:refused|error|failed)|failed to (?:connect|fetch)"
    r"|\bE(?:PERM|ACCES|ROFS|AI_AGAIN|NOTFOUND|NETUNREACH)\b",
    re.IGNORECASE,
)
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)


def about_sandbox(result: CommandResult, placement: Placement) -> str:
    """Return the line about the sandbox; empty if none is in force."""
    if result.sandbox is None:
        return "[ran outside the sandbox]" if placement.is_exception else ""
    noticed = noticed_denials(result)
    kept = f", which kept from it {listed_denials(noticed)}" if noticed else ""
    return f"[ran in the sandbox{kept}]"


def noticed_denials(result: CommandResult) -> list[Denial]:
    """Return the denials that the command noticed: the C library looks for a socket with every name of a user."""
    has_error = REFUSED.search(result.text[-ERROR_CHARACTERS:]) is not None
    return [denial for denial in result.denials if denial.kind != "socket" or has_error]


def listed_denials(denials: Sequence[Denial]) -> str:
    shown = list(dict.fromkeys(denial.describe() for denial in denials))
    more = f" and {len(shown) - MOST_LISTED} more" if len(shown) > MOST_LISTED else ""
    return ", ".join(shown[:MOST_LISTED]) + more


def plain(text: str) -> str:
    """Return output without colours, and with only the last state of a line that was overwritten."""
    text = _CONTROLS.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
