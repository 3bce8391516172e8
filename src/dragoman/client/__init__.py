"""Drives an agent: the client role of the protocol.

Knows sessions, turns and services; does not know how bytes move, how anything is shown or what the user allows.
Read `remote.py` first, then `session.py` and `turn.py`. What not every client needs is loaded when first used.
"""

from typing import TYPE_CHECKING

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
from dragoman.errors import AuthRequired, CrashLoop, LoginFailed

if TYPE_CHECKING:
    from dragoman.client.consent import Asker, Consent, Decision, Question
    from dragoman.client.files import WorkspaceFiles
    from dragoman.client.login import LoginMethod, login_methods, terminal_login, with_login
    from dragoman.client.supervisor import RestartNote, RestartPolicy, Supervised, supervise
    from dragoman.client.terminals import LocalTerminals

__all__ = [
    "AnswersForms",
    "Asker",
    "AuthRequired",
    "ClientOptions",
    "Consent",
    "CrashLoop",
    "Decision",
    "Loading",
    "LocalTerminals",
    "LoginFailed",
    "LoginMethod",
    "OpensUrls",
    "PromptTurn",
    "Question",
    "ReadsFiles",
    "Received",
    "RemoteAgent",
    "RestartNote",
    "RestartPolicy",
    "Session",
    "Supervised",
    "Terminals",
    "Updates",
    "WorkspaceFiles",
    "WritesFiles",
    "connect",
    "login_methods",
    "spawn",
    "supervise",
    "terminal_login",
    "with_login",
]

_HOMES = {
    "Asker": "consent",
    "Consent": "consent",
    "Decision": "consent",
    "LocalTerminals": "terminals",
    "LoginMethod": "login",
    "Question": "consent",
    "RestartNote": "supervisor",
    "RestartPolicy": "supervisor",
    "Supervised": "supervisor",
    "WorkspaceFiles": "files",
    "login_methods": "login",
    "supervise": "supervisor",
    "terminal_login": "login",
    "with_login": "login",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
