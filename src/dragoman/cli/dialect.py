"""The dialect 2025.1 for the programs of the command line: both roles through a translator.

Says once, at the start, what the dialect cannot do; `dragoman.versions` translates.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from dragoman.transports.translated import TranslatedTransport
from dragoman.versions import translator

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.policy import Rule
    from dragoman.rpc import Transport
    from dragoman.versions import Lost

DIALECT: Final = "2025.1"
TOKEN_VARIABLE = "DRAGOMAN_2025_1_TOKEN"
_KEPT_SESSIONS = 1000
_KEPT_PLACES = 200
_ASKED = (
    f"a client of {DIALECT} cannot be asked for permission: what your rules do not allow is refused "
    "(dragoman rules add --allow ...)"
)
_TIME = f"clients of {DIALECT} are known to give up a prompt after 30 seconds; a longer turn goes on unseen"
_CANCEL = f"agents of {DIALECT} are known to read nothing while they work: a cancel counts when the turn ends"


def notes_for(client: str, agent: str) -> list[str]:
    """Return what a user should know before the first message between a client and an agent of these versions."""
    if client == agent:
        return []
    notes = [_ASKED, _TIME] if client == DIALECT else []
    return [*notes, _CANCEL] if agent == DIALECT else notes


def serve_dialect_client(transport: Transport) -> Transport:
    """Return the transport of an agent of version 1 for a client of the dialect; permission is decided by the rules."""
    from dragoman.proxy.rules import RuleAnswers

    for note in notes_for(DIALECT, "1"):
        _say(note)
    known, keep = kept_sessions("dragoman agent", _say)
    decide = RuleAnswers(rules_of, "dragoman").decide
    made = translator(DIALECT, "1", decide=decide, known_sessions=known, keep_session=keep)
    return TranslatedTransport(transport, made, "agent", on_loss=_say_lost, on_noise=_say)


def drive_dialect_agent(
    transport: Transport, folder: str, *, is_lazy: bool, say: Callable[[str], None]
) -> TranslatedTransport:
    """Return the transport of a client of version 1 whose agent speaks the dialect.

    Args:
        folder: The folder to work in.
        is_lazy: The first session names MCP servers.
        say: Shows the user a sentence.
    """
    for note in notes_for("1", DIALECT):
        say(note)
    made = translator("1", DIALECT, folder=folder, token=os.environ.get(TOKEN_VARIABLE), is_lazy=is_lazy)
    return TranslatedTransport(
        transport, made, "client", on_loss=lambda lost: say(f"not translated: {lost.what}"), on_noise=say
    )


def kept_sessions(agent: str, say: Callable[[str], None]) -> tuple[dict[str, str], Callable[[str, str], None]]:
    """Return the sessions of clients of the dialect at an agent in this folder, and a function that keeps one more.

    Such a client chooses the ids of its sessions, so the agent's own ids are kept for a later connection.

    Args:
        agent: The agent's command.
        say: Shows the user a sentence if they cannot be kept.
    """
    from dragoman.errors import ConfigError
    from dragoman.settings.documents import write_document
    from dragoman.settings.places import state_dir

    path = state_dir() / "dialect-sessions.json"
    place = f"{os.getcwd()}: {agent}"

    def read() -> dict[str, dict[str, str]]:
        import json

        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: ids for name, ids in found.items() if isinstance(ids, dict)} if isinstance(found, dict) else {}

    def keep(client_id: str, agent_id: str) -> None:
        ids = read()
        own = {name: value for name, value in ids.pop(place, {}).items() if name != client_id}
        own[client_id] = agent_id
        kept = {**ids, place: dict(list(own.items())[-_KEPT_SESSIONS:])}
        try:
            write_document(path, dict(list(kept.items())[-_KEPT_PLACES:]))
        except ConfigError as error:
            say(f"the session cannot be loaded on another connection: {error}")

    return {name: str(value) for name, value in read().get(place, {}).items()}, keep


def rules_of(folder: str) -> list[Rule]:
    """Return the user's rules for a folder: those of the rule file and of the settings.

    Raises:
        ConfigError: a file is broken.
    """
    from pathlib import Path

    from dragoman.cli.exec.rules import remembered_rules
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import config_dir

    project = find_project(Path(folder))
    return remembered_rules(str(project)) + load_settings(config_dir(), project).rules()


def _say_lost(lost: Lost) -> None:
    _say(f"not translated: {lost.what}")


def _say(sentence: str) -> None:
    sys.stderr.write(f"dragoman agent: {sentence}\n")
