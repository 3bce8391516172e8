"""The permission decisions of a run, and what the run reports about them.

Owns what `exec` adds to the client's decisions: the session mode of the built-in agent counts as rules of the user,
`--dangerously-allow-all` answers in the user's place, and the questions that no user could be asked are kept for hints.
The protocol's answer to a permission request is an option or nothing, so an agent cannot distinguish the user's answer
from a rule, or a user who does not answer from one who does not exist. The reason is therefore added in `_meta`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli.exec.result import RunPermission, permission
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
    from dragoman.policy import Request, Rule
    from dragoman.policy.decide import Decision, Option

ALLOW_ALL: Final = "--dangerously-allow-all"


class RunPermissions(ClientPermissions):
    """Decides as `ClientPermissions` does, and states why a request was refused.

    Args:
        reads_reasons: whether the agent states that it is a built-in agent. It gets a refusal where other agents get
            `cancelled`, because `cancelled` has no place for a reason.
        allows_all: everything that would be asked is allowed. Deny rules hold.
        own_files: files in which the agent remembers an answer of "always", below the project.
        confines: whether commands that the agent asks permission for come back to run in the sandbox.
        on_asking: called with what the user is asked about, and with an empty text when the question is over.
    """

    def __init__(
        self,
        *args: Any,
        reads_reasons: Callable[[], bool],
        allows_all: bool = False,
        confines: Callable[[], bool],
        own_files: Sequence[str] = (),
        on_asking: Callable[[str], object] = lambda title: None,
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
        self.unasked: list[tuple[Request, ...]] = []
        """What no user could be asked about, in the order of the decisions."""
        self._offered: dict[tuple[str, str], Sequence[v1.PermissionOption]] = {}  # by session and tool call

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        self._offered[session.id, request.tool_call.tool_call_id] = request.options
        outcome = await super().permission(request, session)
        decision = self._decision_about(request, session)
        if decision is None or decision.is_allowed or decision.decided_by == USER:
            return outcome
        chosen = outcome.option_id if outcome is not None else self._refusing_option(request)
        if chosen is None:
            return None
        reported = {"decidedBy": decision.decided_by, "reason": decision.reason}
        return v1.SelectedPermissionOutcome(chosen, meta={"dragoman": reported})

    def describe(self, decision: Decision) -> RunPermission:
        """Describe a decision for the result, with the options that the agent offered."""
        return permission(decision, self._offered.get((decision.session_id, decision.tool_call_id or ""), ()))

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
        if selection.decided_by in (NO_USER, ASKING_FAILED):
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
        if decision.decided_by == USER and decision.option_kind == "allow_always":
            self._permitted_paths.update(os.path.join(self._root or "/", name) for name in self._own_files)

    def is_expected(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file in this run."""
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


def mode_rules(session: Session | None, roots: Sequence[str]) -> Sequence[Rule]:
    """Return the rules of the mode that a session of the built-in agent is in: choosing a mode is the user's decision.

    The agent does not ask about what its mode allows; without these rules its files and commands, which run through the
    client, would be asked about a second time.
    """
    from dragoman.builtin.modes import MODES
    from dragoman.cli.exec.settings import current_mode

    mode = None if session is None else MODES.get(current_mode(session) or "")
    return () if mode is None else mode.rules(roots)


def restricting_rules(rules: Sequence[Rule], agent: str, project: str) -> list[str]:
    """Return the rules typed for this run that deny or ask, for the built-in agent: it asks about what they concern.

    It reads the user's other rules by itself. Patterns of files become absolute, because the folder of the session is
    not always the project's.
    """
    from dragoman.policy.rule import PATH_KINDS, read_pattern

    found = []
    for rule in rules:
        pattern = read_pattern(rule.text)
        if rule.action == "allow" or rule.scope != "flag" or pattern.agent not in (None, agent):
            continue
        glob = pattern.pattern
        if pattern.kind in PATH_KINDS and glob is not None and not glob.startswith(("/", "~")):
            found.append(f"{pattern.kind}:{project}/{glob}")
        else:
            found.append(rule.text.partition("@")[2] if pattern.agent is not None else rule.text)
    return found
