"""One session of an agent of version 1, as a client of version 2 is shown it.

Theory of operation
-------------------
A prompt is accepted at once: the client gets the id of its message, then the message, then the state `running`, and the
agent gets the prompt. Version 1 allows one prompt at a time, so the next one is held until the agent has answered; the
client sees `idle` with the stop reason in between, as agents of version 2 do it. A prompt that the agent refuses after
all ends its turn with an error.

Every message has an id in version 2. Where the agent gives none, ids are counted: a new one after a change of role, a
new tool call, a plan, and at each turn. Two roles never share an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.versions.frames import Frame, items, kept, members, objects, text
from dragoman.versions.version2 import to_v2
from dragoman.versions.version2.content import KnownContent

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.versions.losses import Losses

_ROLES: Final = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}
_TOOL_MEMBERS: Final = ("title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput")


class HeldPrompt:
    """A prompt of the client that has not begun."""

    __slots__ = ("id", "params", "translated")

    def __init__(self, request_id: Any, params: Frame, translated: Frame) -> None:
        self.id = request_id
        self.params = params
        self.translated = translated
        """The same for the agent."""


class V2Session:
    """One session, whose updates become those of version 2, with its state and its settings.

    Args:
        send: Sends the client an update of this session.
        make_id: Makes a message id that is used nowhere else; gets what it is for.
    """

    def __init__(self, send: Callable[[Frame], None], losses: Losses, make_id: Callable[[str], str]) -> None:
        self._send = send
        self._losses = losses
        self._make_id = make_id
        self.cwd = ""
        self.title: str | None = None
        self.held: list[HeldPrompt] = []
        self.is_running = False
        self.is_swallowing = False
        """A replay that the client did not ask for is under way."""
        self.questions: set[Any] = set()
        """The ids of the agent's requests that the client has not answered."""
        self._modes: Frame = {}
        self._options: list[Frame] = []
        self._tools: set[str] = set()
        self._titles: dict[str, str] = {}
        self._terminals: set[str] = set()
        self._open: tuple[str, str] | None = None
        """Role and id of the message that a chunk without id continues."""
        self._roles: dict[str, str] = {}
        self._prompt_content: KnownContent | None = None
        self._echo = KnownContent()
        self._steps: dict[str, Callable[[Frame], None]] = {
            "user_message_chunk": self._on_user_chunk,
            "agent_message_chunk": self._on_chunk,
            "agent_thought_chunk": self._on_chunk,
            "tool_call": self._on_tool_call,
            "tool_call_update": self._on_tool_update,
            "plan": self._on_plan,
            "available_commands_update": self._on_commands,
            "current_mode_update": self._on_mode,
            "config_option_update": self._on_options,
            "session_info_update": self._on_info,
            "compaction_update": self._on_blocks,
            "compaction_summary_chunk": self._on_blocks,
            "session_message": self._on_blocks,
            "session_message_chunk": self._on_blocks,
        }

    def on_update(self, update: Frame) -> None:
        """Translate an update; kinds that are not named here are the same in both versions, or unknown to both."""
        kind = text(update.get("sessionUpdate"))
        if self.is_swallowing and kind not in (
            "available_commands_update",
            "current_mode_update",
            "session_info_update",
        ):
            return
        self._steps.get(kind, self._send)(update)

    # Turns

    def insert_prompt(self, message_id: str, prompt: Any) -> None:
        """Begin a turn: show the user's message and the state."""
        self.is_running = True
        self._open = None
        self._prompt_content = KnownContent(objects(prompt))
        self._echo = KnownContent()
        self._send({"sessionUpdate": "user_message", "messageId": message_id, "content": items(prompt)})
        self.send_state()

    def begin_turn(self) -> None:
        """Begin a turn whose prompt came from another client."""
        self.is_running = True
        self._open = None
        self.send_state()

    def end_turn(self, idle: Frame) -> None:
        """End the turn: the agent answered the prompt."""
        self.is_running = False
        self.questions.clear()
        self._open = None
        self._prompt_content = None
        self._send({"sessionUpdate": "state_update", "state": "idle", **idle})

    def send_state(self) -> None:
        """Send what the session is doing now."""
        working = "requires_action" if self.questions else "running"
        self._send({"sessionUpdate": "state_update", "state": working if self.is_running else "idle"})

    def open_question(self, request_id: Any) -> None:
        """Take note that the agent asks the user something."""
        self.questions.add(request_id)
        if self.is_running and len(self.questions) == 1:
            self.send_state()

    def close_question(self, request_id: Any) -> None:
        """Take note that the client has answered."""
        if request_id in self.questions:
            self.questions.remove(request_id)
            if self.is_running and not self.questions:
                self.send_state()

    # Messages

    def _id_of(self, role: str, update: Frame) -> str:
        given = update.get("messageId")
        if not isinstance(given, str):
            if self._open is None or self._open[0] != role:
                self._open = (role, self._make_id("message"))
            return self._open[1]
        self._open = None
        # Some agents give a thought and its answer one id.
        return given if self._roles.setdefault(given, role) == role else f"{given}~{role}"

    def _on_chunk(self, update: Frame) -> None:
        role = _ROLES[update["sessionUpdate"]]
        self._send({**update, "messageId": self._id_of(role, update), "content": to_v2.block(update.get("content"))})

    def _on_user_chunk(self, update: Frame) -> None:
        if self._prompt_content is not None:
            self._echo.add(members(update.get("content")))
            if self._echo.rest_of(self._prompt_content) is not None:
                return  # the prompt that was shown when the turn began
            self._prompt_content = None
        self._on_chunk(update)

    # Tool calls

    def _has_terminal(self, terminal_id: Any) -> bool:
        return isinstance(terminal_id, str) and terminal_id in self._terminals

    def _content(self, value: Any) -> list[Frame]:
        return to_v2.tool_content(value, self._has_terminal, self._losses)

    def tool_patch(self, call: Frame) -> Frame:
        """Return the members of a tool call, after the terminals that its `_meta` describes."""
        for update in to_v2.terminal_updates(call.get("_meta")):
            self._terminals.add(update["terminalId"])
            self._send(update)
        return to_v2.tool_patch(call, self._content)

    def title_of(self, tool_id: Any) -> str | None:
        """Return the title under which the client knows a tool call."""
        return self._titles.get(tool_id) if isinstance(tool_id, str) else None

    def _on_tool_call(self, update: Frame) -> None:
        made = self.tool_patch(update)
        tool_id = text(update.get("toolCallId"))
        if tool_id in self._tools:  # announced again: what it does not have now is gone
            made = {**dict.fromkeys(_TOOL_MEMBERS), **made}
        self._send_tool(tool_id, made)

    def _on_tool_update(self, update: Frame) -> None:
        self._send_tool(text(update.get("toolCallId")), self.tool_patch(update))

    def _send_tool(self, tool_id: str, made: Frame) -> None:
        if tool_id not in self._tools:
            self._tools.add(tool_id)
            self._open = None
        if isinstance(made.get("title"), str):
            self._titles[tool_id] = made["title"]
        self._send({"sessionUpdate": "tool_call_update", **made})

    # Settings, plans and the rest

    def settings(self, result: Frame) -> list[Frame] | None:
        """Take modes and options of a response; return them as the options of version 2, or None without any."""
        if isinstance(result.get("modes"), dict):
            self._modes = result["modes"]
        if isinstance(result.get("configOptions"), list):
            self._options = objects(result["configOptions"])
        options = self.options()
        return options or None

    def options(self) -> list[Frame]:
        """Return all options, with the modes as one of them if the agent has no option for them."""
        made = to_v2.config_options(self._options, self._losses)
        modes = None if self._mode_option() is not None else to_v2.mode_option(self._modes)
        return made if modes is None else [modes, *made]

    def _mode_option(self) -> Frame | None:
        return next((option for option in self._options if option.get("category") == "mode"), None)

    @property
    def has_made_mode_option(self) -> bool:
        """Whether the option named `mode` stands for the agent's modes."""
        return bool(self._modes.get("availableModes")) and self._mode_option() is None

    def set_mode(self, mode_id: Any) -> None:
        """Change the current mode; an option of that category changes with it."""
        self._modes = {**self._modes, "currentModeId": mode_id}
        option = self._mode_option()
        if option is not None:
            self._options = [
                {**other, "currentValue": mode_id} if other is option else other for other in self._options
            ]

    def _on_mode(self, update: Frame) -> None:
        self.set_mode(update.get("currentModeId"))
        self._send({"sessionUpdate": "config_option_update", "configOptions": self.options(), **kept(update, "_meta")})

    def _on_options(self, update: Frame) -> None:
        self._options = objects(update.get("configOptions"))
        option = self._mode_option()
        if option is not None and self._modes:
            self._modes = {**self._modes, "currentModeId": option.get("currentValue")}
        self._send({**update, "configOptions": self.options()})

    def _on_commands(self, update: Frame) -> None:
        self._send({**update, "availableCommands": to_v2.commands(update.get("availableCommands"))})

    def _on_plan(self, update: Frame) -> None:
        self._open = None
        self._send(to_v2.plan(update))

    def _on_blocks(self, update: Frame) -> None:
        made = dict(update)
        for name in ("content", "summary"):
            value = update.get(name)
            if value is not None:
                made[name] = to_v2.blocks(value) if isinstance(value, list) else to_v2.block(value)
        self._send(made)

    def _on_info(self, update: Frame) -> None:
        if isinstance(update.get("title"), str):
            self.title = update["title"]
        self._send(update)
