"""Both ends of the protocol by script: for tests, demos and a first look at every feature.

Knows the two roles; is imported by no other part of the library. Nothing here is a real agent, and everything says so.
Read `script.py` first: one keyword, one feature.
"""

from dragoman.testing.actor import scripted_agent
from dragoman.testing.pair import linked
from dragoman.testing.recorded import NotAsRecorded, drive_as_recorded, replayed
from dragoman.testing.script import KEYWORDS
from dragoman.testing.scripted_client import FilesInMemory, RealTerminals, ScriptedAnswers, ScriptedClient

__all__ = [
    "KEYWORDS",
    "FilesInMemory",
    "NotAsRecorded",
    "RealTerminals",
    "ScriptedAnswers",
    "ScriptedClient",
    "drive_as_recorded",
    "linked",
    "replayed",
    "scripted_agent",
]
