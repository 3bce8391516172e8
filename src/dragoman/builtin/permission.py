"""Asks the user about the tool calls that rules and mode do not decide.

Owns the asking: one question at a time, none where no user can be asked, and answers of "always" passed on to be
stored. The options, their meaning and the decision come from `policy.decide`; which client is asked, and how, is the
caller's concern.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.policy import Verdict, judge, parse_rule
from dragoman.policy.decide import (
    NO_USER,
    Selection,
    choose,
    decide_by_answer,
    decide_by_rules,
    judge_all,
    offer_options,
    rule_to_remember,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.modes import Mode
    from dragoman.policy import Action, Request, Rule
    from dragoman.policy.decide import Decision, Option, RememberScope

    AskUser = Callable[[Sequence[Option]], Awaitable[str | None]]


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
        # Two tools that run in parallel would show two questions; and the answer to the first may be "always".
        self._one_question = asyncio.Lock()

    async def decide(self, requests: Sequence[Request], ask: AskUser) -> Decision:
        """Decide one tool call. A call that needs several permissions needs all of them.

        Args:
            requests: everything the call needs permission for; nothing needs none.
            ask: shows the options to the user and returns the id of the chosen one, None without an answer.
        """
        verdict, to_ask = judge_all(requests, self.verdict)
        if to_ask and self._can_ask:
            async with self._one_question:
                verdict, to_ask = judge_all(requests, self.verdict)  # the last answer may have settled this too
                if to_ask:
                    options = offer_options(to_ask)
                    selection = choose(options, await ask(options))
                    rule = rule_to_remember(selection.option)
                    if rule is not None:
                        await self._remember(*rule)
                    return decide_by_answer(to_ask[0], verdict, selection)
        if to_ask:
            return decide_by_answer(to_ask[0], verdict, Selection(None, NO_USER))
        return decide_by_rules(requests[0] if requests else None, verdict)

    def verdict(self, request: Request) -> Verdict:
        """What rules and mode state about one request. The user is not asked."""
        mode = self._mode()
        refusal = mode.refusal(request)
        if refusal is not None:
            return Verdict("deny", None, refusal)
        return judge((*self._rules(), *mode.rules(self._roots)), request)


def session_rules(kept: Sequence[tuple[str, str]]) -> tuple[Rule, ...]:
    """Remembered answers of a session, as the store has them, as rules."""
    return tuple(parse_rule(text, action, "session", "an answer in this session") for text, action in kept)
