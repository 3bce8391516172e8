"""A session with an agent, as a program uses it: prompts, updates, mode and options.

Owns the public calls of a session and their checks before anything is sent. The running turn, the queues and the state
belong to `session_link.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.client.turn import PromptTurn
from dragoman.errors import CapabilityError, LocalProtocolError
from dragoman.schema import Unknown, v1
from dragoman.schema.gates import is_advertised
from dragoman.state import fold
from dragoman.state.settings import option_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dragoman.client.services import ChangedPath, Rewound, TracksChanges
    from dragoman.client.session_link import Received, SessionLink
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Inbox
    from dragoman.schema import v2
    from dragoman.state import SessionState, ToolCallState

# Prompt blocks that the agent has to advertise first (rule 177); text and resource links are always accepted.
_GATED_BLOCKS: Final[dict[type, str]] = {
    v1.ImageContent: "promptCapabilities.image",
    v1.AudioContent: "promptCapabilities.audio",
    v1.EmbeddedResource: "promptCapabilities.embeddedContext",
}


class Updates:
    """Everything a session receives, in and between turns; ends when the session does."""

    def __init__(self, link: SessionLink) -> None:
        self._link = link
        self._inbox: Inbox[Received] = link.subscribe()

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> Received:
        return await self._inbox.__anext__()

    def close(self) -> None:
        """Stop receiving. Dropping the last reference does the same."""
        self._link.unsubscribe(self._inbox)

    __del__ = close


class Session:
    """One session of an agent. `state` is folded from everything received; the methods send requests to the agent."""

    def __init__(
        self,
        link: SessionLink,
        cwd: str,
        *,
        additional_directories: Sequence[str] = (),
        mcp_servers: Sequence[v1.McpServer] = (),
    ) -> None:
        self.id: Final = link.id
        self.cwd: Final = cwd
        self.additional_directories: Final = tuple(additional_directories)
        self.mcp_servers: Final = tuple(mcp_servers)
        self.state: Final[SessionState] = link.state
        self._link: Final = link
        self._noted: dict[str, tuple[ToolCallState, ToolCallState | None]] = {}  # after and before a permission request
        link.session = self

    @property
    def lost_by(self) -> ConnectionClosed | None:
        """Why the agent was lost while this session was open; it can be resumed or loaded on another connection."""
        return self._link.lost_by

    @property
    def is_closed(self) -> bool:
        """Whether the session or its connection has ended."""
        return self._link.is_closed

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled, or, between turns, the last one.

        What the agent asks for then belongs to that turn and is answered `cancelled`.
        """
        return self._link.is_cancelled

    @property
    def idle_since(self) -> float | None:
        """When the agent last sent something in the running turn, as a value of `time.monotonic`.

        None while no turn runs, and while the agent waits for this side: a permission, a file, a terminal. Silence has
        no limit, because a tool may take hours; use `asyncio.timeout` to set one.
        """
        return self._link.idle_since

    def note_permission(self, call: v1.ToolCallPatch | v2.ToolCallPatch) -> None:
        """Take the tool call of a permission request into the state; `announced` keeps what was reported before."""
        before = self.announced(call.tool_call_id)
        self._noted[call.tool_call_id] = (self.state.note_permission(call), before)

    def announced(self, tool_call_id: str) -> ToolCallState | None:
        """Return the tool call as updates reported it, without what permission requests alone stated.

        None if no update reported it.
        """
        known = self.state.tool_calls.get(tool_call_id)
        noted, before = self._noted.get(tool_call_id, (None, None))
        return before if known is noted else known

    def on_cancel(self, callback: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `callback` if the session is cancelled while the `with` block runs."""
        return self._link.on_cancel(callback)

    def prompt(
        self,
        prompt: str | v1.ContentBlock | Sequence[str | v1.ContentBlock],
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> PromptTurn:
        """Return a turn with this prompt. It is sent when it is first awaited, iterated or entered.

        Args:
            prompt: the text, a content block, or several of both.
            meta: the request's `_meta`, such as W3C trace ids.

        Raises:
            CapabilityError: the agent did not advertise that it accepts a block of this type.
            LocalProtocolError: when it is sent, another prompt of this session is running; an agent of version 2
                takes it and decides when it begins.
        """
        parts: Any = prompt if isinstance(prompt, list | tuple) else (prompt,)
        blocks: tuple[v1.ContentBlock, ...] = tuple(
            v1.TextContent(part) if isinstance(part, str) else part for part in parts
        )
        for block in blocks:
            gate = _GATED_BLOCKS.get(type(block))
            if gate is not None and not is_advertised(self._link.connection.capabilities, gate):
                raise CapabilityError(f"the agent does not take {block.__class__.__name__} in prompts ({gate})")
        return PromptTurn(self._link, blocks, meta)

    def updates(self) -> Updates:
        """Return everything received from now on, replayed history included and marked."""
        return Updates(self._link)

    async def cancel(self) -> None:
        """Ask the agent to stop the running turn; harmless without one.

        Every open question of the agent (permission, elicitation) is answered `cancelled` at once (rule 194).
        """
        await self._link.cancel()

    async def set_mode(self, mode_id: str) -> None:
        """Switch the agent's mode. When this returns, the agent has confirmed it and `state.mode` is the new mode.

        An agent that has no modes but an option of category `mode`, as those of version 2, is switched by that.

        Raises: LocalProtocolError for a mode the session does not offer.
        """
        modes = self.state.modes
        known = [mode.id for mode in modes.available_modes] if modes else []
        option = None if modes else self.state.mode_option
        if option is not None and mode_id in (known := sorted(option_values(option))):
            await self.set_config_option(option.id, mode_id)
            return
        if mode_id not in known:
            raise LocalProtocolError(f"session {self.id} has no mode {mode_id!r}; it offers: {_list(known)}")

        def confirm(_: object) -> None:
            fold(self.state, v1.CurrentModeUpdate(mode_id))

        await self._link.call("session/set_mode", v1.SetSessionModeRequest(self.id, mode_id), confirm)

    async def set_config_option(self, option_id: str, value: str | bool) -> None:
        """Change an option. `state.config_options` becomes the complete list that the agent answers with.

        Args:
            option_id: the id of one of `state.config_options`.
            value: the id of a value for a select option, True or False for a boolean one.

        Raises:
            LocalProtocolError: the session does not offer the option, or the value has the wrong type.
        """
        known = {option.id: option for option in self.state.config_options if not isinstance(option, Unknown)}
        option = known.get(option_id)
        if option is None:
            raise LocalProtocolError(f"session {self.id} has no option {option_id!r}; it offers: {_list([*known])}")
        if isinstance(option, v1.SessionConfigBoolean) != isinstance(value, bool):
            raise LocalProtocolError(
                f"option {option_id!r} takes {'true or false' if isinstance(value, str) else 'text'}"
            )
        params: object
        if isinstance(value, bool):
            params = v1.SetSessionConfigBoolean(self.id, option_id, value)
        else:
            params = v1.SetSessionConfigSelect(self.id, option_id, value)

        def confirm(result: v1.SetSessionConfigOptionResponse) -> None:
            fold(self.state, v1.ConfigOptionUpdate(result.config_options))

        await self._link.call("session/set_config_option", params, confirm)

    async def cancel_tool(self, tool_call_id: str) -> None:
        """Ask the agent to end one tool call; the turn goes on (version 2).

        Raises: CapabilityError if the agent does not offer it for this call (`can_cancel` of the tool call).
        """
        known = self.state.tool_calls.get(tool_call_id)
        if known is None or not known.can_cancel:
            raise CapabilityError(f"the agent does not offer to cancel tool call {tool_call_id!r} by itself")
        await self._link.cancel_one("tool_call/cancel", {"sessionId": self.id, "toolCallId": tool_call_id})

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Ask the agent to end the command of one of its terminals (version 2).

        Raises: CapabilityError if the agent does not offer it for this terminal (`can_cancel` of the terminal).
        """
        known = self.state.terminals.get(terminal_id)
        if known is None or not known.can_cancel:
            raise CapabilityError(f"the agent does not offer to cancel terminal {terminal_id!r}")
        await self._link.cancel_one("terminal/cancel", {"sessionId": self.id, "terminalId": terminal_id})

    async def set_model(self, model_id: str) -> None:
        """Switch the model of an agent that still implements `session/set_model`, a dropped draft of the protocol.

        Agents with a config option of category `model` are switched by `set_config_option`. `legacy_models.py` reads
        which models such an agent offers.
        """
        params = {"sessionId": self.id, "modelId": model_id}
        await self._link.connection.peer.request("session/set_model", params, Any)

    async def changes(self) -> Sequence[ChangedPath]:
        """Return what the last turn changed in the session's folders, by any means: tools, commands, other programs.

        Raises: LocalProtocolError if changes are not followed (the option `changes` of `spawn` and `connect`).
        """
        return await self._tracker().changes(self)

    async def rewind(self, turns: int = 1, *, choices: Mapping[str, str] | None = None) -> Rewound:
        """Take back what the last turns changed. A path that was changed since stays as it is, and is in `kept`.

        Args:
            turns: how many turns.
            choices: for single paths: `keep`, `take` (give back the old content all the same) or `merge`.

        Raises:
            LocalProtocolError: changes are not followed, a turn is running, or there are fewer turns.
        """
        if self.state.is_running:
            raise LocalProtocolError(f"a turn runs in session {self.id}; rewind when it has ended")
        return await self._tracker().rewind(self, turns, choices or {})

    def _tracker(self) -> TracksChanges:
        found = self._link.connection.changes
        if found is None:
            raise LocalProtocolError(
                "changes are not followed; pass changes=dragoman.follow_changes() to spawn or connect"
            )
        return found

    async def close(self) -> None:
        """End the session at the agent, its running turn included (needs `sessionCapabilities.close`)."""
        await self._link.connection.close_session(self.id)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
