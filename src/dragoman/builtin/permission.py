"""Permission for tool calls: the rules that apply in a session, and asking the user where they do not decide.

Owns where rules are read from and where an "always" is stored, and the asking: one question at a time, none where no
user can be asked. The options, their meaning and the decision come from `policy.decide`; the caller asks the client.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dragoman.builtin.refusals import refusal_of
from dragoman.errors import ConfigError
from dragoman.policy import Rule, Verdict, judge, parse_rule
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
from dragoman.settings.project import find_project
from dragoman.settings.rule_file import RuleFile
from dragoman.workspace.safety import with_safe_parts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.modes import Mode
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.settings import AgentSettings
    from dragoman.policy import Action, Request
    from dragoman.policy.decide import Decision, Option, RememberScope
    from dragoman.settings import EffectiveSettings
    from dragoman.store.sessions import Store

    AskUser = Callable[[Sequence[Option]], Awaitable[UserAnswer]]

_log = logging.getLogger("dragoman.builtin")


class SessionRules:
    """The rules that apply in one session: the user's, the project's, and answers given in the session."""

    def __init__(self, settings: AgentSettings, store: Store, session_id: str) -> None:
        self._settings = settings
        self._store = store
        self._session_id = session_id
        self._file = RuleFile(settings.rules_file)
        self._answers: list[Rule] = []
        self._files: dict[str, tuple[EffectiveSettings, Sequence[Rule]]] = {}

    async def load(self) -> None:
        """Read the answers given in this session before. Raises: StoreError."""
        for text, action in await self._store.rules(self._session_id):
            self._answers.append(parse_rule(text, action, "session", "an answer in this session"))

    def of(self, project: str) -> Sequence[Rule]:
        """The rules for work in a folder: the user's, what the project's settings deny or want asked, and answers.

        If a file cannot be read it may hold a deny, so everything is asked about until it is mended.
        """
        try:
            return (*self._file.rules(project), *self._settings_of(project)[1], *self._answers)
        except ConfigError as error:
            _log.warning("everything is asked about: %s", error)
            return (Rule("ask", "*", "pinned", "the rules cannot be read"), *self._answers)

    async def remember(self, project: str, rule: str, action: Action, scope: RememberScope) -> None:
        """Store the rule of an "always" answer. Raises: StoreError."""
        if scope == "session":
            await self._store.add_rule(self._session_id, rule, action)
            self._answers.append(parse_rule(rule, action, "session", "an answer in this session"))
            return
        try:
            self._file.remember(rule, action, "project", project)
        except (ConfigError, OSError) as error:
            _log.warning("the answer could not be stored: %s", error)

    def mcp_servers(self, project: str) -> dict[str, Any]:
        """MCP servers of the user's settings, and those of the project that the user accepted."""
        try:
            return {**self._settings_of(project)[0].mcp_servers(), **self._settings.mcp_servers}
        except ConfigError as error:
            _log.warning("the MCP servers of the settings are left out: %s", error)
            return dict(self._settings.mcp_servers)

    def _settings_of(self, project: str) -> tuple[EffectiveSettings, Sequence[Rule]]:
        """The settings files and their rules, read once for each folder. Raises: ConfigError."""
        from dragoman.settings.effective import load_settings

        if project not in self._files:
            settings = load_settings(self._settings.config_dir, find_project(Path(project)))
            self._files[project] = settings, settings.rules()
        return self._files[project]


class ToolPermissions:
    """Permission decisions for the tool calls of one turn.

    Args:
        mode: returns the mode that applies now; the user may change it during the turn.
        roots: the session's folders, the working folder first.
    """

    def __init__(
        self, rules: SessionRules, mode: Callable[[], Mode], roots: Sequence[str], *, can_ask: bool = True
    ) -> None:
        self._rules = rules
        self._mode = mode
        self._roots = tuple(roots)
        self._can_ask = can_ask
        # Two tools that run in parallel would show two questions; and the answer to the first may be "always".
        self._one_question = asyncio.Lock()

    async def decide(self, requests: Sequence[Request], ask: AskUser) -> Decision:
        """Decide one tool call. A call that needs several permissions needs all of them.

        Args:
            requests: everything the call needs permission for; nothing needs none.
            ask: shows the options to the user and returns the answer.

        The reason of a refusal is what the model reads: why, and what would be accepted.
        """
        decision, to_ask, answer = await self._decide(requests, ask)
        return decision if decision.is_allowed else replace(decision, reason=refusal_of(decision, to_ask, answer))

    async def _decide(
        self, requests: Sequence[Request], ask: AskUser
    ) -> tuple[Decision, Sequence[Request], UserAnswer | None]:
        """Return the decision, the requests that no rule decided, and the answer about them."""
        verdict, to_ask = judge_all(requests, self.verdict)
        if to_ask and self._can_ask:
            has_waited = self._one_question.locked()
            async with self._one_question:
                if has_waited:  # the answer to another question may have decided this one too
                    verdict, to_ask = judge_all(requests, self.verdict)
                if to_ask:
                    options = offer_options(to_ask)
                    answer = await ask(options)
                    selection = choose(options, answer.option_id)
                    rule = rule_to_remember(selection.option)
                    if rule is not None:
                        await self._rules.remember(self._roots[0], *rule)
                    return decide_by_answer(to_ask[0], verdict, selection), to_ask, answer
        if to_ask:
            return decide_by_answer(to_ask[0], verdict, Selection(None, NO_USER)), to_ask, None
        return decide_by_rules(requests[0] if requests else None, verdict), (), None

    def verdict(self, request: Request) -> Verdict:
        """What rules and mode state about one request. The user is not asked."""
        mode = self._mode()
        refusal = mode.refusal(request)
        if refusal is not None:
            return Verdict("deny", None, refusal)
        rules = (*self._rules.of(self._roots[0]), *mode.rules(self._roots))
        return judge(rules, with_safe_parts(rules, request, self._roots))
