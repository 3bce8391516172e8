"""The client of an open session: what it is shown, and how it is asked.

Owns the way from the session's chunks to this client's updates, and from its answers back. A client that takes a
session over during a turn is shown the turn from its beginning, so each viewer has a projector of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.agent.permission import ask_permission
from dragoman.builtin.access import LocalAccess
from dragoman.builtin.command_guard import CommandGuard
from dragoman.builtin.models.catalogue import facts_of
from dragoman.builtin.models.choice import describe, effort_for, efforts_of
from dragoman.builtin.permission import ToolPermissions
from dragoman.builtin.refusals import UserAnswer
from dragoman.builtin.replay import new_projector, stored_updates, without_terminal
from dragoman.errors import CapabilityError, ConfigError, RequestError
from dragoman.schema import v1
from dragoman.store.ids import new_id
from dragoman.uistream.chunks import Data, Start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.agent import AgentSession
    from dragoman.builtin.permission import SessionRules
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.turn import TurnEnd
    from dragoman.policy import Rule
    from dragoman.policy.decide import Option
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import UIMessage

_EFFORTS: Final = {
    "none": "None",
    "minimal": "Minimal",
    "low": "Low",
    "medium": "Medium",
    "high": "High",
    "xhigh": "Very high",
    "max": "Maximum",
}
ASKS_ABOUT: Final = "asks_about"
"""Name of the client's rules in the `extra` of its session."""
# Updates of the past that are sent before others get a turn: about a millisecond's work.
_TOGETHER: Final = 64


def notice_chunk(severity: str, title: str, description: str) -> Data:
    """Return a notice that does not belong to a turn, as a chunk."""
    return Data("notice", {"severity": severity, "title": title, "description": description}, transient=True)


class Viewer:
    """A client of an open session. What happens before `join` has shown the past waits until then."""

    def __init__(self, open_session: OpenSession, session: AgentSession) -> None:
        """Args:
        session: the session as this client opened it, with its own folder and services.
        """
        self.open_session = open_session
        self.session = session
        self.cwd = session.cwd
        self.roots = session.roots
        self.guard = CommandGuard(session.roots, open_session.settings, lambda: open_session.rules.of(session.roots[0]))
        self.local_access = LocalAccess(session.roots, self.guard)
        """File and command access that does not end with a turn: the client is not used."""
        self._shows_compactions = session.client.offers("session.compaction")
        self._projector = new_projector(starts_on_input=False, shows_compactions=self._shows_compactions)
        # Taken in one step with the registration as the session's client, so that nothing is missed and nothing is in
        # both.
        self._past_until = open_session.past.until
        self._history = tuple(open_session.history)
        self._live = open_session.live_chunks
        self._turn_before = None if open_session.turn is None else open_session.turn.message.id
        """The turn that ran when this client came: its terminals are those of the client before."""
        self._has_terminals = self._turn_before is None
        self._waiting: list[Sequence[Chunk]] | None = []
        self._joined = asyncio.Event()
        session.on_cancel = self._cancel

    # Showing

    async def join(self, *, repeats_history: bool = False) -> None:
        """Show the past, if wanted, and the running turn from its beginning; then what happened in the meantime."""
        history, self._history, live, self._live = self._history, (), self._live, ()
        try:
            if repeats_history:
                async for page in self.open_session.past.pages(self._past_until):
                    await self._replay(page)
                await self._replay(history)
            await self._project(live)
            while self._waiting:
                await self._project(self._waiting.pop(0))
            self._waiting = None
        finally:
            self._joined.set()  # also if it failed: a question must not wait for a client that never came

    async def show_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Show chunks of the running turn."""
        if self._waiting is not None:
            self._waiting.append(chunks)
        else:
            await self._project(chunks)

    async def show(self, update: v1.SessionUpdate) -> None:
        """Send an update, if this client can show that kind."""
        with suppress(CapabilityError):
            await self.session.update(update)

    async def notify(self, severity: str, title: str, description: str) -> None:
        """Show a notice that does not belong to a turn, in its place among the other updates."""
        await self.show_chunks([notice_chunk(severity, title, description)])

    async def show_options(self) -> None:
        """Send the config options with their current values."""
        await self.session.config_options(config_options(self.open_session))

    def stop_reason(self, end: TurnEnd) -> str:
        """Return why the turn that was just shown ended."""
        return "cancelled" if end.was_cancelled else self._projector.stop_reason or "end_turn"

    async def _project(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, Start):
                self._projector = new_projector(starts_on_input=False, shows_compactions=self._shows_compactions)
                self._has_terminals = chunk.message_id != self._turn_before
            for update in self._projector.project(chunk if self._has_terminals else without_terminal(chunk)):
                if isinstance(update, v1.Notice):
                    await self._notify(update)
                else:
                    await self.show(update)

    async def _notify(self, notice: v1.Notice) -> None:
        await self.session.update(self.form_of(notice))

    def form_of(self, notice: v1.Notice) -> v1.SessionUpdate:
        """Return the notice, or a line of thought if this client cannot show notices."""
        if self.session.client.offers("session.notices"):
            return notice
        line = f"{notice.title}. {notice.description}" if notice.description else notice.title
        # A message of its own, and a line of its own for clients that join all thoughts.
        return v1.AgentThoughtChunk(v1.TextContent(f"{line}\n"), new_id("msg"))

    async def _replay(self, messages: Sequence[UIMessage]) -> None:
        """Repeat messages of the conversation (rule 107)."""
        updates: list[v1.SessionUpdate] = []
        for message in messages:
            updates += stored_updates(message, shows_compactions=self._shows_compactions)
            if len(updates) >= _TOGETHER:
                await self.session.update_all(updates)
                updates.clear()
        await self.session.update_all(updates)

    def _cancel(self) -> None:
        """Cancel what runs in the session, whichever client sent it. A client that lost the session does not decide."""
        if not self.is_replaced:
            self.open_session.cancel()

    # Asking, and access for tools

    @property
    def is_connected(self) -> bool:
        return self.session.client.is_connected

    @property
    def is_replaced(self) -> bool:
        """Whether another client has taken the session over."""
        return self.open_session.viewer not in (self, None)

    @property
    def is_headless(self) -> bool:
        """Whether this client announced that no user can be asked anything: `_meta.dragoman.headless`."""
        meta = self.session.client.capabilities.meta
        ours = meta.get("dragoman") if isinstance(meta, dict) else None
        return isinstance(ours, dict) and ours.get("headless") is True

    async def ready(self) -> None:
        """Return when this client can be asked: it knows the session, and was shown the call that a question is about.

        A client that takes the session over during a turn is often asked at once.
        """
        await self._joined.wait()
        await self.session.wait_until_open()

    async def ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        """Send a permission request about a call that this client was shown, and return the answer."""
        await self.ready()  # before, the projector does not have the call
        return await self.ask_about(self._projector.calls.patch(tool_call_id), options)

    async def ask_about(self, call: v1.ToolCallPatch, options: Sequence[Option]) -> UserAnswer:
        """Send a permission request about a call, as that of a subagent, and return the answer."""
        offered = [
            v1.PermissionOption(
                option.id,
                option.label,
                option.kind,
                meta=UNSET if option.rule is None else {"dragoman": self._kept(option)},
            )
            for option in options
        ]
        await self.ready()
        answer = await ask_permission(self.session, call, offered)
        return UserAnswer(answer.option_id, answer.decided_by, answer.reason)

    def _kept(self, option: Option) -> dict[str, str | None]:
        """Return what an answer writes, as clients of ours show it."""
        file = {"file": str(self.open_session.settings.rules_file)} if option.scope == "project" else {}
        return {"rule": option.rule, "kept": option.scope, **file}

    def permissions(self, rules: SessionRules) -> ToolPermissions:
        """Return the permissions for the tool calls of a turn that this client started."""
        settings, session = self.open_session.settings, self.open_session
        return ToolPermissions(
            rules,
            lambda: session.mode,
            self.roots,
            ask=session.ask,
            asks_about=self.session.extra.get(ASKS_ABOUT, ()),
            runs_safe_commands=settings.safe_commands,
            has_sandbox=self.guard.has_sandbox,
        )

    @property
    def shows_subagents(self) -> bool:
        """Whether this client is shown the sessions of subagents, which the protocol may still change."""
        return self.open_session.settings.unstable and self.session.client.offers("subagents")


def mode_state(session: OpenSession) -> v1.SessionModeState:
    """Return the modes of a session, for the responses that open one."""
    modes = [v1.SessionMode(mode.id, mode.name, mode.description) for mode in session.modes]
    return v1.SessionModeState(session.mode.id, modes)


def config_options(session: OpenSession) -> list[v1.SessionConfigOption]:
    """Return the config options of a session.

    They are the modes again, the models, and how much the model thinks, if it can.
    """
    mode = [v1.SessionConfigSelectOption(choice.id, choice.name, choice.description) for choice in session.modes]
    model = [_model_option(name) for name in session.model_names]
    options: list[v1.SessionConfigOption] = [
        v1.SessionConfigSelect("mode", "Mode", session.mode.id, mode, category="mode"),
        v1.SessionConfigSelect("model", "Model", session.model_name, model, category="model"),
    ]
    chosen = effort_for(session.model_name, session.row.effort)
    if chosen is not None:
        effort = [v1.SessionConfigSelectOption(level, _EFFORTS[level]) for level in efforts_of(session.model_name)]
        options.append(v1.SessionConfigSelect("effort", "Thinking effort", chosen, effort, category="thought_level"))
    return options


def _model_option(name: str) -> v1.SessionConfigSelectOption:
    facts = facts_of(name)
    if facts is None:
        return v1.SessionConfigSelectOption(name, name)
    return v1.SessionConfigSelectOption(name, facts.title or name, describe(facts) or UNSET)


def turn_state(session: OpenSession) -> dict[str, Any]:
    """Return whether a turn is running, for the `_meta` of load and resume."""
    return {"dragoman": {"turn": {"active": session.turn is not None, "state": session.state}}}


_SOURCE: Final = "a rule of the client"
_MOST_RULES: Final = 10_000


def read_client_rules(meta: Mapping[str, Any] | Any) -> tuple[Rule, ...]:
    """Read what a client wants to be asked about, although this agent would do it without asking.

    Much of what this agent does is not visible to a client before it happens: safe commands, commands in the sandbox,
    searches. So a client with rules of its own, as `dragoman exec --deny` has, names them in the `_meta` of the request
    that opens a session, and decides about each request that they concern. They can only restrict.

    Raises: RequestError if one is not valid.
    """
    ours = meta.get("dragoman") if isinstance(meta, dict) else None
    texts = ours.get("asksAbout", []) if isinstance(ours, dict) else []
    path = "$._meta.dragoman.asksAbout"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > _MOST_RULES:
        raise RequestError.invalid_params(f"asksAbout must be a list of at most {_MOST_RULES} rules", path=path)
    if not texts:
        return ()
    from dragoman.policy import parse_rule

    try:
        return tuple(parse_rule(text, "ask", "flag", _SOURCE) for text in texts)
    except ConfigError as error:
        raise RequestError.invalid_params(str(error), path=path) from error
