"""Decides about every permission, file and command that an agent asks its client for.

A rule of the user decides; otherwise the user is asked; where no user can be asked, the request is cancelled. This
module asks, remembers what a permission covers in the rest of its turn, and records all decisions. Rules and options
are defined in `dragoman.policy`, an `Asker` shows the question, and nothing is written to disk here.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.permission_request import could_concern, describe, settle_evidence, settle_paths
from dragoman.client.turn_permissions import TurnPermissions
from dragoman.errors import ConfigError, RequestError
from dragoman.policy import Rule, Verdict, judge, parse_rule, proposals
from dragoman.policy.decide import (
    ASKING_FAILED,
    CANCELLED,
    NO_USER,
    TIMEOUT,
    TURN_PERMISSION,
    Decision,
    Option,
    Selection,
    choose,
    decide_by_answer,
    decide_by_rules,
    judge_all,
    offer_short_options,
    option_for,
    read_option,
    rule_to_remember,
)
from dragoman.policy.paths import is_below
from dragoman.schema import UNSET, v1
from dragoman.text.terminal import shorten
from dragoman.workspace.safety import with_safe_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client.permission_request import Evidence
    from dragoman.client.session import Session
    from dragoman.policy import Action, Request, Scope
    from dragoman.workspace import Change

    Remember: TypeAlias = Callable[[str, Action, Scope], None]

_log = logging.getLogger("dragoman.client")

Answer: TypeAlias = str | None
"""The id of the chosen option, None when none was chosen."""

# A long session makes thousands of decisions; programs show the latest ones.
_MOST_DECISIONS: Final = 10_000
_READING: Final = "reading a file of the project needs no rule"
# An error is one sentence; a command line may be a page.
_ERROR_CHARACTERS: Final = 120


class Question(Struct, frozen=True):
    """A question for the user, with everything there is to show. Its text is the agent's: escape it before showing.

    `also` holds further requests that the same answer decides, such as a second command of one tool call. `proposals`
    are the rules that "always" may write here: the first one is written. There are none if the agent asked, because
    then the agent remembers the answer.
    """

    permission: v1.RequestPermissionRequest
    request: Request
    why: str
    diffs: tuple[v1.Diff, ...] = ()
    argv: tuple[str, ...] | None = None
    shell: str | None = None
    cwd: str = ""
    env: Mapping[str, str] = {}
    proposals: tuple[str, ...] = ()
    also: tuple[Request, ...] = ()


class Asker(Protocol):
    """A user interface that can ask the user."""

    async def ask(self, question: Question, session: Session) -> Answer:
        """Return the id of the option the user chose, None for none.

        May be cancelled at any time, because the turn was cancelled or the time to answer has passed.
        """


class ClientPermissions:
    """Permission decisions for the sessions of one agent.

    `permission` is the service for `session/request_permission`; `check` is what the file and terminal services call
    before they act.

    Args:
        rules: the user's rules; a callable is called for each request, so that changed rules count at once.
        agent: the agent's name, as rules state it in `AGENT@KIND`.
        asker: asks the user; None answers every open question with no.
        remember: stores the rule that an answer of "always" writes.
        ask_seconds: how long the user may take to answer; None sets no limit.
        on_decision: called with each decision.
        root: the project's folder, if that is not the session's folder.
    """

    def __init__(
        self,
        rules: Callable[[], Sequence[Rule]] | Sequence[Rule],
        *,
        agent: str,
        asker: Asker | None = None,
        remember: Remember | None = None,
        ask_seconds: float | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        root: str | None = None,
    ) -> None:
        self.agent: Final = agent
        self.decisions: list[Decision] = []
        self._rules = rules
        self._remembered: list[Rule] = []  # answers of "always" since this object was made
        self._asker = asker
        self._remember = remember
        self._ask_seconds = ask_seconds
        self._on_decision = on_decision
        self._root = root
        self._turn_permissions = TurnPermissions()
        self._numbers = itertools.count(1)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: the given ones and those that answers of "always" added."""
        given = self._rules() if callable(self._rules) else self._rules
        return (*given, *self._remembered)

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer `session/request_permission`; None is the outcome `cancelled`."""
        root = self._root if self._root is not None else session.cwd
        tool_call_id = request.tool_call.tool_call_id
        found = describe(request, session.state, session.announced(tool_call_id), agent=self.agent, root=root)
        evidence = settle_evidence(found, session, agent=self.agent, root=self._root)
        verdict, first = self._judge(evidence, session)
        # The agent asked, so an "always" is the agent's to remember: a rule here would be a second one.
        options = [read_option(each.option_id, each.name, each.kind, ()) for each in request.options]
        option = option_for(verdict, options)
        if verdict.action == "deny" or option is not None:
            decision = self._record(decide_by_rules(first, verdict, option), session, tool_call_id)
        else:
            question = replace(
                _question(request, first, verdict),
                diffs=tuple(_shown_diff(change.path, change.old, change.new) for change in evidence.changes),
                also=tuple(other for other in evidence.requests if other is not first),
            )
            decision = await self._ask(question, options, verdict, session, tool_call_id)
        if decision.is_allowed:
            self._turn_permissions.add(evidence, session)
        return None if decision.option_id is None else v1.SelectedPermissionOutcome(decision.option_id)

    def _judge(self, evidence: Evidence, session: Session) -> tuple[Verdict, Request]:
        """The verdict about all requests of one tool call, and the request that decided it.

        What could not be read is not covered by a wide allow.
        """
        rules = self.rules
        deciding: dict[str, Request] = {}

        def judge_one(request: Request) -> Verdict:
            verdict = _judge_one(rules, request, session)
            deciding.setdefault(verdict.action, request)
            return verdict

        verdict, _ = judge_all(evidence.requests, judge_one)
        first = deciding[verdict.action]
        if evidence.problem and verdict.action != "deny":
            concern = could_concern(rules, evidence)
            if concern or verdict.action == "ask":
                why = f"what it is about could not be read: {evidence.problem}"
                return Verdict("ask", verdict.rule, f"{why}, and {concern}" if concern else why), first
        return verdict, first

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Return if the client may read, write or run this for the agent.

        Args:
            request: what the agent wants to be done.
            session: the session it belongs to.
            change: the change of a file, shown to the user.
            env: the variables that are set for a command, shown to the user.

        Raises:
            RequestError: it is not permitted; this is the response for the agent.
        """
        asked = settle_paths(request, session, agent=self.agent, root=self._root)
        verdict = _judge_one(self.rules, asked, session)
        if asked.kind == "read" and verdict.rule is None and verdict.action != "deny" and not asked.caution:
            return  # reading below the roots is what an agent is for; only a rule restricts it
        if verdict.action != "ask":
            decision = self._record(decide_by_rules(asked, verdict), session)
        # The user who gave the permission could not know of the caution.
        elif not asked.caution and self._turn_permissions.cover(asked, session, change):
            covered = Decision(action="allow", decided_by=TURN_PERMISSION, title=asked.title, kind=asked.kind)
            decision = self._record(covered, session)
        else:
            options = offer_short_options(asked)
            permission = self._permission_request(asked, options, change, session)
            question = replace(_question(permission, asked, verdict), env=env or {}, proposals=proposals(asked))
            decision = await self._ask(question, options, verdict, session)
        if not decision.is_allowed:
            title, reason = (shorten(text, _ERROR_CHARACTERS) for text in (asked.title, decision.reason))
            raise RequestError.internal_error(f"Not permitted: {title}: {reason}")

    def _permission_request(
        self, asked: Request, options: Sequence[Option], change: Change | None, session: Session
    ) -> v1.RequestPermissionRequest:
        """The request of the client's own, for something the agent asked no permission for."""
        call = v1.ToolCallPatch(
            f"dragoman-{next(self._numbers)}",
            kind=asked.kind,
            title=asked.title,
            content=UNSET if change is None else [_diff(change)],
        )
        offered = [v1.PermissionOption(option.id, option.label, option.kind) for option in options]
        return v1.RequestPermissionRequest(session.id, call, offered)

    async def _ask(
        self,
        question: Question,
        options: Sequence[Option],
        verdict: Verdict,
        session: Session,
        tool_call_id: str | None = None,
    ) -> Decision:
        """Ask the user, record the decision and keep an "always"."""
        try:
            selection = await self.select(question, options, session)
        except asyncio.CancelledError:
            # The request itself was withdrawn. Its response is made elsewhere; the record is made here.
            self._record(decide_by_answer(question.request, verdict, Selection(None, CANCELLED)), session, tool_call_id)
            raise
        decision = self._record(decide_by_answer(question.request, verdict, selection), session, tool_call_id)
        rule = rule_to_remember(selection.option)
        if rule is not None:
            text, action, scope = rule
            try:
                self._remembered.append(parse_rule(text, action, "session", "answered: always"))
                if self._remember is not None:
                    self._remember(text, action, scope)
            except ConfigError as error:
                _log.warning("the answer holds for this session only: %s", error)
        return decision

    async def select(self, question: Question, options: Sequence[Option], session: Session) -> Selection:
        """Let the user select an option. Any failure while asking selects none.

        Raises: CancelledError if the calling task is cancelled, and not merely the question.
        """
        if self._asker is None:
            return Selection(None, NO_USER)
        if session.is_cancelled:
            return Selection(None, CANCELLED)
        asking = asyncio.ensure_future(self._asker.ask(question, session))
        try:
            with session.on_cancel(asking.cancel):
                async with asyncio.timeout(self._ask_seconds):
                    return choose(options, await asking)
        except TimeoutError:
            return Selection(None, TIMEOUT)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Selection(None, CANCELLED)
        except Exception:
            _log.exception("asking for permission failed; the request is cancelled")
            return Selection(None, ASKING_FAILED)
        finally:
            asking.cancel()

    def _record(self, decision: Decision, session: Session, tool_call_id: str | None = None) -> Decision:
        decision = replace(decision, session_id=session.id, tool_call_id=tool_call_id)
        self.decisions.append(decision)
        del self.decisions[:-_MOST_DECISIONS]
        if self._on_decision is not None:
            try:
                self._on_decision(decision)
            except Exception:
                _log.exception("an observer of decisions failed")
        return decision


def _judge_one(rules: Sequence[Rule], request: Request, session: Session) -> Verdict:
    """The verdict about one request. Reading below the session's folders is allowed unless a rule restricts it."""
    added = [os.path.realpath(folder) for folder in session.additional_directories]
    # The session's additional folders belong to the project: a command in one of them is not outside.
    is_added = any(is_below(request.cwd, folder) for folder in added)
    request = with_safe_parts(rules, request, (session.cwd, *session.additional_directories))
    verdict = judge(rules, replace(request, cwd="") if is_added else request)
    if request.kind != "read" or verdict.action != "ask" or verdict.rule is not None or request.caution:
        return verdict
    roots = (request.root, os.path.realpath(session.cwd), *added)
    if request.paths and all(any(is_below(path, root) for root in roots) for path in request.paths):
        return Verdict("allow", None, _READING)
    return verdict


def _question(permission: v1.RequestPermissionRequest, asked: Request, verdict: Verdict) -> Question:
    content = permission.tool_call.content or ()
    return Question(
        permission,
        asked,
        verdict.why,
        diffs=tuple(item for item in content if isinstance(item, v1.Diff)),
        argv=asked.command,
        shell=asked.shell,
        cwd=asked.cwd,
    )


def _diff(change: Change) -> v1.Diff:
    before = None if change.before is None else change.before.decode(errors="replace")
    return _shown_diff(change.path, before, (change.after or b"").decode(errors="replace"))


def _shown_diff(path: str, before: str | None, after: str) -> v1.Diff:
    return v1.Diff(path, after, old_text=UNSET if before is None else before)
