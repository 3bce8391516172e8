"""Decides whether a tool call may run: by rule, by mode, or by asking the user.

Owns the decision, the four answers a user can give and what "always" then means. The rules themselves are judged by
`policy`; which client is asked, and how, is not known here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.policy import Action, Rule, Verdict, judge, parse_rule, proposals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.modes import Mode
    from dragoman.policy import Request

    AskUser = Callable[[Sequence["Option"]], Awaitable[str | None]]

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
RememberScope = Literal["session", "project"]


class Option(Struct, frozen=True):
    """One answer. `rule` is what an "always" would write, `scope` for how long."""

    id: str
    label: str
    kind: OptionKind
    rule: str | None = None
    scope: RememberScope | None = None


class Decision(Struct, frozen=True):
    """Whether a tool may run; `reason` is for the model and the record."""

    is_allowed: bool
    reason: str
    was_asked: bool = False


class ToolPermissions:
    """Permission decisions for the tool calls of one turn. `remember` stores what an "always" means."""

    def __init__(
        self,
        rules: Callable[[], Sequence[Rule]],
        mode: Callable[[], Mode],
        roots: Sequence[str],
        *,
        remember: Callable[[str, Action, RememberScope], Awaitable[None]],
        can_ask: bool = True,
    ) -> None:
        self._rules = rules
        self._mode = mode
        self._roots = tuple(roots)
        self._remember = remember
        self._can_ask = can_ask
        # Side by side, two tools would put two questions on the screen; and the answer to the first may be "always".
        self._one_question = asyncio.Lock()

    async def decide(self, requests: Sequence[Request], ask: AskUser) -> Decision:
        """Decide one tool call. A call that needs several permissions needs all of them.

        Args:
            requests: everything the call needs permission for; nothing needs none.
            ask: shows the options to the user and returns the id of the chosen one, None without an answer.
        """
        decision = self._without_asking(requests)
        if decision is not None:
            return decision
        if not self._can_ask:
            return Decision(False, f"{self._to_ask(requests)[1].why}, and nobody can be asked")
        async with self._one_question:
            decision = self._without_asking(requests)  # the last answer may have settled this too
            if decision is not None:
                return decision
            return await self._with_asking(requests, ask)

    def verdict(self, request: Request) -> Verdict:
        """What rules and mode say about something a tool finds while it works. The user is not asked."""
        return self._verdict(request, self._mode())

    def _without_asking(self, requests: Sequence[Request]) -> Decision | None:
        """The decision, if rules and mode alone make it."""
        mode = self._mode()
        verdicts = [self._verdict(request, mode) for request in requests]
        for verdict in verdicts:
            if verdict.action == "deny":
                return Decision(False, verdict.why)
        if all(verdict.action == "allow" for verdict in verdicts):
            return Decision(True, "; ".join(verdict.why for verdict in verdicts) or "it needs no permission")
        return None

    def _verdict(self, request: Request, mode: Mode) -> Verdict:
        refusal = mode.refusal(request)
        if refusal is not None:
            return Verdict("deny", None, refusal)
        return judge((*self._rules(), *mode.rules(self._roots)), request)

    def _to_ask(self, requests: Sequence[Request]) -> tuple[list[Request], Verdict]:
        mode = self._mode()
        asked = [
            (request, verdict) for request in requests if (verdict := self._verdict(request, mode)).action == "ask"
        ]
        return [request for request, _ in asked], asked[0][1]

    async def _with_asking(self, requests: Sequence[Request], ask: AskUser) -> Decision:
        asked, verdict = self._to_ask(requests)
        options = options_for(asked)
        chosen_id = await ask(options)
        chosen = next((option for option in options if option.id == chosen_id), None)
        if chosen is None:
            return Decision(False, "the user did not answer", was_asked=True)
        is_yes = chosen.kind.startswith("allow")
        if chosen.rule is not None and chosen.scope is not None:
            await self._remember(chosen.rule, "allow" if is_yes else "deny", chosen.scope)
        return Decision(is_yes, f"{'allowed' if is_yes else 'refused'} by the user ({verdict.why})", was_asked=True)


def options_for(requests: Sequence[Request]) -> tuple[Option, ...]:
    """What a person can answer: once, or always where one rule can say what that would mean."""
    texts = proposals(requests[0]) if len(requests) == 1 else ()
    options = [Option("allow-once", "Allow once", "allow_once")]
    for number, text in enumerate(texts[:2]):
        options.append(
            Option(f"allow-always-{number + 1}", f"Always allow {describe_rule(text)}", "allow_always", text, "project")
        )
    options.append(Option("reject-once", "Reject", "reject_once"))
    if texts:
        label = f"Always reject {describe_rule(texts[0])} in this session"
        options.append(Option("reject-always", label, "reject_always", texts[0], "session"))
    return tuple(options)


def describe_rule(text: str) -> str:
    """What a rule covers, in words for a button."""
    kind, _, pattern = text.partition(":")
    if kind == "execute":
        if pattern.endswith(" *"):
            return f"`{pattern[:-2]}` with any arguments"
        return f"`{pattern}`"
    if kind == "mcp":
        server, _, tool = pattern.partition(":")
        return f"`{tool}` of {server}" if tool else f"every tool of {server}"
    if kind == "fetch":
        return f"fetching from {pattern}"
    verb = {"edit": "edits of", "read": "reading", "delete": "deleting", "move": "moving", "search": "searching"}
    return f"{verb.get(kind, kind)} {pattern}" if pattern else verb.get(kind, kind)


def session_rules(kept: Sequence[tuple[str, str]]) -> tuple[Rule, ...]:
    """Remembered answers of a session, as the store has them, as rules."""
    return tuple(parse_rule(text, action, "session", "an answer in this session") for text, action in kept)
