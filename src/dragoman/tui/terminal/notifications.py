"""Notifications of a terminal: which bytes make which terminal show one, and the title of its window. Pure.

The bell is understood by all. Of the three escape sequences only one is written, that of the terminal, because
some terminals show all of them. In tmux none passes but the wrapped form, and only if the user allowed it: `TMUX` is
looked at first, since the variables of the terminal around it are inherited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from dragoman.text.terminal import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

Sequence = Literal["9", "99", "777", ""]

BELL: Final = "\x07"
PUSH_TITLE: Final = "\x1b[22;2t"
POP_TITLE: Final = "\x1b[23;2t"
BETWEEN_SECONDS: Final = 10.0
"""At most one notification in this time; the first one brings the user back anyway."""
_MOST_CHARACTERS: Final = 200
_PROGRAMS: Final[dict[str, Sequence]] = {"iTerm.app": "9", "WezTerm": "777", "ghostty": "777", "rio": "777"}


def sequence_of(environment: Mapping[str, str]) -> Sequence:
    """Return which sequence the terminal understands; empty if none is known."""
    term = environment.get("TERM", "")
    if environment.get("KITTY_WINDOW_ID") or term == "xterm-kitty":
        return "99"
    if term.startswith("foot"):
        return "99"
    if environment.get("WT_SESSION"):
        return ""  # Windows Terminal: OSC 9 is progress there, and it has no other
    if environment.get("GHOSTTY_RESOURCES_DIR") or term == "xterm-ghostty" or term.startswith("rxvt-unicode"):
        return "777"
    if environment.get("LC_TERMINAL") == "iTerm2":
        return "9"
    return _PROGRAMS.get(environment.get("TERM_PROGRAM", ""), "")


def notification(text: str, environment: Mapping[str, str], *, passes_tmux: bool = False) -> str:
    """Return the bytes, as text, that show a notification; empty if the terminal has none.

    Args:
        text: one sentence.
        environment: of the client.
        passes_tmux: whether `allow-passthrough` is on in the tmux around it.
    """
    is_tmux = bool(environment.get("TMUX"))
    if is_tmux and not passes_tmux:
        return ""
    if is_tmux:
        # tmux sets TERM and TERM_PROGRAM to its own; the other variables are those of the terminal around it.
        environment = {name: value for name, value in environment.items() if name not in ("TERM", "TERM_PROGRAM")}
    kind = sequence_of(environment)
    shown = cut(one_line(text), _MOST_CHARACTERS).replace(";", ",")
    match kind:
        case "9":
            written = f"\x1b]9;{_not_progress(shown)}{BELL}"
        case "777":
            written = f"\x1b]777;notify;dragoman;{shown}{BELL}"
        case "99":
            written = f"\x1b]99;i=dragoman:d=1;{shown}\x1b\\"
        case _:
            return ""
    return wrapped_for_tmux(written) if is_tmux else written


def _not_progress(text: str) -> str:
    """Put a word before a digit: OSC 9 with `4;` is a progress bar in some terminals; `;` is a comma here already."""
    return f"dragoman: {text}" if text[:1].isdigit() else text


def wrapped_for_tmux(written: str) -> str:
    """Return a sequence that tmux passes to the terminal around it (with `allow-passthrough on`)."""
    return f"\x1bPtmux;{written.replace(chr(27), chr(27) * 2)}\x1b\\"


def title(text: str) -> str:
    """Return the bytes, as text, that set the title of the window."""
    return f"\x1b]2;{cut(one_line(text), 100)}{BELL}"


class Pace:
    """A limit: one notification in some seconds, and each reason once."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._reasons: set[str] = set()

    def may_notify(self, now: float) -> bool:
        """Return whether a notification may be shown; it counts as shown then."""
        if self._last is not None and now - self._last < BETWEEN_SECONDS:
            return False
        self._last = now
        return True

    def is_first(self, reason: str) -> bool:
        """Return whether a reason, such as a session that needs the user, was not there before."""
        if reason in self._reasons:
            return False
        self._reasons.add(reason)
        return True

    def forget(self, reason: str) -> None:
        """Forget a reason that is gone; when it comes again it counts again."""
        self._reasons.discard(reason)
