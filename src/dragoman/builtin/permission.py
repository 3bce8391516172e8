"""Permission for tool calls: the rules that apply in a session, and asking the user where they do not decide.

Owns where rules are read from and where an "always" is stored, and the asking: one question at a time, none where no
user can be asked. The options, their meaning and the decision come from `policy.decide`; the caller asks the client.

`dragoman.policy` is imported by the first decision: until a model has answered, nothing is decided.
"""

from __future__ import annotations

import asyncio
import logging
import os
from copy import copy
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.builtin.placement import OUTSIDE, Placement
from dragoman.builtin.refusals import refusal_of
from dragoman.errors import ConfigError
from dragoman.settings.project import find_project
from dragoman.settings.rule_file import RuleFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.builtin.hooks.answer import Wish
    from dragoman.builtin.placement import Where
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.settings import AgentSettings
    from dragoman.builtin.subagents.declaration import AgentDeclaration
    from dragoman.policy import Action, Request, Rule, Verdict
    from dragoman.policy.decide import Decision, Option, RememberScope
    from dragoman.policy.modes import Mode
    from dragoman.policy.project_code import AnsweredCode
    from dragoman.settings import EffectiveSettings
    from dragoman.store.sessions import Store
    from dragoman.workspace.folders import SessionFolders

    AskUser = Callable[[Sequence[Option]], Awaitable[UserAnswer]]

_log = logging.getLogger("dragoman.builtin")

_ACTIONS: Final = ("allow", "ask", "deny")
_MOST_JUDGED: Final = 16  # requests of a call whose judgement is kept; most calls have one or two
_BOUNDARIES: Final[tuple[Where, ...]] = ("outside", "safe", "sandbox")


class SessionRules:
    """The rules that apply in one session: the user's, the project's, and answers given in the session."""

    def __init__(self, settings: AgentSettings, store: Store, session_id: str) -> None:
        self._settings = settings
        self._store = store
        self._session_id = session_id
        self._file = RuleFile(settings.rules_file)
        self._answers: list[Rule] = []
        self._folders: dict[str, list[Rule]] = {}
        self._files: dict[str, tuple[EffectiveSettings, Sequence[Rule]]] = {}

    @cached_property
    def code(self) -> AnsweredCode:
        """The code of the project that the user permitted."""
        from dragoman.policy.project_code import AnsweredCode

        return AnsweredCode()

    async def load(self) -> None:
        """Read the answers given in this session before. Raises: StoreError."""
        for text, action in await self._store.rules(self._session_id):
            from dragoman.policy import parse_rule

            self._answers.append(parse_rule(text, action, "session", "an answer in this session"))

    def of(self, project: str) -> Sequence[Rule]:
        """Return the rules for work in a folder.

        They are the user's, what the project's settings deny or want asked, and answers.
        If a file cannot be read it may hold a deny, so everything is asked about until it is mended.
        """
        of_folders = chain.from_iterable(self._folders.values())
        try:
            return (*self._file.rules(project), *self._settings_of(project)[1], *self._answers, *of_folders)
        except ConfigError as error:
            from dragoman.policy import Rule

            _log.warning("everything is asked about: %s", error)
            return (Rule("ask", "*", "pinned", "the rules cannot be read"), *self._answers)

    def allow_reading(self, folder: str, why: str) -> None:
        """Permit to read the files of a folder until the session is closed. A deny overrides it, as any rule."""
        from dragoman.policy import Rule
        from dragoman.policy.paths import can_be_named

        for path in dict.fromkeys((folder, os.path.realpath(folder))):
            if can_be_named(path):  # for any other folder the user is asked
                self._folders[path] = [Rule("allow", f"read:{path}{end}", "session", why) for end in ("", "/**")]

    async def remember(self, project: str, rule: str, action: Action, scope: RememberScope) -> None:
        """Store the rule of an "always" answer. Raises: StoreError."""
        from dragoman.policy import parse_rule

        if scope == "session":
            await self._store.add_rule(self._session_id, rule, action)
        # One for the project is in force by its file as well; that it was answered here is known here alone.
        self._answers.append(parse_rule(rule, action, "session", "an answer in this session"))
        if scope == "session":
            return
        try:
            self._file.remember(rule, action, "project", project)
        except (ConfigError, OSError) as error:
            _log.warning("the answer could not be stored: %s", error)

    def mcp_servers(self, project: str) -> dict[str, Any]:
        """Return the MCP servers of the user's settings, and those of the project that the user accepted."""
        try:
            return {**self._settings_of(project)[0].mcp_servers(), **self._settings.mcp_servers}
        except ConfigError as error:
            _log.warning("the MCP servers of the settings are left out: %s", error)
            return dict(self._settings.mcp_servers)

    def subagents(self, project: str) -> tuple[AgentDeclaration, ...]:
        """Return the other ACP agents that the user's settings allow as subagents. A project cannot name any."""
        try:
            user = self._settings_of(project)[0].user
            if not user.subagents:
                return ()
            from dragoman.builtin.subagents.external import declared_in

            return declared_in(user)
        except ConfigError as error:
            _log.warning("the subagents of the settings are left out: %s", error)
            return ()

    def tool_search(self, project: str) -> str:
        """Return when tools of MCP servers are searched instead of listed: `auto`, `on` or `off`."""
        try:
            return self._settings_of(project)[0].user.tool_search
        except ConfigError as error:
            _log.warning("the setting tool_search is left out: %s", error)
            return "auto"

    def settings_of(self, project: str) -> EffectiveSettings:
        """Return the settings of the user and the project. Raises: ConfigError."""
        return self._settings_of(project)[0]

    def _settings_of(self, project: str) -> tuple[EffectiveSettings, Sequence[Rule]]:
        """Return the settings files and their rules, read once for each folder. Raises: ConfigError."""
        from dragoman.settings.effective import load_settings

        if project not in self._files:
            found = find_project(Path(project))
            settings = load_settings(self._settings.config_dir, found)
            rules = settings.rules()
            if rules and str(found) != project:
                from dragoman.policy.rule import anchored

                # The session may be in a folder below the project that the files speak of.
                limiting = [rule for rule in rules if rule.action != "allow"]
                rules += [replace(rule, text=text) for rule in limiting for text in anchored(rule, (str(found),))]
            self._files[project] = settings, rules
        return self._files[project]


class ToolPermissions:
    """Permission decisions for the tool calls of one turn.

    Args:
        mode: returns the mode that applies now; the user may change it during the turn.
        roots: the session's folders, the working folder first.
        ask: asks the user about the call with this id; without it there is no answer.
        asks_about: rules of the client; it is asked about what they concern, because it decides by them.
        runs_safe_commands: whether safe commands need no permission.
        has_sandbox: whether mode `auto` can run commands in a sandbox.
    """

    def __init__(
        self,
        rules: SessionRules,
        mode: Callable[[], Mode],
        roots: Sequence[str],
        *,
        ask: Callable[[str, Sequence[Option]], Awaitable[UserAnswer]] | None = None,
        can_ask: bool = True,
        asks_about: Sequence[Rule] = (),
        runs_safe_commands: bool = True,
        has_sandbox: bool = False,
    ) -> None:
        self._rules = rules
        self._mode = mode
        self._roots = tuple(roots)
        self.ask = ask or _no_answer
        self._can_ask = can_ask
        self._asks_about = tuple(asks_about)
        self._runs_safe_commands = runs_safe_commands
        self._has_sandbox = has_sandbox
        # Two tools that run in parallel would show two questions; and the answer to the first may be "always".
        self._one_question = asyncio.Lock()
        self._judged: dict[Request, tuple[object, _Judged]] | None = None
        self.placement = OUTSIDE
        """Where the command of this call runs; set by `decide`."""

    def for_call(self) -> ToolPermissions:
        """Return the permissions of one call. They keep where its command runs and, until then, what was judged."""
        own = copy(self)
        own._judged = {}
        return own

    def narrowed(
        self, mode: Mode | None, ask: Callable[[str, Sequence[Option]], Awaitable[UserAnswer]] | None = None
    ) -> ToolPermissions:
        """Return the permissions of a subagent: what is permitted here and, if it has a mode of its own, there too."""
        narrowed = NarrowedPermissions(self, mode)
        narrowed.ask = ask or self.ask
        return narrowed

    async def decide(self, requests: Sequence[Request], ask: AskUser, *, wish: Wish = "") -> Decision:
        """Decide one tool call. A call that needs several permissions needs all of them.

        Args:
            requests: everything the call needs permission for; nothing needs none.
            ask: shows the options to the user and returns the answer.
            wish: what a hook of the user's wants: to permit what no rule concerns, or to ask about a permitted call.

        The reason of a refusal is what the model reads: why, and what would be accepted.
        """
        return await self._decide(requests, partial(self._judge_with, wish) if wish else self._judge, ask)

    async def decide_outside(self, request: Request, ask: AskUser) -> Decision:
        """Decide whether a command that failed in the sandbox may run outside it."""
        return await self._decide((request,), lambda asked: self._judge_outside(asked, self._terms()), ask)

    async def _decide(
        self, requests: Sequence[Request], judge_one: Callable[[Request], _Judged], ask: AskUser
    ) -> Decision:
        from dragoman.policy.decide import NO_USER, Selection, decide_by_answer, decide_by_rules, judge_all
        from dragoman.workspace.judging import off_loop_if_long

        placements: list[Placement] = []

        def verdict_of(request: Request) -> Verdict:
            judged = judge_one(request)
            placements.append(Placement(judged.where, is_exception=self._is_sandboxing and judged.where != "sandbox"))
            if judged.verdict.project is None or judged.where == "sandbox":
                return judged.verdict
            return self._rules.code.ask_about(judged.verdict, has_user=self._can_ask)

        verdict, to_ask = await off_loop_if_long(requests, judge_all, requests, verdict_of)
        self._judged = None  # a question may take hours: what is judged later is judged by the files of that time
        if to_ask and self._can_ask:
            has_waited = self._one_question.locked()
            async with self._one_question:
                if has_waited:  # the answer to another question may have decided this one too
                    placements.clear()
                    verdict, to_ask = await off_loop_if_long(requests, judge_all, requests, verdict_of)
                if to_ask:
                    return await self._ask(verdict, to_ask, ask)
        if to_ask:
            decision = decide_by_answer(to_ask[0], verdict, Selection(None, NO_USER))
            return replace(decision, reason=refusal_of(decision, to_ask))
        self.placement = placements[0] if placements else OUTSIDE
        decision = decide_by_rules(requests[0] if requests else None, verdict)
        return decision if decision.is_allowed else replace(decision, reason=refusal_of(decision))

    async def _ask(self, verdict: Verdict, to_ask: Sequence[Request], ask: AskUser) -> Decision:
        """Ask the user. A command that the user permits runs outside, as it was shown."""
        from dragoman.policy.decide import choose, common_proposals, decide_by_answer, offer_options, rule_to_remember
        from dragoman.workspace.judging import off_loop_if_long

        options = offer_options(await off_loop_if_long(to_ask, common_proposals, to_ask, verdict))
        if self._is_sandboxing and to_ask[0].kind == "execute":
            options = tuple(_with_outside(option) for option in options)
        answer = await ask(options)
        selection = choose(options, answer.option_id)
        rule = rule_to_remember(selection.option)
        if rule is not None:
            await self._rules.remember(self._roots[0], *rule)
        permitted = tuple(path for request in to_ask for path in protected_names(request))
        self.placement = Placement("outside", permitted, is_exception=self._is_sandboxing)
        decision = decide_by_answer(to_ask[0], verdict, selection)
        if decision.is_allowed:
            if verdict.project is not None:
                self._rules.code.note(verdict)
            return decision
        return replace(decision, reason=refusal_of(decision, to_ask, answer))

    def verdict(self, request: Request) -> Verdict:
        """Return what rules and mode state about one request. The user is not asked."""
        return self._judge(request).verdict

    def verdict_of_rules(self, request: Request) -> Verdict:
        """Return what the rules alone state about a request of the user's own, whatever the mode forbids the agent."""
        from dragoman.workspace.judging import judge_with_facts

        return judge_with_facts(self._rules_now(self._mode()), request, self._folders()).verdict

    def _folders(self) -> SessionFolders:
        """Return the folders of the session, resolved again for each request: links may change between two of them."""
        from dragoman.workspace.folders import SessionFolders

        return SessionFolders(self._roots[0], self._roots[1:])

    def rules_in_force(self) -> tuple[Rule, ...]:
        """Return the rules of this moment for another agent that runs in the sandbox.

        What the mode forbids is denied.
        """
        from dragoman.policy import Rule

        mode = self._mode()
        inside = (Rule("allow", "execute:*", "flag", "the sandbox"),) if mode.is_sandboxed else ()
        return (*self._rules_now(mode), *inside, *_denials(mode))

    @property
    def _is_sandboxing(self) -> bool:
        return self._has_sandbox and self._mode().is_sandboxed

    def _judge(self, request: Request) -> _Judged:
        """Judge a request; as it was judged before in this call, if neither the rules nor the mode have changed."""
        terms, judged_before = self._terms(), self._judged
        kept = None if judged_before is None else judged_before.get(request)
        if kept is not None and kept[0] == terms:
            return kept[1]
        judged = self._judge_by(request, terms)
        if judged_before is not None and len(judged_before) < _MOST_JUDGED:
            judged_before[request] = terms, judged
        return judged

    def _terms(self) -> Any:
        """Return what a judgement depends on besides the disk; here the mode and the rules."""
        mode = self._mode()
        return mode, self._rules_now(mode)

    def _judge_by(self, request: Request, terms: Any) -> _Judged:
        from dragoman.policy import Verdict

        judged = self._judge_outside(request, terms)
        if request.kind != "execute" or judged.verdict.action == "allow" or not judged.is_free:
            return judged
        if self._is_sandboxing:
            return _Judged(Verdict("allow", None, "it runs in the sandbox (mode auto)"), "sandbox")
        if self._runs_safe_commands and self._is_safe(request, terms[1]):
            return _Judged(Verdict("allow", None, "the command only reads files of the project"), "safe")
        return judged

    def _judge_with(self, wish: Wish, request: Request) -> _Judged:
        from dragoman.policy import Verdict

        judged = self._judge(request)
        if wish == "allow" and judged.verdict.action == "allow":
            return replace(judged, verdict=replace(judged.verdict, project=None))
        if wish == "allow" and judged.verdict.action == "ask" and judged.is_free:
            return replace(judged, verdict=Verdict("allow", None, "a hook of the user's permits it"))
        if wish == "ask" and judged.verdict.action == "allow":
            return replace(judged, verdict=Verdict("ask", None, "a hook of the user's wants it to be asked about"))
        return judged

    def _judge_outside(self, request: Request, terms: Any) -> _Judged:
        """Judge by rules and mode alone, without the sandbox and the list of safe commands."""
        from dragoman.policy import Verdict
        from dragoman.policy.rule import SAFE, read_pattern
        from dragoman.workspace.judging import judge_with_facts

        mode, rules = terms
        verdict = judge_with_facts(rules, request, self._folders()).verdict
        refusal = mode.refusal(request)
        if refusal is not None:
            is_free = verdict.action == "allow" or verdict.is_uncovered
            return _Judged(Verdict("deny", None, refusal), is_free=is_free)
        # A rule `safe` of the user's permits what our own list does; it runs in the same way.
        by_safe = verdict.rule is not None and read_pattern(verdict.rule.text).kind == SAFE
        where: Where = "safe" if verdict.action == "allow" and by_safe and self._is_safe(request, rules) else "outside"
        return _Judged(verdict, where, is_free=verdict.is_uncovered)

    def _rules_now(self, mode: Mode) -> tuple[Rule, ...]:
        return (*self._rules.of(self._roots[0]), *self._asks_about, *mode.rules(self._roots))

    def _is_safe(self, request: Request, rules: tuple[Rule, ...]) -> bool:
        """Whether a command consists of safe commands only; no deny and no ask of the user concerns it."""
        from dragoman.policy import Rule
        from dragoman.policy.rule import SAFE
        from dragoman.workspace.judging import with_facts

        rules = (*rules, Rule("allow", SAFE, "flag", "safe commands"))
        asked = with_facts(rules, request, self._folders())
        parts = asked.reading.parts
        return bool(parts) and len(asked.safe_parts) == len(parts)


class NarrowedPermissions(ToolPermissions):
    """The permissions of a subagent, never wider than those of the agent that started it.

    Every request is judged by the parent's rules and its mode of this moment, and again with the subagent's own mode
    in its place; the stricter verdict counts. So a deny of either stays a deny, whatever the other allows.
    """

    def __init__(self, parent: ToolPermissions, mode: Mode | None) -> None:
        self.__dict__.update(parent.__dict__)  # with the lock: one question at a time, of all agents
        self._parent = parent
        self._base: ToolPermissions = parent._base if isinstance(parent, NarrowedPermissions) else parent
        self._own: ToolPermissions | None = None
        if mode is not None:
            self._own = copy(self._base)
            self._own._mode = lambda: mode
        self._judged = None  # the parent's judgements are not these
        self.placement = OUTSIDE

    def rules_in_force(self) -> tuple[Rule, ...]:
        """Return the rules, as for its parent.

        A mode of its own only takes away, so that what it does not allow is asked about.
        """
        if self._own is None:
            return self._parent.rules_in_force()
        own = self._own._mode()
        denials = [rule for rule in self._parent.rules_in_force() if rule.action != "allow"]
        return (*self._rules.of(self._roots[0]), *denials, *_denials(own))

    @property
    def _is_sandboxing(self) -> bool:
        return self._parent._is_sandboxing or (self._own is not None and self._own._is_sandboxing)

    def _terms(self) -> Any:
        return self._parent._terms(), None if self._own is None else self._own._terms()

    def _judge_by(self, request: Request, terms: Any) -> _Judged:
        judged = self._parent._judge_by(request, terms[0])
        return judged if self._own is None else _stricter(judged, self._own._judge_by(request, terms[1]))

    def _judge_outside(self, request: Request, terms: Any) -> _Judged:
        judged = self._parent._judge_outside(request, terms[0])
        return judged if self._own is None else _stricter(judged, self._own._judge_outside(request, terms[1]))


class _Judged(Struct, frozen=True):
    """A verdict, and where a command may run because of it.

    `is_free` states that no rule of the user wants a refusal or a question: a boundary may replace the permission.
    """

    verdict: Verdict
    where: Where = "outside"
    is_free: bool = False


async def _no_answer(tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
    return UserAnswer()


def _denials(mode: Mode) -> tuple[Rule, ...]:
    """Return what a mode forbids, as rules."""
    from dragoman.policy import Rule
    from dragoman.policy.rule import KINDS

    return tuple(Rule("deny", kind, "flag", f"mode {mode.id}") for kind in sorted(mode.forbids) if kind in KINDS)


def _stricter(one: _Judged, other: _Judged) -> _Judged:
    """Return the stricter of two verdicts; of two that allow a command, the one with the narrower boundary."""
    if one.verdict.action == other.verdict.action == "allow":
        return other if _BOUNDARIES.index(other.where) > _BOUNDARIES.index(one.where) else one
    return other if _ACTIONS.index(other.verdict.action) > _ACTIONS.index(one.verdict.action) else one


def _with_outside(option: Option) -> Option:
    from dragoman.policy.decide import is_allowing

    if not is_allowing(option.kind):
        return option
    scope, colon, rule = option.label.partition(": ")
    return replace(option, label=f"{scope}, outside the sandbox{colon}{rule}")


def protected_names(request: Request) -> tuple[str, ...]:
    """Return the protected files that a command names; the user who permits it has seen them."""
    from dragoman.policy.paths import MAX_PATH, is_protected, normalise

    if request.kind != "execute":
        return ()
    named = [path for part in request.reading.parts for path in part.written]
    named += [
        normalise(word.path, folder, request.home)
        for part in request.reading.parts
        for word in part.command.words[1:]
        for folder in part.folders
        if word.fixed is None and len(word.text) < MAX_PATH
    ]
    return tuple(dict.fromkeys(path for path in named if is_protected(path, request.root, request.home)))
