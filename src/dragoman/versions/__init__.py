"""Wire translators between versions of the protocol: version 1 with version 2, version 1 with the dialect 2025.1.

A translator is fed the frames of a client and of an agent and says which frames to send to whom. It is pure: no
`async`, no clock, no files. What the other version cannot express is counted, never dropped in silence. Does not know
lines, processes or the types of `schema/`; frames are JSON objects. Read `router.py` first.
"""

from dragoman.versions.frames import Frame, Side
from dragoman.versions.losses import TABLES as LOSS_TABLES
from dragoman.versions.losses import Lost
from dragoman.versions.pairs import VERSIONS, Version, translator
from dragoman.versions.permission import Decide
from dragoman.versions.router import Translator

__all__ = ["LOSS_TABLES", "VERSIONS", "Decide", "Frame", "Lost", "Side", "Translator", "Version", "translator"]
