"""The decisions about every permission, file and command that an agent asks its client for.

A rule of the user decides; otherwise the user is asked; where no user can be asked, the request is cancelled. This
module asks, remembers what a permission covers in the rest of its turn, and records all decisions. Rules and options
are defined in `dragoman.policy`, an `Asker` shows the question, and nothing is written to disk here.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.question_words import (
    AlwaysDetails,
    OptionWords,
    QuestionWords,
    always_of,
    asked_words,
    content_of,
    option_words,
    shown_request,
)
from dragoman.client.reading import current_report, is_same_text, read_request
from dragoman.client.turn_permissions import TurnPermissions
from dragoman.errors import ConfigError, RequestError
from dragoman.policy import Command, Verdict, parse_rule
from dragoman.policy.decide import (
    ALLOW_ALL,
    ASK_DENY,
    ASKING_FAILED,
    CANCELLED,
    NO_USER,
    TIMEOUT,
    TURN_PERMISSION,
    USER,
    Decision,
    Option,
    Selection,
    choose,
    decide_by_answer,
    decide_by_rules,
    is_allowing,
    is_clear,
    judge_all,
    offer_options,
    option_for,
)
from dragoman.policy.permitted import Permitted
from dragoman.policy.project_code import AnsweredCode, unite
from dragoman.policy.rule import read_pattern
from dragoman.schema import UNSET, v1
from dragoman.text.terminal import shorten
from dragoman.workspace.folders import SessionFolders
from dragoman.workspace.judging import judge_in, off_loop_if_long

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client.reading import Evidence, ShownChange
    from dragoman.client.session import Session
    from dragoman.policy import Action, Request, Rule
    from dragoman.policy.decide import RememberScope
    from dragoman.policy.verdict import Judgement
    from dragoman.state import ToolCallState
    from dragoman.workspace import Change

    Remember: TypeAlias = Callable[[str, Action, RememberScope], None]

_log = logging.getLogger("dragoman.client")

_MOST_DECISIONS: Final = 10_000  # programs show the latest ones
SANDBOX: Final = "sandbox"
"""`Decision.decided_by` of a command that needs no permission because it runs in a sandbox."""
OWN_CALL: Final = "dragoman-"
"""Begins the id of a tool call in a question of the client's own."""
_ERROR_CHARACTERS: Final = 120  # an error is one sentence


class Question(Struct, frozen=True, dict=True):
    """A question for the user, with everything there is to show.

    What forms show is in `words` and `answers`, which are safe to show; everything else is the agent's: escape it.

    Attributes:
        permission: the request as it is shown: kind, title, command and changes are what was read.
        request: the first of what was read.
        why: why it is asked.
        diffs: the changes of files that were read.
        argv: the words of the command that `request` is about.
        shell: its line, if it is one for a shell.
        cwd: its folder.
        env: the variables that are set for it.
        proposals: the rules that our answers of "always" write; none if the agent asked: it remembers the answer.
        also: further requests that the same answer decides, such as a second command of one tool call.
        options: ours; none if the agent asked.
        rule_file: where ours for the project are written.
        sent: the request as the agent sent it; None for a question of the client's own.
        announced: the tool call as it was reported before the request.
        is_built_in: whether the built-in agent asks, which keeps rules as it says.
        stated: the words, if a host made them.
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
    options: tuple[Option, ...] = ()
    rule_file: str | None = None
    sent: v1.RequestPermissionRequest | None = None
    announced: ToolCallState | None = None
    is_built_in: bool = False
    stated: tuple[QuestionWords, Mapping[str, AlwaysDetails]] | None = None

    @cached_property
    def words(self) -> QuestionWords:
        """What is asked."""
        if self.stated is not None:
            return self.stated[0]
        return asked_words(
            (self.request, *self.also),
            why=self.why,
            agent_title="" if self.sent is None else self.request.title,
            env=self.env,
            raw_input=_raw_input(self.sent, self.announced),
        )

    @cached_property
    def always(self) -> Mapping[str, AlwaysDetails]:
        """What the answers of "always" write, by their ids."""
        if self.stated is not None:
            return self.stated[1]
        ours = {option.id: _kept(option, self.rule_file) for option in self.options if option.rule is not None}
        for option in self.permission.options:
            if option.option_id not in ours and (found := always_of(option)) is not None:
                is_certain = self.is_built_in and found.rule is not None
                ours[option.option_id] = replace(found, is_certain=True) if is_certain else found
        return ours

    @cached_property
    def answers(self) -> tuple[OptionWords, ...]:
        """What can be chosen, in the order in which it is offered."""
        return option_words(self.permission.options, self.always)


def _raw_input(sent: v1.RequestPermissionRequest | None, announced: ToolCallState | None) -> object:
    given = UNSET if sent is None else sent.tool_call.raw_input
    return announced.raw_input if given is UNSET and announced is not None else given


def _kept(option: Option, rule_file: str | None) -> AlwaysDetails:
    return AlwaysDetails(
        action="allow" if is_allowing(option.kind) else "deny",
        by="host",
        rule=option.rule,
        kept=option.scope,
        file=rule_file if option.scope == "project" else None,
    )


class Answer(Struct, frozen=True):
    """What was answered to a question.

    Attributes:
        option_id: the chosen option, None for none.
        reason: what the user wrote about it, for an agent that reads it.
        decided_by: who chose, as `Decision.decided_by` has it; with no option, why there is none.
    """

    option_id: str | None
    reason: str = ""
    decided_by: str = USER


class Asker(Protocol):
    """The one who decides what the rules leave open: a user, the clients of a session, an editor, or a fixed answer."""

    async def ask(self, question: Question, session: Session) -> Answer | str | None:
        """Return the answer, or only the id of the option that the user chose; None for none.

        May be cancelled at any time, because the turn was cancelled or the time to answer has passed.
        """


class NoUser:
    """An asker for programs without a user: nothing is chosen."""

    async def ask(self, question: Question, session: Session) -> Answer:
        return Answer(None, decided_by=NO_USER)


class AllowAll:
    """An asker that allows everything (`--dangerously-allow-all`). Deny rules hold, because nothing is asked then."""

    async def ask(self, question: Question, session: Session) -> Answer:
        options = offered_by(question.permission)
        allowing = [option for option in options if is_allowing(option.kind) and is_clear(option, options)]
        # "Once" first: an "always" would be remembered for later requests.
        allowing.sort(key=lambda option: option.kind != "allow_once")
        return Answer(allowing[0].id if allowing else None, decided_by=ALLOW_ALL)


class RefuseOpen:
    """An asker that refuses everything (`--ask deny`)."""

    async def ask(self, question: Question, session: Session) -> Answer:
        if question.sent is None:
            return Answer(None, decided_by=NO_USER)
        # The agent offered a way to be refused; `cancelled` would look as if the turn had been.
        options = offered_by(question.permission)
        rejecting = (option.id for option in options if option.kind == "reject_once" and is_clear(option, options))
        return Answer(next(rejecting, None), decided_by=ASK_DENY)


def _never() -> bool:
    return False


class Guarding(Struct, frozen=True):
    """What a program that runs the agent adds to the decisions.

    The protocol's answer to a permission request is an option or nothing, so an agent cannot distinguish the user's
    answer from a rule, or a user who does not answer from one who does not exist. The reason is therefore added in
    `_meta`.

    Attributes:
        confines: whether commands that the agent asks permission for come back to run in the sandbox.
        allows_all: whether the user allowed everything in advance (`--dangerously-allow-all`): protected files may
            change, and what the rules leave open is allowed. Nothing is permitted one by one, so commands stay in the
            sandbox.
        reads_reasons: whether the agent states that it is a built-in agent. It gets a refusal where other agents get
            `cancelled`, because `cancelled` has no place for a reason.
        states_reasons: whether a refusal has its reason in `_meta`.
        own_files: files in which the agent remembers an answer of "always", below the project.
        is_built_in: whether the agent is the built-in one, by its program and not by what it says.
        before_permitted: called with the paths of what is permitted, before the agent gets the answer.
    """

    confines: Callable[[], bool] = _never
    allows_all: bool = False
    reads_reasons: Callable[[], bool] = _never
    states_reasons: bool = True
    own_files: tuple[str, ...] = ()
    is_built_in: bool = False
    before_permitted: Callable[[Sequence[str]], None] | None = None


class ClientPermissions:
    """Permission decisions for the sessions of one agent.

    `permission` is the service for `session/request_permission`; `check` is what the file and terminal services call
    before they act. `permitted` states which protected files may change because of what was decided.

    Args:
        rules: the user's rules; a callable is called for each request, so that changed rules count at once.
        agent: the agent's name, as rules state it in `AGENT@KIND`.
        asker: decides what the rules leave open; None answers every open question with no. One whose `has_user` is
            false is not asked about code of the project, which then follows the allow rules.
        remember: stores the rule of an answer that holds longer than once. Without it no answer for the project is
            offered, because nothing would keep it.
        keeps_rules: whether `remember` keeps rules for the project.
        rule_file: where `remember` writes rules for the project; it is shown to the user.
        ask_seconds: how long the user may take to answer; None sets no limit.
        on_decision: called with each decision.
        root: the project's folder, if that is not the session's folder.
        guarding: what a program adds that runs the agent itself.
    """

    def __init__(
        self,
        rules: Callable[[], Sequence[Rule]] | Sequence[Rule],
        *,
        agent: str,
        asker: Asker | None = None,
        remember: Remember | None = None,
        keeps_rules: bool = True,
        rule_file: str | None = None,
        ask_seconds: float | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        root: str | None = None,
        guarding: Guarding | None = None,
    ) -> None:
        self.agent: Final = agent
        self.decisions: list[Decision] = []
        self.unasked: list[tuple[Request, ...]] = []
        """What no user could be asked about, in the order of the decisions."""
        self._rules = rules
        self._remembered: list[Rule] = []  # answers of "always" since this object was made
        self._remember = remember
        self._keeps_rules = keeps_rules and remember is not None
        self._rule_file = rule_file
        self._ask_seconds = ask_seconds
        self._on_decision = on_decision
        self._root = root
        self._guarding = Guarding(states_reasons=False) if guarding is None else guarding
        allows_all = self._guarding.allows_all
        self._asker: Asker = AllowAll() if allows_all else NoUser() if asker is None else asker
        self.permitted: Final = Permitted(root or "/", self._guarding.own_files, is_everything=allows_all)
        self._turn_permissions = TurnPermissions()
        self._codes: defaultdict[str, AnsweredCode] = defaultdict(AnsweredCode)  # by session
        self._numbers = itertools.count(1)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: the given ones and those that answers of "always" added."""
        given = self._rules() if callable(self._rules) else self._rules
        return (*given, *self._remembered)

    async def __call__(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Do the same as `permission`, so that the object itself is the service."""
        return await self.permission(request, session)

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer `session/request_permission`; None is the outcome `cancelled`."""
        tool_call_id = request.tool_call.tool_call_id
        folders, announced = self._folders(session), session.announced(tool_call_id)
        evidence = read_request(request, session.state, announced, folders, agent=self.agent)
        rules = self.rules
        judged: list[Judgement] = []

        def judge_one(asked: Request) -> Verdict:
            judged.append(judge_in(rules, asked, folders))
            return judged[-1].verdict

        verdict, _ = await off_loop_if_long(evidence.requests, judge_all, evidence.requests, judge_one)
        evidence = replace(evidence, requests=tuple(judgement.request for judgement in judged))
        first = next(judgement.request for judgement in judged if judgement.verdict.action == verdict.action)
        # All that the agent asks about are commands that it then runs through the client, in the sandbox.
        is_confined = not evidence.problem and all(judgement.is_acceptable_inside for judgement in judged)
        if verdict.action == "ask" and is_confined and self._guarding.confines():
            verdict = Verdict("allow", None, SANDBOX, project=unite(found.verdict.project for found in judged))
        verdict = self._about_code(verdict, session, is_confined=self._guarding.confines())
        options = offered_by(request)
        option = option_for(verdict, options)
        words, is_shown = "", True
        if verdict.action == "deny" or option is not None:
            decision = replace(decide_by_rules(first, verdict, option), offered=options)
            self._permit_first(evidence.requests, decision)
            decision = self._record(decision, session, tool_call_id)
        else:
            reported = current_report(announced, session.state)
            question = _question_of_agent(request, evidence, first, verdict, reported, folders)
            question = replace(question, is_built_in=self._guarding.is_built_in)
            is_shown = question.words.is_whole
            decision, words = await self._ask(question, options, verdict, session, tool_call_id)
        if decision.is_allowed:
            # Before the answer leaves: the agent may act on it at once, and is then compared with this.
            self.permitted.add(evidence.requests, decision)
            if decision.decided_by != SANDBOX and is_shown:
                self._turn_permissions.add(evidence, session)
        return self._outcome(decision, words)

    def _outcome(self, decision: Decision, words: str) -> v1.SelectedPermissionOutcome | None:
        """Return the answer for the agent, with the reason of a refusal; `words` are the user's own."""
        chosen, reason = decision.option_id, decision.reason
        if decision.is_allowed or not self._guarding.states_reasons:
            return None if chosen is None else v1.SelectedPermissionOutcome(chosen)
        if decision.decided_by == USER:
            reason = words if self._guarding.reads_reasons() else ""
        elif chosen is None and self._guarding.reads_reasons():
            chosen = next((option.id for option in decision.offered if option.kind == "reject_once"), None)
        if chosen is None:
            return None
        reported = {"dragoman": {"decidedBy": decision.decided_by, "reason": reason}}
        return v1.SelectedPermissionOutcome(chosen, meta=reported if reason else UNSET)

    def _about_code(self, verdict: Verdict, session: Session, *, is_confined: bool = False) -> Verdict:
        """Return the verdict, or the question about code of the project; in a sandbox that is not asked about."""
        is_alone = is_confined or isinstance(self._asker, NoUser | AllowAll | RefuseOpen)
        has_user = not is_alone and getattr(self._asker, "has_user", True)
        return verdict if verdict.project is None else self._codes[session.id].ask_about(verdict, has_user=has_user)

    def _folders(self, session: Session) -> SessionFolders:
        return SessionFolders(session.cwd, session.additional_directories, project=self._root)

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
        folders = self._folders(session)
        judgement = await self._judge(request, folders)
        asked, verdict = judgement.request, judgement.verdict
        if asked.kind == "read" and verdict.rule is None and verdict.action != "deny" and not asked.caution:
            return  # reading below the roots is what an agent is for; only a rule restricts it
        if (about_code := self._about_code(verdict, session)) is not verdict:
            judgement = replace(judgement, verdict=about_code)
        await self._decide(judgement, session, folders, change=change, env=env)

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        """Return whether the user permitted this very command: by a rule that names it, or by an answer.

        Otherwise the command is acceptable in the sandbox only. There it needs no rule; deny and ask rules hold, and a
        command that names a protected file is asked about.

        Raises:
            RequestError: it is not permitted, not even in the sandbox; this is the response for the agent.
        """
        folders = self._folders(session)
        judgement = await self._judge(request, folders)
        asked, verdict = judgement.request, self._about_code(judgement.verdict, session, is_confined=True)
        if verdict.action == "allow":
            self._permit(asked, decide_by_rules(asked, verdict), session)
            return verdict.rule is not None and _names_command(verdict.rule) and not self._guarding.allows_all
        # A permission that was given for exactly this command is worth more than the sandbox.
        is_covered = not asked.caution and self._turn_permissions.cover(asked, session, folders, None)
        if verdict.action == "ask" and (is_covered or judgement.is_acceptable_inside):
            allowed = _allowed_by(TURN_PERMISSION, asked) if is_covered else _allowed_by(SANDBOX, asked, verdict)
            self._permit(asked, allowed, session)
            return is_covered and not self._guarding.allows_all
        await self._decide(judgement, session, folders, env=env)
        return not self._guarding.allows_all

    def _permit(self, asked: Request, decision: Decision, session: Session) -> None:
        """Record that the client may do this for the agent."""
        self._permit_first((asked,), decision)
        self.permitted.add((asked,), self._record(decision, session))

    def _permit_first(self, requests: Sequence[Request], decision: Decision) -> None:
        """Report the paths of what will be permitted: after the answer the agent may change them at any time."""
        if self._guarding.before_permitted is None or not decision.is_allowed:
            return
        try:
            self._guarding.before_permitted([path for request in requests for path in request.paths])
        except Exception:
            _log.exception("what is done before a permission failed")

    async def _decide(
        self,
        judgement: Judgement,
        session: Session,
        folders: SessionFolders,
        *,
        change: Change | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        asked, verdict = judgement.request, judgement.verdict
        if verdict.action != "ask":
            decision = decide_by_rules(asked, verdict)
        # The user who gave the permission could not know of the caution.
        elif not asked.caution and self._turn_permissions.cover(asked, session, folders, change):
            decision = _allowed_by(TURN_PERMISSION, asked)
        else:
            options = offer_options(judgement.proposals, keeps_rules=self._keeps_rules)
            question = replace(
                _question(self._permission_request(asked, options, change, session), asked, verdict),
                env=env or {},
                proposals=judgement.proposals,
                options=options,
                rule_file=self._rule_file,
            )
            question = replace(question, permission=shown_request(question.permission, question.words, (asked,)))
            decision, _ = await self._ask(question, options, verdict, session)
            if decision.is_allowed:
                self.permitted.add((asked,), decision)
                return
            raise _not_permitted(asked, decision)
        if not decision.is_allowed:
            raise _not_permitted(asked, self._record(decision, session))
        self._permit(asked, decision, session)

    async def _judge(self, request: Request, folders: SessionFolders) -> Judgement:
        """Return the judgement of a request of the client's own."""
        settled = folders.settle_request(request, self.agent)

        def judge() -> Judgement:
            judgement = judge_in(self.rules, settled, folders)
            _ = judgement.proposals  # made here, where a long line does not stop the event loop
            return judgement

        return await off_loop_if_long((settled,), judge)

    def _permission_request(
        self, asked: Request, options: Sequence[Option], change: Change | None, session: Session
    ) -> v1.RequestPermissionRequest:
        """Make the client's own request, for something the agent asked no permission for."""
        call = v1.ToolCallPatch(
            f"{OWN_CALL}{next(self._numbers)}",
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
    ) -> tuple[Decision, str]:
        """Ask the user, record the decision and keep an "always"; the decision, and what the user wrote about it."""
        requests = (question.request, *question.also)
        # A question of the client's own was not offered by the agent.
        offered = tuple(options) if tool_call_id is not None else ()
        began = time.monotonic()

        def decided(selection: Selection) -> Decision:
            decision = replace(
                decide_by_answer(question.request, verdict, selection),
                offered=offered,
                proposals=question.proposals,
                waited_ms=round((time.monotonic() - began) * 1000),
            )
            self._permit_first(requests, decision)
            return self._record(decision, session, tool_call_id)

        try:
            selection, words = await self._select(question, options, session)
        except asyncio.CancelledError:
            # The request itself was withdrawn. Its response is made elsewhere; the record is made here.
            decided(Selection(None, CANCELLED))
            raise
        decision = decided(selection)
        if decision.is_unasked and len(self.unasked) < _MOST_DECISIONS:
            self.unasked.append(requests)
        if selection.option is not None:
            self._keep(question.always.get(selection.option.id))
        if decision.is_allowed and decision.decided_by == USER and verdict.project is not None:
            self._codes[session.id].note(verdict)
        return decision, words

    def _keep(self, stated: AlwaysDetails | None) -> None:
        """Keep the rule of an answer, exactly as it was stated in the question."""
        if stated is None or stated.rule is None or stated.kept not in ("session", "project"):
            return
        # Another agent keeps its rules itself. The built-in one does too, but works through this client, which would
        # ask about the same again.
        if stated.by == "agent" and not self._guarding.is_built_in:
            return
        try:
            self._remembered.append(
                parse_rule(stated.rule, stated.action, "session", f"your answer for this {stated.kept}")
            )
            # What the built-in agent keeps for the project is in the same file.
            if self._remember is not None and (stated.by == "host" or stated.kept == "session"):
                self._remember(stated.rule, stated.action, stated.kept)
        except ConfigError as error:
            _log.warning("the answer holds for this session only: %s", error)

    async def _select(self, question: Question, options: Sequence[Option], session: Session) -> tuple[Selection, str]:
        """Let the asker select an option; any failure while asking selects none. The second value is what was written.

        Raises: CancelledError if the calling task is cancelled, and not merely the question.
        """
        if session.is_cancelled:
            return Selection(None, CANCELLED), ""
        asking = asyncio.ensure_future(self._asker.ask(question, session))
        try:
            # The turn may be cancelled, the time may pass, or the calling task may be cancelled: whichever comes first.
            with session.on_cancel(asking.cancel):
                async with asyncio.timeout(self._ask_seconds):
                    answer = await asking
            if not isinstance(answer, Answer):
                answer = Answer(answer)
            return choose(options, answer.option_id, answer.decided_by), answer.reason
        except TimeoutError:
            return Selection(None, TIMEOUT), ""
        except asyncio.CancelledError:
            # Both cancels look the same here; only that of the calling task is counted by it.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Selection(None, CANCELLED), ""
        except Exception:
            _log.exception("asking for permission failed; the request is cancelled")
            return Selection(None, ASKING_FAILED), ""
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


def offered_by(request: v1.RequestPermissionRequest) -> tuple[Option, ...]:
    """Return the options that an agent offers.

    An "always" is the agent's to remember: a rule here would be a second one.
    """
    return tuple(Option(option.option_id, option.name, option.kind) for option in request.options)


def _not_permitted(asked: Request, decision: Decision) -> RequestError:
    title, reason = (shorten(text, _ERROR_CHARACTERS) for text in (asked.title, decision.reason))
    return RequestError.internal_error(f"Not permitted: {title}: {reason}")


def _allowed_by(decided_by: str, request: Request, verdict: Verdict | None = None) -> Decision:
    return Decision(
        action="allow",
        decided_by=decided_by,
        title=request.title,
        kind=request.kind,
        command=request.command_line,
        paths=request.paths,
        project_code=() if verdict is None or verdict.project is None else verdict.project.names,
    )


def _names_command(rule: Rule) -> bool:
    """Whether a rule is about certain commands, and not about all of them or about those that only read."""
    command = read_pattern(rule.text).command
    return command is not None and not command.is_everything


def _question(permission: v1.RequestPermissionRequest, asked: Request, verdict: Verdict) -> Question:
    content = permission.tool_call.content or ()
    command = Command() if asked.command is None else asked.command
    return Question(
        permission,
        asked,
        verdict.why,
        diffs=tuple(item for item in content if isinstance(item, v1.Diff)),
        argv=command.argv,
        shell=command.line,
        cwd=command.cwd,
    )


def _question_of_agent(
    request: v1.RequestPermissionRequest,
    evidence: Evidence,
    first: Request,
    verdict: Verdict,
    announced: ToolCallState | None,
    folders: SessionFolders,
) -> Question:
    """Return the question about a request of the agent, as what was read of it."""
    question = replace(
        _question(request, first, verdict),
        diffs=tuple(_shown_diff(change.path, change.old, change.new) for change in evidence.changes),
        also=tuple(other for other in evidence.requests if other is not first),
        sent=request,
        announced=announced,
    )
    in_content = [item for item in content_of(request.tool_call, announced) if isinstance(item, v1.Diff)]
    placed = [(folders.resolve(item.path), item) for item in in_content]
    missing = [
        _shown_diff(change.path, change.old, change.new)
        for change in evidence.changes
        if not any(path == change.path and _states(item, change) for path, item in placed)
    ]
    shown = shown_request(request, question.words, evidence.requests, missing, announced)
    return replace(question, permission=shown)


def _states(diff: v1.Diff, change: ShownChange) -> bool:
    """Whether a diff in the content shows this change, or the whole file with this piece changed."""
    old = diff.old_text if isinstance(diff.old_text, str) else None
    if (old or None) == change.old and is_same_text(diff.new_text, change.new):
        return True
    if not old or not change.old or change.old not in old:
        return False
    replaced = old.replace(change.old, change.new, -1 if change.is_everywhere else 1)
    return is_same_text(replaced, diff.new_text)


def _diff(change: Change) -> v1.Diff:
    before = None if change.before is None else change.before.decode(errors="replace")
    return _shown_diff(change.path, before, (change.after or b"").decode(errors="replace"))


def _shown_diff(path: str, before: str | None, after: str) -> v1.Diff:
    return v1.Diff(path, after, old_text=UNSET if before is None else before)
