"""The permission decisions about an agent that this program runs, and why each was made.

Owns what a program that starts an agent adds to the client's decisions: an answer in the user's place if the user wants
that, the requests that no user could be asked about, and which protected files may change. The protocol's answer to a
permission request is an option or nothing, so an agent cannot distinguish the user's answer from a rule, or a user who
does not answer from one who does not exist. The reason is therefore added in `_meta`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dragoman.client.permission import ClientPermissions
from dragoman.policy.decide import (
    ASKING_FAILED,
    NO_USER,
    TURN_PERMISSION,
    USER,
    Selection,
    is_allowing,
    is_clear,
)
from dragoman.policy.paths import is_below
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client.permission import Question
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.policy.decide import Decision, Option

ALLOW_ALL: Final = "--dangerously-allow-all"
# A session of a host may last for weeks.
_MOST_KEPT: Final = 10_000


class GuardedPermissions(ClientPermissions):
    """Decides as `ClientPermissions` does, and states why a request was refused.

    Args:
        reads_reasons: whether the agent states that it is a built-in agent. It gets a refusal where other agents get
            `cancelled`, because `cancelled` has no place for a reason.
        allows_all: everything that would be asked is allowed. Deny rules hold.
        own_files: files in which the agent remembers an answer of "always", below the project.
        confines: whether commands that the agent asks permission for come back to run in the sandbox.
        on_asking: called with what the user is asked about, and with an empty text when the question is over.
        silence: `decided_by` of a question that was shown and got no choice.
        user_reason: what the user wrote about a refusal, by the id of the tool call; empty for nothing.
    """

    def __init__(
        self,
        *args: Any,
        reads_reasons: Callable[[], bool],
        allows_all: bool = False,
        confines: Callable[[], bool],
        own_files: Sequence[str] = (),
        on_asking: Callable[[str], object] = lambda title: None,
        silence: str = USER,
        user_reason: Callable[[str], str] = lambda tool_call_id: "",
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._reads_reasons = reads_reasons
        self._allows_all = allows_all
        self._confines = confines
        self._permitted_paths: set[str] = set()
        self._permitted_lines: list[str] = []
        self._own_files = own_files
        self._on_asking = on_asking
        self._silence = silence
        self._user_reason = user_reason
        self.unasked: list[tuple[Request, ...]] = []
        """What no user could be asked about, in the order of the decisions."""
        self._offered: dict[tuple[str, str], Sequence[v1.PermissionOption]] = {}  # by session and tool call

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        self._offered[session.id, request.tool_call.tool_call_id] = request.options
        while len(self._offered) > _MOST_KEPT:
            del self._offered[next(iter(self._offered))]
        outcome = await super().permission(request, session)
        decision = self._decision_about(request, session)
        if decision is None or decision.is_allowed:
            return outcome
        if decision.decided_by == USER:
            return self._with_user_reason(outcome, request.tool_call.tool_call_id)
        chosen = outcome.option_id if outcome is not None else self._refusing_option(request)
        if chosen is None:
            return None
        reported = {"decidedBy": decision.decided_by, "reason": decision.reason}
        return v1.SelectedPermissionOutcome(chosen, meta={"dragoman": reported})

    def _with_user_reason(
        self, outcome: v1.SelectedPermissionOutcome | None, tool_call_id: str
    ) -> v1.SelectedPermissionOutcome | None:
        """The user's refusal, with the user's own words for an agent that reads them."""
        reason = self._user_reason(tool_call_id)
        if outcome is None or not reason or not self._reads_reasons():
            return outcome
        return v1.SelectedPermissionOutcome(outcome.option_id, meta={"dragoman": {"decidedBy": USER, "reason": reason}})

    def offered(self, decision: Decision) -> Sequence[v1.PermissionOption]:
        """The options that the agent offered when it asked for what was decided."""
        return self._offered.get((decision.session_id, decision.tool_call_id or ""), ())

    async def select(self, question: Question, options: Sequence[Option], session: Session) -> Selection:
        if self._allows_all:
            allowing = [option for option in options if is_allowing(option.kind) and is_clear(option, options)]
            # "Once" first: an "always" would be remembered for later requests of this run.
            allowing.sort(key=lambda option: option.kind != "allow_once")
            return Selection(next(iter(allowing), None), ALLOW_ALL)
        self._on_asking(f"{question.request.kind}: {question.request.title}")
        try:
            selection = await super().select(question, options, session)
        finally:
            self._on_asking("")
        if selection.option is None and selection.decided_by == USER:
            selection = Selection(None, self._silence)
        if selection.decided_by in (NO_USER, ASKING_FAILED) and len(self.unasked) < _MOST_KEPT:
            self.unasked.append((question.request, *question.also))
        return selection

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        is_permitted = await super().check_confined(request, session, env=env)
        # What `--dangerously-allow-all` allows is not permitted one by one, so it stays inside.
        return is_permitted and not self._allows_all

    def confines_requests(self) -> bool:
        return self._confines()

    def note_permitted(self, requests: Sequence[Request], decision: Decision) -> None:
        """Remember which protected files may change: those of a permitted edit, and those a permitted command names."""
        for request in requests:
            if request.kind in ("edit", "delete", "move"):
                self._permitted_paths.update(request.paths)
            elif request.kind == "execute" and decision.decided_by in (USER, TURN_PERMISSION):
                self._permitted_lines.append(request.shell or " ".join(request.command or ()))
                del self._permitted_lines[:-_MOST_KEPT]
        if decision.decided_by == USER and decision.option_kind == "allow_always":
            self._permitted_paths.update(os.path.join(self._root or "/", name) for name in self._own_files)

    def is_expected(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file."""
        if self._allows_all or any(is_below(path, permitted) for permitted in self._permitted_paths):
            return True
        inner = os.path.relpath(path, self._root or "/")
        return any(path in line or inner in line for line in self._permitted_lines)

    def _decision_about(self, request: v1.RequestPermissionRequest, session: Session) -> Decision | None:
        call = request.tool_call.tool_call_id
        decisions = (each for each in reversed(self.decisions) if each.tool_call_id == call)
        return next((each for each in decisions if each.session_id == session.id), None)

    def _refusing_option(self, request: v1.RequestPermissionRequest) -> str | None:
        refusing = (option.option_id for option in request.options if option.kind == "reject_once")
        return next(refusing, None) if self._reads_reasons() else None
