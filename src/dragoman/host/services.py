"""What a host decides for the agents that it runs, and how it asks the clients of their sessions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.files import WorkspaceFiles
from dragoman.client.permission import Answer
from dragoman.client.question_words import plain_request
from dragoman.client.terminals import LocalTerminals
from dragoman.host.working.question_details import question_details
from dragoman.policy.decide import NO_USER
from dragoman.registry.built_in import runs_built_in
from dragoman.runs.sandbox import WantedSandboxes, prepare_sandboxes
from dragoman.runs.terms import SessionTerms, Terms, mode_rules
from dragoman.schema import UNSET, decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client import ClientOptions, Session
    from dragoman.client.permission import Question
    from dragoman.host.session import HostedSession
    from dragoman.host.working.question_details import QuestionDetails
    from dragoman.host.working.questions import Method
    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import RememberScope
    from dragoman.registry.agents import AgentEntry

_log = logging.getLogger("dragoman.host")
_LONGEST_REASON: Final = 4000
Elicited = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation


class HostServices:
    """The way in which the agents of a host are guarded."""

    terminal_login = False
    """Whether clients of this host can run the login program of an agent on their terminal."""

    def __init__(self, *, rules: Callable[[], Sequence[Rule]] | Sequence[Rule] = ()) -> None:
        """Prepare services.

        Args:
            rules: Permission rules of the user.
        """
        self._rules = rules

    def terms_of(self, session: HostedSession) -> Terms:
        """Return what the agent of a session is run with; kinds of hosts know more about it.

        Raises:
            ConfigError: settings are broken.
        """
        rules = self._rules
        return hosted_terms(session, rules=lambda: rules() if callable(rules) else rules)

    def options_without_session(self, elicitation: Any) -> ClientOptions:
        """Return the options to only log in or out with: the same capabilities, and nothing to use them on."""
        return {
            "name": "dragoman",
            "title": "Dragoman",
            "terminal_login": self.terminal_login,
            "elicitation": elicitation,
            "files": WorkspaceFiles(permissions=None),
            "terminals": LocalTerminals(permissions=None),
        }


def hosted_terms(
    session: HostedSession,
    *,
    rules: Callable[[], Sequence[Rule]],
    chosen: SessionTerms = SessionTerms(),  # noqa: B008 - frozen
    entry: AgentEntry | None = None,
    project: str | None = None,
    remember: Callable[[str, Action], None] | None = None,
    **more: Any,
) -> Terms:
    """Return the terms of a hosted session; `rules` gives those of the user, besides the chosen ones.

    `remember` keeps a rule for the project. Those for the session are kept with it, and hold when its agent is started
    again.

    Raises:
        ConfigError: a sandbox is required and there is none, or a rule cannot be read.
    """
    roots, typed = (session.record.cwd, *session.directories), chosen.rules()
    is_own = entry is not None and runs_built_in(entry)
    name = session.record.agent if entry is None else entry.name
    wanted = WantedSandboxes(
        mode=chosen.sandbox,
        cwd=roots[0],
        roots=roots,
        writable=chosen.writable,
        agent=name,
        rules=[*typed, *rules(), *_answered(session)],
        closes_denied=chosen.closes_denied and chosen.offers_terminals,
        environment=session.env,
    )
    sandboxes = prepare_sandboxes(wanted, entry)
    for reason in filter(None, (sandboxes.reason, *sandboxes.unenforced)):
        _log.warning("session %s: %s", session.id, reason)
    return Terms(
        agent=name,
        entry=entry,
        chosen=chosen,
        project=roots[0] if project is None else project,
        roots=roots,
        # Choosing a mode is the user's decision; the built-in agent does not ask about what its mode allows.
        rules=lambda mode: [*typed, *rules(), *_answered(session), *(mode_rules(mode, roots) if is_own else ())],
        remember=lambda text, action, scope: _remember(session, remember, text, action, scope),
        keeps_rules=remember is not None,
        sandboxes=sandboxes,
        watches=lambda: session.delegate is None,
        **more,
    )


def _answered(session: HostedSession) -> list[Rule]:
    """Return the rules of the answers for this session."""
    found = session.facts.get("answered") or ()
    if not found:
        return []
    from dragoman.policy import parse_rule

    return [parse_rule(text, action, "session", "your answer for this session") for action, text in found]


def _remember(
    session: HostedSession,
    keep: Callable[[str, Action], None] | None,
    text: str,
    action: Action,
    scope: RememberScope,
) -> None:
    if scope == "session":
        session.facts.setdefault("answered", []).append([action, text])
        session.describe()
    elif keep is not None:
        keep(text, action)


class AsksClients:
    """Answers the agent's questions by asking the clients of its session."""

    def __init__(self, session: HostedSession, reads_reasons: Callable[[], bool]) -> None:
        self._session = session
        self._reads_reasons = reads_reasons

    async def __call__(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> str | v1.RequestPermissionOutcome | None:
        answer = await self._ask("session/request_permission", request)
        outcome: v1.RequestPermissionOutcome = decode(v1.RequestPermissionResponse, msgspec.json.encode(answer)).outcome
        return outcome

    @property
    def has_user(self) -> bool:
        """Whether a user is at a client now: one of ours that shows forms is at a terminal."""
        kinds = [attachment.client.kind for attachment in self._session.attachments]
        return any(kind.knows_us and kind.forms and not kind.is_observer for kind in kinds)

    async def ask(self, question: Question, session: Session) -> Answer:
        """Ask what the rules left open."""
        details = question_details(question, self._session.record.cwd, reads_reasons=self._reads_reasons())
        plain = plain_request(question.permission, question.words, question.answers, question.announced)
        answer = await self._ask("session/request_permission", question.permission, details, plain)
        found, meta = answer["outcome"].get("optionId"), answer["outcome"].get("_meta")
        if not isinstance(found, str):
            # No client made a choice: for the agent that is the same as a user who does not exist.
            return Answer(None, decided_by=NO_USER)
        own = meta.get("dragoman") if isinstance(meta, dict) else None
        reason = own.get("reason") if isinstance(own, dict) else None
        return Answer(found, reason[:_LONGEST_REASON] if isinstance(reason, str) else "")

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Elicited:
        return await self._elicit(request)

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> Elicited:
        return await self._elicit(request)

    async def complete(self, elicitation_id: str) -> None:
        """Report that what a URL was opened for is done."""
        if self._session.opened_for is not None:
            await self._session.opened_for.complete(elicitation_id)
        self._session.questions.complete(elicitation_id)

    async def _elicit(self, request: Any) -> Elicited:
        if request.session_id is UNSET:  # it belongs to the request that opens the session
            scope = self._session.opened_for
            return v1.CancelElicitation() if scope is None else await scope.ask(request)
        return read_elicited(await self._ask("elicitation/create", request))

    async def _ask(
        self, method: Method, request: object, details: QuestionDetails | None = None, plain: object = None
    ) -> dict[str, Any]:
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        id = params.pop("sessionId", None)
        child = self._session.child_id(id) if isinstance(id, str) and self._session.knows_child(id) else None
        for_others = None if plain is None else msgspec.json.decode(encode(plain))
        return await self._session.questions.ask(method, params, child, details, for_others)


def read_elicited(answer: dict[str, Any]) -> Elicited:
    """Read the answer of a client to a form, for the agent."""
    action = answer.get("action")
    if action == "accept":
        return v1.AcceptElicitation(answer.get("content") or {})
    if action == "decline":
        return v1.DeclineElicitation()
    return v1.CancelElicitation(meta=answer.get("_meta", UNSET))  # which says why, if it was not the user
