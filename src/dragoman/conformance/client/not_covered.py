"""Rules that bind clients and have no case, with the reason; and those that are judged more mildly than written.

A judge at the other end of a pipe sees what a client sends, not what it shows, keeps or leaves undone. The coverage
table of the documentation is made from this and from the cases.
"""

from __future__ import annotations

from typing import Final

_A_SCREEN: Final = "about what the user sees"
_INSIDE: Final = "about what the client keeps to itself"
_A_USER: Final = "needs a user who does something"
_PERMITS: Final = "permits something and demands nothing"

UNSEEN: Final[dict[int, str]] = {
    16: _PERMITS,
    17: "about transports other than stdio",
    18: "about documentation",
    31: _INSIDE,
    47: _A_SCREEN,
    70: _A_USER,
    71: _A_USER,
    72: _A_USER,
    73: _A_USER,
    82: _A_USER,
    93: _PERMITS,
    133: _INSIDE,
    158: _A_SCREEN,
    160: _A_SCREEN,
    179: _PERMITS,
    193: _A_SCREEN,
    202: _PERMITS,
    203: _PERMITS,
    205: _PERMITS,
    207: _PERMITS,
    229: _A_SCREEN,
    257: _PERMITS,
    260: _A_USER,
    266: _INSIDE,
    270: _INSIDE,
    271: _A_USER,
    276: "needs a file that is open and unsaved",
    295: _A_SCREEN,
    306: _A_SCREEN,
    307: _A_SCREEN,
    322: "about the browser",
    323: _A_SCREEN,
    330: "about the meaning of names",
    335: "about the meaning of names",
    336: "about relays",
}

SOFTENED: Final[dict[int, str]] = {
    183: "what is left out of the next prompt is the agent's work; of the client only hanging can be seen",
    299: "no rule demands a certain answer to a question that was not offered",
    338: "no rule demands one of these codes",
}
"""Rules of level MUST, MUST NOT or SCHEMA whose cases warn instead of failing."""
