"""A scripted agent, a scripted client and recordings as tests.

For tests, demos and a first look at every feature of the protocol. The scripted agent has no model, and its name and
title say so. Read `script.py` first: one keyword, one feature.
"""

from dragoman.testing.agent import scripted_agent
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
