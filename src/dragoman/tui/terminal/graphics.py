"""Pictures of a terminal: which form it shows, and the bytes of the kitty graphics protocol. Pure.

Half blocks are cells in true colour. Sharp pictures need a terminal that knows placeholders: kitty and Ghostty do;
others that understand the protocol, as WezTerm and Konsole, do not. In tmux and over SSH there are pictures only if the
user asks for them: half blocks are up to 60 KB for each paint, and what a terminal answers may not come back.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dragoman.tui.terminal.notifications import wrapped_for_tmux
from dragoman.tui.terminal.terminal_facts import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping

PictureForm: TypeAlias = Literal["", "blocks", "sharp"]

_CHUNK: Final = 4096  # characters of base64 in one sequence, by the protocol
_KNOWN_TERMS: Final = ("xterm-kitty", "xterm-ghostty")
_MULTIPLEXERS: Final = ("TMUX", "STY", "ZELLIJ")


def asks_graphics(setting: str, environment: Mapping[str, str]) -> bool:
    """Return whether to ask the terminal for the protocol; one that does not know it might show the question."""
    if _in_multiplexer(environment):
        return False
    if setting == "sharp":
        return True
    is_known = environment.get("TERM") in _KNOWN_TERMS or environment.get("TERM_PROGRAM") == "ghostty"
    return setting == "auto" and is_known and not is_remote(environment)


def picture_form(
    setting: str, environment: Mapping[str, str], colours: str | None, *, is_ascii: bool, has_graphics: bool
) -> PictureForm:
    """Return how pictures are drawn; empty for not at all.

    Args:
        setting: `auto`, `blocks`, `sharp` or `off`.
        environment: of the client.
        colours: `truecolor`, `256`, or fewer; None for none.
        is_ascii: only ASCII signs are shown.
        has_graphics: the terminal answered that it knows the protocol, with placeholders.
    """
    if setting == "off" or is_ascii or colours not in ("truecolor", "256"):
        return ""
    if setting == "auto":
        if is_remote(environment) or _in_multiplexer(environment) or colours != "truecolor":
            return ""
        return "sharp" if has_graphics else "blocks"
    if setting == "sharp" and (has_graphics or environment.get("TMUX")):
        return "sharp"
    return "blocks"


def _in_multiplexer(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in _MULTIPLEXERS)


def transmit(image_id: int, png: bytes, columns: int, rows: int, *, is_tmux: bool = False) -> str:
    """Return the text that gives the terminal an image, to be drawn where its placeholders are; not answered."""
    data = b64encode(png).decode("ascii")
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    written = []
    for number, piece in enumerate(pieces):
        first = f"a=T,U=1,f=100,i={image_id},c={columns},r={rows}," if number == 0 else ""
        more = int(number < len(pieces) - 1)
        written.append(_sequence(f"{first}q=2,m={more}", piece, is_tmux))
    return "".join(written)


def delete(image_id: int, *, is_tmux: bool = False) -> str:
    """Return the bytes, as text, that make the terminal forget an image."""
    return _sequence(f"a=d,d=I,i={image_id},q=2", "", is_tmux)


def _sequence(keys: str, data: str, is_tmux: bool) -> str:
    written = f"\x1b_G{keys}{';' if data else ''}{data}\x1b\\"
    return wrapped_for_tmux(written) if is_tmux else written
