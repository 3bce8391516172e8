"""Commands about the context window, which need the turn itself: `/compact` and `/context`.

Owns what they answer. `window.py` does the work. Loaded when such a command is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.builtin.context.window.estimate import tokens_in, tokens_of_output, tokens_of_part, tokens_of_tools
from dragoman.builtin.mcp.tools import McpTool
from dragoman.builtin.tools.jobs import job_lines
from dragoman.uistream.messages import ToolPart

if TYPE_CHECKING:
    from dragoman.builtin.context.command import TurnCommand
    from dragoman.builtin.context.window.window import ContextWindow
    from dragoman.builtin.models.model import ToolSpec
    from dragoman.builtin.turn import TurnContext

_INSTRUCTIONS: Final = re.compile(r"<instructions path=.*?</instructions>", re.DOTALL)
_BAR: Final = 30


class Share(Struct, frozen=True):
    """What takes up a part of the window."""

    name: str
    tokens: int


async def show_context(
    call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]
) -> str:
    """Show what fills the window: `/context`."""
    return _report(context, window, specs)


async def compact(call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    """Shorten the conversation now: `/compact`. Raises: ModelError."""
    done = await window.compact(call.arguments)
    if done is None:
        return f"There is nothing to shorten: the conversation has about {window.estimate():,} tokens."
    how = "" if done.made_by == "model" else " The model gave no summary, so it was made without it."
    return f"The conversation was shortened: about {done.before:,} → {done.after:,} tokens.{how}"


def shares_of(context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> list[Share]:
    """Return what fills the window, without what is free."""
    view = window.view
    instructions = sum(tokens_in(found) for found in _INSTRUCTIONS.findall(context.system))
    of_servers = tokens_of_tools(spec for spec in specs if isinstance(context.tools.get(spec.name), McpTool))
    parts = [part for entry in view.entries for part in entry.message.parts]
    outputs = sum(tokens_of_output(part) for part in parts if isinstance(part, ToolPart))
    return [
        Share("System prompt", tokens_in(context.system) - instructions),
        Share("Instructions of user and project", instructions),
        Share("Tools", tokens_of_tools(specs) - of_servers),
        Share("Tools of MCP servers", of_servers),
        Share("Summary", 0 if view.summary is None else sum(map(tokens_of_part, view.summary.parts))),
        Share("Messages", sum(map(tokens_of_part, parts)) - outputs),
        Share("Outputs of tools", outputs),
    ]


def _report(context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    shares, whole, limits = shares_of(context, window, specs), window.estimate(), window.limits
    estimated = sum(share.tokens for share in shares) or 1
    # The provider's count is the better one; our shares of it are about right.
    shares = [Share(share.name, share.tokens * whole // estimated) for share in shares]
    free = max(limits.window - whole, 0)
    assumed = "" if window.known_size is not None else ", assumed"
    lines = [
        f"{context.model.name}: about {whole:,} of {limits.window:,} tokens ({whole / limits.window:.0%}{assumed}). "
        f"The conversation is shortened at {limits.limit:,}; `/compact` does it now.",
        "",
        "| what | tokens | share |",
        "| --- | ---: | --- |",
    ]
    for share in (*shares, Share("Free", free)):
        part = share.tokens / limits.window
        lines.append(f"| {share.name} | {share.tokens:,} | {'█' * min(round(part * _BAR), _BAR)} {part:.1%} |")
    jobs = job_lines(context.memory)
    if jobs:
        lines += ["", "Background jobs:", "", *(f"- {line}" for line in jobs)]
    return "\n".join(lines)
