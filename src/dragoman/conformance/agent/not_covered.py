"""Rules that bind agents and have no case, with the reason; and those that are judged more mildly than written.

A judge at the other end of a pipe sees what an agent sends, not what it means, keeps or does elsewhere. The coverage
table of the documentation is made from this and from the cases.
"""

from __future__ import annotations

from typing import Final

_PERMITS: Final = "permits something and demands nothing"
_INSIDE: Final = "about what the agent keeps to itself or gives to its model"
_SECURITY: Final = "about who stands behind a connection, which one client at a pipe cannot vary"
_NAMES: Final = "about the meaning of names"

UNSEEN: Final[dict[int, str]] = {
    8: _PERMITS,
    16: _PERMITS,
    17: "about transports other than stdio",
    18: "about documentation",
    47: "about what a user interface shows",
    75: "happens in a terminal of the user's, outside of the connection",
    81: _PERMITS,
    91: "a tool outside the roots shows only if the model goes there, and refusing is not the only right answer",
    113: _PERMITS,
    132: _PERMITS,
    139: _PERMITS,
    155: _INSIDE,
    159: "what is important is for a user to decide",
    182: _PERMITS,
    183: _INSIDE,
    189: _PERMITS,
    190: _PERMITS,
    202: _PERMITS,
    203: _PERMITS,
    205: _PERMITS,
    207: _PERMITS,
    212: _PERMITS,
    214: _PERMITS,
    236: "every block is held against the schema, which is the one of MCP",
    237: _PERMITS,
    247: "states what the protocol cannot express",
    252: _PERMITS,
    267: _PERMITS,
    297: "a recipe; that every terminal is released has cases of its own",
    305: _SECURITY,
    315: _INSIDE,
    324: _SECURITY,
    330: _NAMES,
    335: _NAMES,
    336: "about relays",
}

SOFTENED: Final[dict[int, str]] = {
    100: "newer than the published text, which older agents follow",
    265: "entries may be dropped (rule 267), so a short list proves nothing",
    338: "the client that provokes it breaks a rule itself; -32002 and its data are newer than the published text",
}
"""Rules of level MUST, MUST NOT or SCHEMA whose cases warn instead of failing."""

PARTLY_SOFTENED: Final[dict[int, str]] = {
    311: "a field that is called password, secret or the like fails; one that only holds such a word warns",
    320: "a password or a parameter that is called so fails; a word in the query warns, and so does HTTP (a SHOULD)",
    329: "a member that begins with `_` fails; any other may be one of a newer release, or of a draft, and warns",
    337: "-32700 for a request that was read fails; other codes answer what no client may send, and warn",
}
"""Rules of level MUST or MUST NOT that warn where it cannot be proven that they are broken."""

HARDENED: Final[dict[int, str]] = {
    261: "a tool that runs although its permission was rejected; version 2 has it as a MUST NOT",
    331: "names without `_` belong to the protocol, so a method of that kind is not a message of it (rules 6 and 7)",
}
"""Rules of another level whose breach is a failure all the same."""
