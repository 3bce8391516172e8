"""The blocks of a prompt for one agent: what it does not take is converted or refused, never dropped. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GATES: Final[dict[type, tuple[str, str]]] = {
    v1.ImageContent: ("image", "promptCapabilities.image"),
    v1.AudioContent: ("audio", "promptCapabilities.audio"),
}


def blocks_for(blocks: Sequence[v1.ContentBlock], agent: str, can: Callable[[str], bool]) -> list[v1.ContentBlock]:
    """Return the blocks as this agent takes them: an embedded text becomes one with its URI if there is no other way.

    Args:
        blocks: As the client sent them.
        agent: The name of the agent, for the error.
        can: Whether the agent has a capability, by its dotted path.

    Raises:
        RequestError: the agent cannot take a block.
    """
    found: list[v1.ContentBlock] = []
    for place, block in enumerate(blocks):
        kind, gate = _GATES.get(type(block), ("", ""))
        if gate and not can(gate):
            raise _refused(agent, kind, place)
        if isinstance(block, v1.EmbeddedResource) and not can("promptCapabilities.embeddedContext"):
            resource = block.resource
            if not isinstance(resource, v1.TextResourceContents):
                raise _refused(agent, "embedded binary", place)
            block = v1.TextContent(f"{resource.uri}:\n{resource.text}")
        found.append(block)
    return found


def _refused(agent: str, kind: str, place: int) -> RequestError:
    return RequestError.invalid_params(f"{agent} does not take {kind} blocks in prompts", path=f"$.prompt[{place}]")


class PromptEcho:
    """A search for the running prompt in what the agent sends as messages of the user: the client shows it already."""

    def __init__(self, blocks: Sequence[v1.ContentBlock]) -> None:
        self._text = "".join(block.text for block in blocks if isinstance(block, v1.TextContent))
        self._others = [block for block in blocks if not isinstance(block, v1.TextContent)]
        self._at = 0

    def repeats(self, block: object) -> bool:
        """Whether a block repeats the prompt, or the next piece of it."""
        if not isinstance(block, v1.TextContent):
            return block in self._others
        rest = self._text[self._at :]
        if block.text and rest.startswith(block.text):
            self._at += len(block.text)
            return True
        return block.text == self._text
