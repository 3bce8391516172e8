"""The installed `codex` program as an agent, through `codex app-server`. Read `adapter.py` first.

`app_server.py` is the program and its JSON-RPC, `thread.py` one session of it, `turn.py` one turn. `events.py`,
`items.py` and `diffs.py` make chunks of what it reports, `questions.py` answers what it asks, `choices.py` are the
settings. Nothing of it is loaded before an adapter is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.adapters.adapter import Adapter

__all__ = ["codex"]


def codex(program: str | None = None, *, config: Mapping[str, Any] | None = None) -> Adapter:
    """Return the installed program `codex`.

    Args:
        program: where it is; by default the variable CODEX_PATH, or `codex` on PATH.
        config: settings of Codex forevery session, as in its `config.toml`.
    """
    from dragoman.adapters.codex.adapter import CodexAdapter

    return CodexAdapter(program, config=config)
