"""What a host offers to the agents it runs: files and terminals next to them, and questions to the clients.

The capabilities that are announced are those of the host, always the same, because an agent learns them once and
clients come and go.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.files import WorkspaceFiles
from dragoman.client.permission import Answer
from dragoman.client.services import ReadsFiles, WritesFiles
from dragoman.client.terminals import LocalTerminals
from dragoman.host.working.agent_extensions import ask_client
from dragoman.host.working.question_details import question_details
from dragoman.host.working.served_files import ServedFiles
from dragoman.host.working.served_terminals import ServedTerminals
from dragoman.host.working.session_guard import SessionGuard
from dragoman.policy.decide import NO_USER
from dragoman.registry.built_in import runs_built_in
from dragoman.runs.sandbox import RunSandboxes, WantedSandboxes, prepare_sandboxes
from dragoman.runs.terms import SessionTerms, Terms, mode_rules
from dragoman.schema import UNSET, decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client import ClientOptions, Session
    from dragoman.client.permission import Question
    from dragoman.errors import DragomanError
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.host.working.question_details import QuestionDetails
    from dragoman.host.working.questions import Method
    from dragoman.policy import Rule
    from dragoman.registry.agents import AgentEntry

_log = logging.getLogger("dragoman.host")
_LONGEST_REASON: Final = 4000
Elicited = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation


class HostServices:
    """Makes and keeps the guard of each session."""

    terminal_login = False
    """Whether clients of this host can run the login program of an agent on their terminal."""

    def __init__(self, *, rules: Callable[[], Sequence[Rule]] | Sequence[Rule] = ()) -> None:
        """Prepare services.

        Args:
            rules: Permission rules of the user.
        """
        self._rules = rules
        self._guards: dict[str, SessionGuard] = {}

    def terms_of(self, session: HostedSession) -> Terms:
        """What the guard of a session is made with; kinds of hosts know more about it.

        Raises:
            ConfigError: settings are broken.
        """
        rules = self._rules
        return hosted_terms(session, rules=lambda: rules() if callable(rules) else rules)

    async def options(self, session: HostedSession) -> ClientOptions:
        """The options of the connection to a session's agent, which is about to be started.

        Raises:
            ConfigError: a sandbox is required and there is none, or settings are broken.
        """
        self.release(session)
        asks = AsksClients(session, self.guard_of)
        guard = self._guards[session.id] = SessionGuard(session, asks, self.terms_of(session))
        await guard.arm()
        options: ClientOptions = {"name": "dragoman", "title": "Dragoman", **guard.options()}
        options["terminal_login"] = self.terminal_login
        options["extension_fallback"] = partial(ask_client, session)
        files, terminals = options.get("files"), options.get("terminals")
        if isinstance(files, ReadsFiles) and isinstance(files, WritesFiles):
            options["files"] = ServedFiles(session, files)
        if terminals is not None:
            options["terminals"] = session.terminals = ServedTerminals(session, terminals)
        return options

    def guard_of(self, id: str) -> SessionGuard | None:
        """The guard of a session whose agent was started."""
        return self._guards.get(id)

    async def turn_begins(self, session: HostedSession) -> None:
        """The prompt of a turn is about to be sent."""
        guard = self._guards.get(session.id)
        if guard is not None:
            await guard.arm()

    def prompted(self, session: HostedSession, prompt: HostedPrompt) -> None:
        """A prompt is sent next."""
        guard = self._guards.get(session.id)
        if guard is not None:
            guard.prompted(prompt)

    def answered(
        self, session: HostedSession, prompt: HostedPrompt, outcome: v1.PromptResponse | DragomanError
    ) -> None:
        """The agent has answered a prompt, or is gone."""
        guard = self._guards.get(session.id)
        if guard is not None:
            guard.answered(prompt, outcome)

    async def turn_ends(self, session: HostedSession, prompt: HostedPrompt) -> None:
        """The agent and its commands have done what they do in this turn."""
        guard = self._guards.get(session.id)
        if guard is not None:
            await guard.turn_ends(prompt)

    def release(self, session: HostedSession) -> None:
        """The session is over, or its agent is started again."""
        guard = self._guards.pop(session.id, None)
        if guard is not None:
            guard.close()

    def close(self) -> None:
        """The host ends."""
        for guard in self._guards.values():
            guard.close()
        self._guards.clear()

    def options_without_session(self, elicitation: Any) -> ClientOptions:
        """The options of a connection that only logs in or out: the same capabilities, and nothing to use them on."""
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
    **more: Any,
) -> Terms:
    """The terms of a hosted session; `rules` gives those of the user, besides the chosen ones.

    Raises:
        ConfigError: a sandbox is required and there is none, or a rule cannot be read.
    """
    roots, typed = (session.record.cwd, *session.directories), chosen.rules()
    is_own = entry is not None and runs_built_in(entry)
    sandboxes = RunSandboxes()
    if chosen.sandbox != "off":
        wanted = WantedSandboxes(mode=chosen.sandbox, cwd=roots[0], roots=roots, writable=chosen.writable)
        sandboxes = prepare_sandboxes(wanted, entry)
        if sandboxes.reason:
            _log.warning("session %s: %s", session.id, sandboxes.reason)
    return Terms(
        agent=session.record.agent if entry is None else entry.name,
        entry=entry,
        chosen=chosen,
        project=roots[0] if project is None else project,
        roots=roots,
        # Choosing a mode is the user's decision; the built-in agent does not ask about what its mode allows.
        rules=lambda mode: [*typed, *rules(), *(mode_rules(mode, roots) if is_own else ())],
        sandboxes=sandboxes,
        watches=lambda: session.delegate is None,
        **more,
    )


class AsksClients:
    """Answers the agent's questions by asking the clients of its session."""

    def __init__(self, session: HostedSession, guard: Callable[[str], SessionGuard | None]) -> None:
        self._session = session
        self._guard = guard

    async def __call__(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> str | v1.RequestPermissionOutcome | None:
        answer = await self._ask("session/request_permission", request)
        outcome: v1.RequestPermissionOutcome = decode(v1.RequestPermissionResponse, msgspec.json.encode(answer)).outcome
        return outcome

    async def ask(self, question: Question, session: Session) -> Answer:
        """Ask what the rules left open."""
        guard = self._guard(self._session.id)
        rule_file = None if guard is None else guard.rule_file
        reads_reasons = guard is not None and guard.reads_reasons
        details = question_details(question, self._session.record.cwd, rule_file, reads_reasons=reads_reasons)
        answer = await self._ask("session/request_permission", question.permission, details)
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
        """What a URL was opened for is done."""
        if self._session.opened_for is not None:
            await self._session.opened_for.complete(elicitation_id)
        self._session.questions.complete(elicitation_id)

    async def _elicit(self, request: Any) -> Elicited:
        if request.session_id is UNSET:  # it belongs to the request that opens the session
            scope = self._session.opened_for
            return v1.CancelElicitation() if scope is None else await scope.ask(request)
        return read_elicited(await self._ask("elicitation/create", request))

    async def _ask(self, method: Method, request: object, details: QuestionDetails | None = None) -> dict[str, Any]:
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        id = params.pop("sessionId", None)
        child = self._session.child_id(id) if isinstance(id, str) and self._session.knows_child(id) else None
        return await self._session.questions.ask(method, params, child, details)


def read_elicited(answer: dict[str, Any]) -> Elicited:
    """The answer of a client to a form, for the agent."""
    action = answer.get("action")
    if action == "accept":
        return v1.AcceptElicitation(answer.get("content") or {})
    return v1.DeclineElicitation() if action == "decline" else v1.CancelElicitation()
