"""Permission decisions of the guard: by the user's rules, else by the editor, a terminal, or no.

Every project has rules of its own, so there is one `ClientPermissions` for each folder; this module finds the one of a
session. Owns how the editor is asked: with the agent's own request if the agent asked, in which kind, title, command
and changes are what was read of it; else with one of the guard.
Does not judge (`policy/`) and does not record (`proxy/audit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakKeyDictionary, ref

from msgspec import Raw, Struct, json

from dragoman.client.permission import ClientPermissions, Guarding, RefuseOpen
from dragoman.client.question_words import plain_request
from dragoman.errors import ConnectionClosed, RequestError
from dragoman.policy.rule import read_pattern
from dragoman.schema import decode, encode, v1
from dragoman.workspace.folders import SessionFolders
from dragoman.workspace.judging import judge_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client.permission import Asker, Question
    from dragoman.client.session import Session
    from dragoman.policy import Action, Request, Rule
    from dragoman.policy.decide import Decision, RememberScope
    from dragoman.policy.permitted import Permitted
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.workspace import Change

_OVERFULL: Final = "too many tool calls were reported in this session to judge another one; start a new session"


class FindsRules(Protocol):
    """Where the rules of a folder come from."""

    def project(self, folder: str) -> str:
        """Return the root of the project that a folder belongs to."""

    def rules(self, session: Session) -> Sequence[Rule]:
        """Return the rules for a session, as they are now. Raises: DragomanError if they cannot be read."""

    @property
    def rule_file(self) -> str:
        """Where rules of answers for a project are written."""

    def remember(self, project: str, text: str, action: Action, scope: RememberScope) -> None:
        """Add the rule of an answer, if it holds for the project."""


class GuardPermissions:
    """The permission checks of all sessions.

    Args:
        found: gives the rules.
        agent: the agent's name, as rules state it.
        asker: asks the user; None refuses what no rule decides.
        on_decision: called with each decision, and the milliseconds that the user took.
        confines: whether commands that the agent asks permission for are run by the guard, in a sandbox.
        is_built_in: whether the agent is the built-in one.
    """

    def __init__(
        self,
        found: FindsRules,
        *,
        agent: str,
        asker: Asker | None,
        on_decision: Callable[[Decision, int], None],
        confines: Callable[[], bool],
        is_built_in: bool = False,
    ) -> None:
        self._found = found
        self._agent = agent
        self._asker = asker
        self._on_decision = on_decision
        self._guarding = Guarding(confines=confines, states_reasons=False, is_built_in=is_built_in)
        self._by_session: WeakKeyDictionary[Session, ClientPermissions] = WeakKeyDictionary()
        self._permitted: list[Permitted] = []  # also of sessions that have ended: their commands may still run

    async def permission(
        self, request: v1.RequestPermissionRequest, session: GuardedSession
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer the agent's request for permission; None is the outcome `cancelled`."""
        if session.is_overfull:
            raise RequestError.internal_error(_OVERFULL)
        return await self.of(session).permission(request, session)

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Return if the guard may do this for the agent. Raises: RequestError if not."""
        await self.of(session).check(request, session, change=change, env=env)

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        """Return whether the user permitted this command, and not only its run in the sandbox.

        Raises: RequestError if it is not permitted at all.
        """
        return await self.of(session).check_confined(request, session, env=env)

    def is_named_by_rule(self, request: Request, session: Session) -> bool:
        """Whether a rule of the user allows this by an absolute path, and nothing speaks against it."""
        permissions = self.of(session)
        project = self._found.project(session.cwd)
        folders = SessionFolders(session.cwd, session.additional_directories, project=project)
        asked = folders.settle_request(request, self._agent)
        verdict = judge_in(permissions.rules, asked, folders).verdict
        pattern = None if verdict.rule is None else read_pattern(verdict.rule.text).pattern
        return verdict.action == "allow" and pattern is not None and pattern.startswith(("/", "~"))

    def of(self, session: Session) -> ClientPermissions:
        """Return the decisions of a session's project."""
        made = self._by_session.get(session)
        if made is None:
            project = self._found.project(session.cwd)
            whose = ref(session)  # a reference to the session would keep it, and itself, forever
            made = self._by_session[session] = ClientPermissions(
                lambda: () if (found := whose()) is None else self._found.rules(found),
                agent=self._agent,
                asker=RefuseOpen() if self._asker is None else self._asker,
                remember=lambda text, action, scope: self._found.remember(project, text, action, scope),
                rule_file=self._found.rule_file,
                on_decision=lambda decision: self._on_decision(decision, decision.waited_ms),
                root=project,
                guarding=self._guarding,
            )
            self._permitted.append(made.permitted)
        return made

    def is_expected(self, path: str) -> bool:
        """Whether the change of a protected file was permitted: an edit of it, or a command that names it."""
        return any(permitted.covers(path) for permitted in self._permitted)

    def forget(self, session: Session) -> None:
        """Forget a session that has ended."""
        made = self._by_session.pop(session, None)
        if made is not None and not made.permitted:
            self._permitted.remove(made.permitted)


class AsksEditor(Protocol):
    """A request of the guard to the editor."""

    async def ask_editor(self, method: str, params: bytes | Raw, *, for_agent: bool = False) -> Raw:
        """Return the editor's result. With `for_agent` the request is the agent's own, passed on.

        Raises: RequestError for an error, ConnectionClosed if the editor is gone.
        """

    def send_update(self, session: Session, update: object) -> None:
        """Send the editor a session update of the guard's own."""


class PassedQuestion(Struct):
    """A permission request of the agent that may be passed to the editor, and what the editor answered."""

    params: bytes
    selection: Raw | None = None
    refusal: Raw | None = None
    error: RequestError | None = None


class EditorAsker:
    """The user, asked through the editor as the agent would ask."""

    def __init__(self, editor: AsksEditor) -> None:
        self._editor = editor
        self._passed: dict[int, PassedQuestion] = {}  # by the object that was read from the agent's request

    def keep(self, request: v1.RequestPermissionRequest, params: bytes) -> PassedQuestion:
        """Keep the agent's request as it was sent, so that the editor gets all of it."""
        passed = self._passed[id(request)] = PassedQuestion(params)
        return passed

    def drop(self, request: v1.RequestPermissionRequest) -> None:
        """Forget a request."""
        self._passed.pop(id(request), None)

    async def ask(self, question: Question, session: Session) -> str | None:
        """Return the id of the chosen option, None for none."""
        request = plain_request(question.permission, question.words, question.answers, question.announced)
        passed = None if question.sent is None else self._passed.get(id(question.sent))
        if passed is not None:
            return await self._pass(passed, request)
        call = request.tool_call
        status = "failed"
        try:
            result = await self._editor.ask_editor("session/request_permission", encode(request))
            outcome = decode(v1.RequestPermissionResponse, result).outcome
            if not isinstance(outcome, v1.SelectedPermissionOutcome):
                return None
            kinds = [option.kind for option in request.options if option.option_id == outcome.option_id]
            status = "completed" if kinds and kinds[0].startswith("allow") else "failed"
            return outcome.option_id
        except (RequestError, ConnectionClosed):  # the editor cannot ask, or is gone: nothing was selected
            return None
        finally:
            # The editor shows a question of the guard as a tool call, which would stay open.
            if question.sent is None:
                self._editor.send_update(session, v1.ToolCallUpdate(call.tool_call_id, status=status))

    async def _pass(self, passed: PassedQuestion, shown: v1.RequestPermissionRequest) -> str | None:
        params = with_shown(passed.params, shown)
        try:
            result = await self._editor.ask_editor("session/request_permission", params, for_agent=True)
        except RequestError as error:
            passed.error = error
            return None
        except ConnectionClosed:  # nothing was selected
            return None
        outcome = decode(v1.RequestPermissionResponse, result).outcome
        if not isinstance(outcome, v1.SelectedPermissionOutcome):
            passed.refusal = result
            return None
        passed.selection = result
        return outcome.option_id


def with_shown(params: bytes, shown: v1.RequestPermissionRequest) -> bytes:
    """Return the agent's request with what is shown of it, and with everything else as the agent sent it."""
    sent, stated = _members(params), _members(encode(shown))
    call, shown_call = _members(sent["toolCall"]), _members(stated["toolCall"])
    call |= {name: shown_call[name] for name in ("kind", "title", "rawInput", "content") if name in shown_call}
    options = json.decode(sent["options"], type=list[dict[str, Raw]])
    for option, named in zip(options, shown.options, strict=True):
        option["name"] = Raw(json.encode(named.name))
    return json.encode({**sent, "toolCall": call, "options": options})


def _members(text: bytes | Raw) -> dict[str, Raw]:
    return json.decode(text, type=dict[str, Raw])
