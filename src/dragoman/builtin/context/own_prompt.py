"""What the user and the client put into the system prompt: options, settings, and the protocol's `systemPrompt`.

Owns where these texts come from and how a session's part is stored. `systemPrompt` is an unstable member of the
requests that open a session: `{"mode": "append" | "override", "content": [...]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.system_prompt import OwnPrompt, system_prompt
from dragoman.errors import RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from msgspec import UnsetType

    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.viewer import Viewer

METADATA: Final = "system_prompt"
"""In a session's metadata: `{"override"?, "append"?}`, so that a session that is opened again keeps its prompt."""


def prompt_for(session: OpenSession, viewer: Viewer, instructions: str) -> str:
    """Return the system prompt for a turn of a client, with what the agent's options and the session's client add."""
    settings, stored = session.settings, session.row.metadata.get(METADATA)
    given: Mapping[str, Any] = stored if isinstance(stored, Mapping) else {}
    of_session = OwnPrompt(str(given.get("override", "")), str(given.get("append", "")))
    return system_prompt(
        viewer.cwd,
        viewer.roots,
        session.mode,
        instructions,
        model=session.model_name,
        is_headless=viewer.is_headless,
        skills=session.skills.index(),
        own=OwnPrompt(settings.system_prompt, settings.append_system_prompt).with_session(of_session),
    )


def metadata_of(given: v1.SystemPrompt | UnsetType | None) -> dict[str, Any]:
    """Return what to store of a `systemPrompt`; empty if there is none.

    Raises: RequestError -32602 for content that is not text: to leave a part out would change its meaning.
    """
    if not isinstance(given, v1.SystemPrompt):
        return {}
    texts = []
    for index, block in enumerate(given.content):
        if not isinstance(block, v1.TextContent):
            raise RequestError.invalid_params("a system prompt must be text", path=f"$.systemPrompt.content[{index}]")
        texts.append(block.text)
    if given.mode not in ("append", "override"):
        raise RequestError.invalid_params("mode must be append or override", path="$.systemPrompt.mode")
    return {METADATA: {given.mode: "\n\n".join(texts)}}
