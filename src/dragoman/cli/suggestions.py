"""Words for completion that depend on this machine: the names of agents and providers, the ids of sessions.

They are read when the script is printed, which a shell does when it starts, so that completion starts no program.
"""

from __future__ import annotations

import re
from typing import Final

_SESSIONS: Final = 30  # more would hide the others in a list of completions


def provider_names() -> tuple[str, ...]:
    """Return the providers whose key can be stored."""
    from dragoman.builtin.models.providers import login_providers

    return tuple(provider.id for provider in login_providers())


def task_names() -> tuple[str, ...]:
    """Return the evaluation tasks that come with this program."""
    from dragoman.evaluation.task import BUILT_IN

    return tuple(sorted(folder.name for folder in BUILT_IN.iterdir() if (folder / "task.toml").is_file()))


def session_ids() -> tuple[str, ...]:
    """Return the ids of the newest sessions in the ledger that need no quoting in a shell."""
    from dragoman.errors import StoreError
    from dragoman.settings.places import data_dir
    from dragoman.store.ledger import FILE_NAME, open_existing

    try:
        ledger = open_existing(data_dir() / FILE_NAME)
        if ledger is None:
            return ()
        known = ledger.entries(limit=_SESSIONS)
        ledger.close()
    except (StoreError, OSError):
        return ()
    found = dict.fromkeys(entry.session_id for entry in known if not entry.is_replaced)
    return tuple(name for name in found if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))


def hosted_names() -> tuple[str, ...]:
    """Return the names of the local host's sessions that need no quoting in a shell; the host is not started."""
    from dragoman.cli.sessions.hosted import hosted_sessions
    from dragoman.errors import StoreError

    try:
        found = [session.name for session in hosted_sessions() if session.name]
    except (StoreError, OSError):
        return ()
    return tuple(name for name in dict.fromkeys(found) if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))


def agent_names() -> tuple[str, ...]:
    """Return the names of agents that need no quoting in a shell; none if the settings cannot be read."""
    from dragoman.cli.agents.context import load_agents_here
    from dragoman.errors import ConfigError

    try:
        names = load_agents_here().names()
    except (ConfigError, OSError):
        return ()
    return tuple(name for name in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))


def mcp_server_names() -> tuple[str, ...]:
    """Return the names of MCP servers that need no quoting in a shell; none if the settings cannot be read."""
    from dragoman.cli.mcp.context import load_servers_here
    from dragoman.errors import ConfigError

    try:
        names = [server.name for server in load_servers_here().all]
    except (ConfigError, OSError):
        return ()
    return tuple(name for name in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))


def worktree_names() -> tuple[str, ...]:
    """Return the names of the worktrees of the project here."""
    from dragoman.worktrees import list_worktrees, project_of

    try:
        return tuple(worktree.name for worktree in list_worktrees(project_of(".")))
    except OSError:
        return ()
