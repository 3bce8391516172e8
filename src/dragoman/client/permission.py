"""Where the user's rules meet a session: every permission, write and command of an agent is decided here.

A rule that the user wrote decides; else a person is asked; else nobody can be, and the answer is no. Owns what a
decision covers (a grant lets the write or command that follows it through, in that turn) and the record of all
decisions. Does not judge (`dragoman.policy`), does not show anything (an Asker does), keeps nothing on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.permission_request import describe, settle_paths
from dragoman.client.turn_permissions import TurnPermissions
from dragoman.errors import ConfigError, RequestError
from dragoman.policy import Rule, judge, parse_rule, proposals
from dragoman.policy.verdict import named
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client.session import Session
    from dragoman.policy import Action, Request, Scope, Verdict
    from dragoman.workspace import Change

    Remember: TypeAlias = Callable[[str, Action, Scope], None]

_log = logging.getLogger("dragoman.client")

Answer: TypeAlias = str | None
"""The id of the chosen option, None when none was chosen."""

# A long session makes thousands; beyond this the oldest are of no use to anybody.
_KEPT: Final = 10_000
_SAID: Final = 120
_ALLOWING: Final = ("allow_once", "allow_always")
_REJECTING: Final = ("reject_once", "reject_always")
ASKING_FAILED: Final = "an error while asking"
_WORDS: Final = {"person": "a person said no", "nobody": "nobody could be asked", "timeout": "nobody answered in time"}


class Decision(Struct, frozen=True):
    """What was decided about one request, and by whom or what."""

    session_id: str
    tool_call_id: str | None
    title: str
    kind: str
    action: Literal["allow", "deny", "cancelled"]
    decided_by: str
    option_id: str | None = None
    option_kind: str | None = None
    rule: str | None = None

    @property
    def is_unasked(self) -> bool:
        """Whether it was cancelled because nobody could be asked, or the asking broke down."""
        return self.decided_by in ("nobody", ASKING_FAILED)


class Question(Struct, frozen=True):
    """What a person is asked, with all there is to see. The text in it is the agent's: faces make it harmless."""

    permission: v1.RequestPermissionRequest
    request: Request
    why: str
    diffs: tuple[v1.Diff, ...] = ()
    argv: tuple[str, ...] | None = None
    shell: str | None = None
    cwd: str = ""
    env: Mapping[str, str] = {}
    proposals: tuple[str, ...] = ()


class Asker(Protocol):
    """A face that can ask a person."""

    async def ask(self, question: Question, session: Session) -> Answer:
        """What was chosen. May be cancelled at any time: the turn is over, or too much time has passed."""


class _Outcome(Struct, frozen=True):
    """How asking ended: an option was chosen, or why there is none."""

    option: v1.PermissionOption | None
    decided_by: str


class ClientPermissions:
    """Decides for the sessions of one agent; its `permission` is the service for `session/request_permission`.

    `rules` are looked at anew for each request when they are a callable. `remember` keeps the rule an "always" means.
    `ask_seconds` bounds how long a person may take. `root` is the project, if it is not the session's folder.
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
        self._answered: list[Rule] = []  # what "always" meant since this began
        self._asker = asker
        self._remember = remember
        self._ask_seconds = ask_seconds
        self._on_decision = on_decision
        self._root = root
        self._grants = TurnPermissions()
        self._numbers = itertools.count(1)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: those given and those answered."""
        given = self._rules() if callable(self._rules) else self._rules
        return (*given, *self._answered)

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answers `session/request_permission`; None is the outcome `cancelled`."""
        root = self._root if self._root is not None else session.cwd
        asked = settle_paths(
            describe(request, session.state, agent=self.agent, root=root), session, agent=self.agent, root=self._root
        )
        verdict = judge(self.rules, asked)
        option = _option_for(verdict, request.options)
        if verdict.action == "deny" or (verdict.action == "allow" and option is not None):
            self._record(session, request, asked, verdict.action, _deciding(verdict), option, verdict)
        else:
            question = _question(request, asked, verdict)
            outcome = await self._ask(question, session)
            option = outcome.option
            self._record(session, request, asked, _action_of(option), outcome.decided_by, option)
            self._keep(question, option)
        if option is not None and option.kind in _ALLOWING:
            self._grants.add(asked, session)
        return None if option is None else v1.SelectedPermissionOutcome(option.option_id)

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Returns if the agent may have its client do this: read, write, run a command. A person is shown the change
        of a file, and the variables `env` that are set for a command.

        Raises: RequestError, the answer the agent gets, if it may not.
        """
        asked = settle_paths(request, session, agent=self.agent, root=self._root)
        verdict = judge(self.rules, asked)
        if verdict.action == "ask":
            if asked.kind == "read" and verdict.rule is None:
                return  # looking below the roots is what an agent is for; a rule may say otherwise
            # Whoever granted the permission could not know what makes this one worth a question.
            if not asked.caution and self._grants.cover(asked, session):
                self._record(session, None, asked, "allow", "grant", None)
                return
            verdict = await self._ask_for(asked, verdict, session, change, env or {})
        else:
            self._record(session, None, asked, verdict.action, _deciding(verdict), None, verdict)
        if verdict.action != "allow":
            raise RequestError.internal_error(f"Not permitted: {_short(asked.title)}: {_short(verdict.why)}")

    async def _ask_for(
        self, asked: Request, verdict: Verdict, session: Session, change: Change | None, env: Mapping[str, str]
    ) -> Verdict:
        """Asks about something for which the agent asked no permission, with options of our own."""
        diffs = () if change is None else (_diff(change),)
        question = replace(_question(self._own_request(asked, session, diffs), asked, verdict), env=env)
        outcome = await self._ask(question, session)
        action = _action_of(outcome.option)
        self._record(session, None, asked, action, outcome.decided_by, outcome.option)
        self._keep(question, outcome.option)
        why = _WORDS.get(outcome.decided_by, outcome.decided_by)
        return type(verdict)("allow" if action == "allow" else "deny", None, why)

    def _own_request(self, asked: Request, session: Session, diffs: tuple[v1.Diff, ...]) -> v1.RequestPermissionRequest:
        options = [v1.PermissionOption("allow", "Allow", "allow_once")]
        if proposals(asked):
            options.append(v1.PermissionOption("always", "Always allow", "allow_always"))
        options.append(v1.PermissionOption("reject", "Reject", "reject_once"))
        call = v1.ToolCallPatch(
            f"dragoman-{next(self._numbers)}", kind=asked.kind, title=asked.title, content=list(diffs) or UNSET
        )
        return v1.RequestPermissionRequest(session.id, call, options)

    async def _ask(self, question: Question, session: Session) -> _Outcome:
        """Whatever goes wrong while asking, the answer is no."""
        if self._asker is None:
            return _Outcome(None, "nobody")
        if _is_cancelled(session):
            return _Outcome(None, "cancelled")
        asking = asyncio.ensure_future(self._asker.ask(question, session))
        session._on_cancel.add(asking.cancel)
        try:
            async with asyncio.timeout(self._ask_seconds):
                chosen = await asking
        except TimeoutError:
            return _Outcome(None, "timeout")
        except asyncio.CancelledError:
            self_cancelled = asyncio.current_task()
            if self_cancelled is not None and self_cancelled.cancelling():
                # The request itself was withdrawn: its answer is made elsewhere, only the record is ours.
                self._record(session, question.permission, question.request, "cancelled", "cancelled", None)
                raise
            return _Outcome(None, "cancelled")
        except Exception:
            _log.exception("asking for permission failed; the request is cancelled")
            return _Outcome(None, ASKING_FAILED)
        finally:
            session._on_cancel.discard(asking.cancel)
            asking.cancel()
        return _chosen(chosen, question.permission.options)

    def _keep(self, question: Question, option: v1.PermissionOption | None) -> None:
        """Turns an "always" into the narrowest rule that says it."""
        if option is None or option.kind not in ("allow_always", "reject_always") or not question.proposals:
            return
        action: Action = "allow" if option.kind == "allow_always" else "deny"
        text = question.proposals[0]
        try:
            self._answered.append(parse_rule(text, action, "session", "answered: always"))
            if self._remember is not None:
                self._remember(text, action, "project")
        except ConfigError as error:
            _log.warning("the answer holds for this session only: %s", error)

    def _record(
        self,
        session: Session,
        permission: v1.RequestPermissionRequest | None,
        asked: Request,
        action: str,
        decided_by: str,
        option: v1.PermissionOption | None,
        verdict: Verdict | None = None,
    ) -> None:
        decision = Decision(
            session.id,
            permission.tool_call.tool_call_id if permission is not None else None,
            asked.title,
            asked.kind,
            action,  # type: ignore[arg-type]  # allow, deny or cancelled
            decided_by,
            option.option_id if option is not None else None,
            option.kind if option is not None else None,
            verdict.rule.text if verdict is not None and verdict.rule is not None else None,
        )
        self.decisions.append(decision)
        del self.decisions[:-_KEPT]
        if self._on_decision is not None:
            try:
                self._on_decision(decision)
            except Exception:
                _log.exception("an observer of decisions failed")


def _short(text: str) -> str:
    """An error is one sentence; a command line may be a page."""
    return text if len(text) <= _SAID else text[: _SAID - 1] + "…"


def _is_cancelled(session: Session) -> bool:
    """Whether what an agent asks now belongs to a turn that was cancelled, over or not."""
    turn = session._turn
    return turn.is_cancelling if turn is not None else session.state.is_after_cancel


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
        proposals=proposals(asked),
    )


def _deciding(verdict: Verdict) -> str:
    return named(verdict.rule) if verdict.rule is not None else verdict.why


def _diff(change: Change) -> v1.Diff:
    before = UNSET if change.before is None else change.before.decode(errors="replace")
    return v1.Diff(change.path, (change.after or b"").decode(errors="replace"), old_text=before)


def _option_for(verdict: Verdict, options: Sequence[v1.PermissionOption]) -> v1.PermissionOption | None:
    """The narrowest option that says what the rules say. No rule says "always" to an agent by itself."""
    kinds = {"allow": ("allow_once",), "deny": _REJECTING}.get(verdict.action, ())
    for kind in kinds:
        for option in options:
            if option.kind == kind and _is_clear(option, options):
                return option
    return None


def _chosen(option_id: Answer, options: Sequence[v1.PermissionOption]) -> _Outcome:
    if option_id is None:
        return _Outcome(None, "person")
    option = next((option for option in options if option.option_id == option_id), None)
    if option is None:
        return _Outcome(None, "unknown option")
    # A kind of a later version might mean yes; it is not taken for one (rule 261).
    if option.kind not in (*_ALLOWING, *_REJECTING) or not _is_clear(option, options):
        return _Outcome(None, "unknown kind of option")
    return _Outcome(option, "person")


def _is_clear(option: v1.PermissionOption, options: Sequence[v1.PermissionOption]) -> bool:
    """Two options under one id cannot be told apart on the wire."""
    return all(other.kind == option.kind for other in options if other.option_id == option.option_id)


def _action_of(option: v1.PermissionOption | None) -> str:
    if option is None:
        return "cancelled"
    return "allow" if option.kind in _ALLOWING else "deny"
