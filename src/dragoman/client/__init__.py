"""The client role of the protocol, which drives an agent.

Owns sessions, turns and the services for an agent's requests; does not depend on how bytes move or how anything is
shown. Read `remote.py` first, then `session.py`, `turn.py` and `session_link.py`. Names that not every client needs are
loaded when first used.
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
from dragoman.client.session import Session, Updates
from dragoman.client.session_link import Received
from dragoman.client.turn import PromptTurn
from dragoman.errors import AuthRequired, CrashLoop, LoginFailed

if TYPE_CHECKING:
    from dragoman.client.files import WorkspaceFiles
    from dragoman.client.login import LoginMethod, login_methods, terminal_login, with_login
    from dragoman.client.permission import Asker, ClientPermissions, Question
    from dragoman.client.supervisor import RestartNote, RestartPolicy, Supervised, supervise
    from dragoman.client.terminals import LocalTerminals
    from dragoman.client.version2.requests import PermissionRequest
    from dragoman.policy.decide import Decision

__all__ = [
    "AnswersForms",
    "Asker",
    "AuthRequired",
    "ClientOptions",
    "ClientPermissions",
    "CrashLoop",
    "Decision",
    "Loading",
    "LocalTerminals",
    "LoginFailed",
    "LoginMethod",
    "OpensUrls",
    "PermissionRequest",
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

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".files": ("WorkspaceFiles",),
            ".login": ("LoginMethod", "login_methods", "terminal_login", "with_login"),
            ".permission": ("Asker", "ClientPermissions", "Question"),
            "dragoman.policy.decide": ("Decision",),
            ".supervisor": ("RestartNote", "RestartPolicy", "Supervised", "supervise"),
            ".terminals": ("LocalTerminals",),
            ".version2.requests": ("PermissionRequest",),
        },
    )
