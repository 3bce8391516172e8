"""One session of an agent of version 2, as a client of version 1 is shown it.

Theory of operation
-------------------
In version 1 a prompt is answered when its turn ends. In version 2 it is answered when it is accepted, and a state
update `idle` says that the session has stopped working; it names no prompt. An idle ends exactly those open prompts
whose message was seen before it: an agent that holds a second prompt becomes idle between the two, and inserts the
second message only afterwards. If the response with the message's id is still missing, the idle is kept together with
what had been seen by then, and decided when the response comes.

Some agents might never send the user's message. Then a prompt counts as inserted when the agent sent `running` after
its response, which no held prompt has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import INTERNAL_ERROR
from dragoman.versions.frames import Frame, error, items, kept, members, objects, text, without
from dragoman.versions.version2 import to_v1
from dragoman.versions.version2.content import KnownContent
from dragoman.versions.version2.v1_tools import ShownTools

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.versions.losses import Losses

_ROLES: Final = {
    "user_message": "user",
    "agent_message": "agent",
    "agent_thought": "thought",
    "user_message_chunk": "user",
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
}
_CHUNKS: Final = {"user": "user_message_chunk", "agent": "agent_message_chunk", "thought": "agent_thought_chunk"}


class ClientGates:
    """What a client of version 1 announced that it can be sent."""

    def __init__(self, capabilities: Any = None) -> None:
        given = members(capabilities)
        session, meta = members(given.get("session")), members(given.get("_meta"))
        self.notices = isinstance(session.get("notices"), dict)
        self.compaction = isinstance(session.get("compaction"), dict)
        options = members(session.get("configOptions"))
        self.booleans = isinstance(options.get("boolean"), dict)
        self.plans = isinstance(given.get("plan"), dict)
        self.subagents = isinstance(given.get("subagents"), dict)
        self.terminals = meta.get("terminal_output") is True
        self.activity = members(meta.get("dragoman")).get("activity") is True


class OpenPrompt:
    """A prompt of the client that is not answered yet."""

    __slots__ = ("content", "echo_id", "id", "idles", "message_id", "was_running")

    def __init__(self, request_id: Any, blocks: Any) -> None:
        self.id = request_id
        self.content = KnownContent(objects(blocks))
        self.message_id: str | None = None
        self.echo_id: str | None = None
        self.was_running = False
        """The agent reported that it runs after it had accepted this prompt."""
        self.idles: list[tuple[int, Frame]] = []


class _Message:
    __slots__ = ("content", "shown_id", "times")

    def __init__(self, shown_id: str) -> None:
        self.shown_id = shown_id
        self.content = KnownContent()
        self.times = 1


class V1Session:
    """One session, whose updates become those of version 1; it decides when prompts end.

    Args:
        send: Sends the client an update of this session.
        end: Called with a prompt and its result, or None and the error it fails with.
    """

    def __init__(
        self,
        send: Callable[[Frame], None],
        end: Callable[[OpenPrompt, Frame | None, Frame | None], None],
        losses: Losses,
        gates: ClientGates,
    ) -> None:
        self._send = send
        self._end = end
        self._losses = losses
        self._gates = gates
        self.tools: Final = ShownTools(send, losses, reads_terminals=gates.terminals)
        self.options: list[Frame] = []
        self.is_cancelling = False
        self._prompts: list[OpenPrompt] = []
        self._messages: dict[tuple[str, str], _Message] = {}
        self._seen: dict[str, int] = {}
        self._step = 0
        self._plans: dict[str, list[Frame]] = {}
        self._steps: dict[str, Callable[[Frame], None]] = {
            "user_message": self._on_whole,
            "agent_message": self._on_whole,
            "agent_thought": self._on_whole,
            "user_message_chunk": self._on_chunk,
            "agent_message_chunk": self._on_chunk,
            "agent_thought_chunk": self._on_chunk,
            "state_update": self._on_state,
            "tool_call_update": self.tools.on_tool,
            "tool_call_content_chunk": self.tools.on_content_chunk,
            "terminal_update": self.tools.on_terminal,
            "terminal_output_chunk": self.tools.on_output_chunk,
            "plan_update": self._on_plan,
            "plan_removed": self._on_plan_removed,
            "available_commands_update": self._on_commands,
            "config_option_update": self._on_options,
            "session_info_update": send,
            "usage_update": send,
            "notice": self._gated(gates.notices, "notice"),
            "compaction_update": self._gated(gates.compaction, "compaction"),
            "compaction_summary_chunk": self._gated(gates.compaction, "compaction"),
            "subagent_update": self._gated(gates.subagents, "subagent"),
            "session_message": self._gated(gates.subagents, "subagent"),
            "session_message_chunk": self._gated(gates.subagents, "subagent"),
        }

    def on_update(self, update: Frame) -> None:
        """Translate an update of the agent."""
        step = self._steps.get(text(update.get("sessionUpdate")))
        if step is None:
            self._losses.add("update-kind")
        else:
            self._step += 1
            step(update)

    def forget(self) -> None:
        """Forget what was shown: the session is loaded again, and the replay shows everything again."""
        self._messages.clear()
        self._plans.clear()
        self.tools.forget()

    # Prompts

    def begin_prompt(self, prompt: OpenPrompt) -> None:
        """Take note that the client sent a prompt."""
        self._prompts.append(prompt)
        self.is_cancelling = False

    def accept_prompt(self, prompt: OpenPrompt, message_id: Any) -> None:
        """Take note that the agent accepted the prompt; an idle that came before may already have ended it."""
        prompt.message_id = text(message_id)
        idles, prompt.idles = prompt.idles, []
        for step, idle in idles:
            if self._seen.get(prompt.message_id, step + 1) <= step:
                self._finish(prompt, idle)
                return

    def drop_prompt(self, prompt: OpenPrompt) -> None:
        """Forget a prompt that the agent refused."""
        if prompt in self._prompts:
            self._prompts.remove(prompt)

    def has_accepted(self, request_id: Any) -> bool:
        """Whether this prompt was accepted and has not ended."""
        return any(prompt.id == request_id and prompt.message_id is not None for prompt in self._prompts)

    def take_accepted(self) -> list[OpenPrompt]:
        """Return the open prompts that the agent has accepted: nothing else waits for their end."""
        accepted = [prompt for prompt in self._prompts if prompt.message_id is not None]
        self._prompts.clear()
        return accepted

    def _on_state(self, update: Frame) -> None:
        state = update.get("state")
        if update.get("background"):
            self._losses.add("background-work")
        if state == "idle":
            self.tools.flush()
            for prompt in list(self._prompts):
                if prompt.message_id is None:
                    prompt.idles.append((self._step, update))
                elif prompt.message_id in self._seen or prompt.was_running:
                    self._finish(prompt, update)
        elif state == "running" and self._prompts:
            for prompt in self._prompts:
                prompt.was_running = prompt.was_running or prompt.message_id is not None
        elif state == "requires_action":
            self._losses.add("requires-action")
        elif not self._gates.activity:
            self._losses.add("own-work")
        if self._gates.activity:
            self._send({"sessionUpdate": "session_info_update", "_meta": {"dragoman": {"activity": state}}})

    def _finish(self, prompt: OpenPrompt, idle: Frame) -> None:
        self._prompts.remove(prompt)
        if idle.get("stopReason") == "error":
            reason = members(idle.get("error"))
            known = isinstance(reason.get("code"), int) and isinstance(reason.get("message"), str)
            self._end(prompt, None, reason if known else error(INTERNAL_ERROR, "the agent reported an error"))
        else:
            self._end(prompt, to_v1.stop(idle, self._losses), None)

    # Messages

    def _message(self, role: str, update: Frame) -> tuple[str, _Message]:
        message_id = text(update.get("messageId"))
        return message_id, self._messages.setdefault((role, message_id), _Message(message_id))

    def _on_chunk(self, update: Frame) -> None:
        role = _ROLES[update["sessionUpdate"]]
        message_id, message = self._message(role, update)
        message.content.add(members(update.get("content")))
        if role == "user":
            self._seen.setdefault(message_id, self._step)
            if self._is_echo(message_id, message.content):
                return
        made = to_v1.block(update.get("content"), self._losses)
        if made is not None:
            self._send({**update, "messageId": message.shown_id, "content": made})

    def _on_whole(self, update: Frame) -> None:
        role = _ROLES[update["sessionUpdate"]]
        message_id, message = self._message(role, update)
        if role == "user":
            self._seen.setdefault(message_id, self._step)
        if "content" not in update:
            return  # it changes `_meta` only
        blocks = objects(update["content"])
        whole = KnownContent(blocks)
        is_echo = role == "user" and self._is_echo(message_id, whole)
        rest = blocks if not message.content else message.content.rest_of(whole)
        if rest is None:
            # Version 1 cannot take back what was shown: what follows gets an id of its own.
            message.times += 1
            message.shown_id = f"{message_id}~{message.times}"
            self._losses.add("message-replaced" if blocks else "message-cleared")
            rest = blocks
        message.content = whole
        if is_echo:
            return
        for sent_block in to_v1.blocks(rest, self._losses):
            chunk = {"sessionUpdate": _CHUNKS[role], "messageId": message.shown_id, "content": sent_block}
            self._send({**chunk, **kept(update, "_meta")})

    def _is_echo(self, message_id: str, content: KnownContent) -> bool:
        """Whether a message of the user is a prompt of this client, which shows its prompts itself."""
        for prompt in self._prompts:
            if message_id in (prompt.message_id, prompt.echo_id):
                return True
        for prompt in self._prompts:
            if prompt.message_id is None and prompt.echo_id is None and content.rest_of(prompt.content) is not None:
                prompt.echo_id = message_id
                return True
        return False

    # Settings, plans and the rest

    def set_options(self, options: Any) -> list[Frame]:
        """Take the options of a response; return them in version 1's form."""
        self.options = to_v1.config_options(items(options), self._losses, has_booleans=self._gates.booleans)
        return self.options

    def _on_options(self, update: Frame) -> None:
        before = members(to_v1.mode_state(self.options)).get("currentModeId")
        made = self.set_options(update.get("configOptions"))
        self._send({**update, "configOptions": made})
        now = members(to_v1.mode_state(made)).get("currentModeId")
        if isinstance(now, str) and now != before:
            self._send({"sessionUpdate": "current_mode_update", "currentModeId": now})

    def send_commands(self, commands: Any) -> None:
        """Send commands that came with a response: version 1 has them in an update."""
        if isinstance(commands, list) and commands:
            self._on_commands({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    def _on_commands(self, update: Frame) -> None:
        self._send({**update, "availableCommands": to_v1.commands(update.get("availableCommands"), self._losses)})

    def _on_plan(self, update: Frame) -> None:
        plan = members(update.get("plan"))
        if plan.get("type") in ("file", "markdown") and self._gates.plans:
            self._send(update)
            return
        if plan.get("type") != "items":
            self._losses.add("plan-kind")
            return
        self._plans[text(plan.get("planId"))] = to_v1.plan_entries(plan.get("entries"), self._losses)
        if len(self._plans) > 1:
            self._losses.add("several-plans")
        self._send_plan(kept(update, "_meta"))

    def _on_plan_removed(self, update: Frame) -> None:
        if self._plans.pop(text(update.get("planId")), None) is not None:
            self._send_plan({})
        elif self._gates.plans:
            self._send(update)

    def _send_plan(self, more: Frame) -> None:
        entries = [entry for plan in self._plans.values() for entry in plan]
        self._send({"sessionUpdate": "plan", "entries": entries, **more})

    def _gated(self, is_announced: bool, kind: str) -> Callable[[Frame], None]:
        def step(update: Frame) -> None:
            if not is_announced:
                self._losses.add(kind)
                return
            made = update
            if isinstance(update.get("state"), dict):  # the background of a subagent has no place in version 1
                made = {**update, "state": without(update["state"], "background")}
            if isinstance(update.get("content"), dict):
                block = to_v1.block(update["content"], self._losses)
                if block is None:
                    return
                made = {**update, "content": block}
            for name in ("content", "summary"):
                if isinstance(update.get(name), list):
                    made = {**made, name: to_v1.blocks(update[name], self._losses)}
            self._send(made)

        return step
