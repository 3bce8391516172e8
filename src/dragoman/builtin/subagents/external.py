"""Another ACP agent as a subagent: a program that the user's settings name, in the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.builtin.subagents.declaration import AgentDeclaration

if TYPE_CHECKING:
    from dragoman.settings import EffectiveSettings


def declared_in(settings: EffectiveSettings) -> tuple[AgentDeclaration, ...]:
    """The agents that the user's settings allow."""
    return tuple(
        AgentDeclaration(
            name,
            member.description or f"The agent {member.agent}, which works by itself in a sandbox.",
            source="settings",
            path=str(settings.user.path),
            agent=member.agent,
        )
        for name, member in settings.user.subagents.items()
    )
