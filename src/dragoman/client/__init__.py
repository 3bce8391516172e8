"""Drives an agent: the client role of the protocol.

Knows sessions, turns and services; does not know how bytes move, how anything is shown or what the user allows.
Read `remote.py` first, then `session.py` and `turn.py`.
"""

from dragoman.client.connect import ClientOptions, connect, spawn
from dragoman.client.remote import Loading, RemoteAgent
from dragoman.client.services import (
    AnswersForms,
    OpensUrls,
    ReadsFiles,
    Terminals,
    WritesFiles,
)
from dragoman.client.session import Received, Session, Updates
from dragoman.client.turn import PromptTurn

__all__ = [
    "AnswersForms",
    "ClientOptions",
    "Loading",
    "OpensUrls",
    "PromptTurn",
    "ReadsFiles",
    "Received",
    "RemoteAgent",
    "Session",
    "Terminals",
    "Updates",
    "WritesFiles",
    "connect",
    "spawn",
]
