"""The facts about a conversation that a report of a failure names."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from dragoman._version import __version__
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from dragoman.tui.conversation import HostedConversation


def facts_of(conversation: HostedConversation) -> list[tuple[str, str]]:
    """Return what a report says about the conversation; nothing of its content."""
    return [
        ("agent", one_line(conversation.agent) or "(none)"),
        ("session", conversation.session_id or "(none)"),
        ("phase", conversation.phase),
        ("turns", str(len(conversation.state.turns))),
        ("dragoman", __version__),
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()}"),
    ]
