"""The permission engine: the options a user is offered, which of them allow, what "always" writes, and the decision.

`verdict.py` judges one request by the rules. This module turns verdicts and answers into decisions, for the client
(which decides about an agent's requests) and for the built-in agent (which decides about its own tool calls):

    verdict, to_ask = judge_all(requests, judge_one)     deny, allow, or ask about `to_ask`
    decide_by_rules(request, verdict)                    when the verdict is not "ask"
    options = offer_options(proposals)                   or the options that an agent sent
    selection = choose(options, option_id)               what the user answered
    rule_to_remember(selection.option)                   what an "always" writes
    decide_by_answer(request, verdict, selection)        the decision and its reason

Pure: asking the user, keeping rules and the protocol's types belong to the callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.policy.project_code import unite
from dragoman.policy.verdict import Verdict, named, proposals
from dragoman.text.terminal import cut_middle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.policy.request import Request
    from dragoman.policy.rule import Action

OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
RememberScope: TypeAlias = Literal["session", "project"]

_ALLOWING: Final = frozenset({"allow_once", "allow_always"})
_REJECTING: Final = ("reject_once", "reject_always")  # narrowest first
_LABEL: Final = 60  # characters of a rule in the label of an option; what writes it is shown whole elsewhere

# Values of `Decision.decided_by` when no rule decided. They are part of the output of `dragoman exec` and `guard`.
USER: Final = "person"
NO_USER: Final = "nobody"
TIMEOUT: Final = "timeout"
CANCELLED: Final = "cancelled"
ASKING_FAILED: Final = "an error while asking"
TURN_PERMISSION: Final = "grant"
ALLOW_ALL: Final = "--dangerously-allow-all"
ASK_DENY: Final = "--ask deny"
_UNKNOWN_OPTION: Final = "unknown option"
_UNKNOWN_KIND: Final = "unknown kind of option"


class Option(Struct, frozen=True):
    """One answer the user can choose.

    `kind` is an `OptionKind`, or a kind of a later protocol version in an option that an agent sent. `rule` is the
    rule that an "always" writes and `scope` how long that rule is kept; both are None for "once".
    """

    id: str
    label: str
    kind: str
    rule: str | None = None
    scope: RememberScope | None = None


class Selection(Struct, frozen=True):
    """The result of asking: the option the user selected, or None and the reason in `decided_by`."""

    option: Option | None
    decided_by: str


class Decision(Struct, frozen=True, kw_only=True):
    """What was decided about a request, and by which rule or answer.

    `decided_by` names the rule or, where no rule decided, is one of the constants of this module. `reason` is a
    sentence for the agent or the model. `command` and `paths` are what the request was about. The client fills in the
    session, the tool call and what follows it: the options that the agent offered (none if the agent did not ask), the
    rules that "always" could have written, and how long the user took. `project_code` is the code of the project that
    an allowed command runs although a rule about commands cannot see what it does, and no user was asked.
    """

    action: Literal["allow", "deny", "cancelled"]
    decided_by: str
    reason: str = ""
    rule: str | None = None
    option_id: str | None = None
    option_kind: str | None = None
    title: str = ""
    kind: str = ""
    session_id: str = ""
    tool_call_id: str | None = None
    command: str | None = None
    paths: tuple[str, ...] = ()
    offered: tuple[Option, ...] = ()
    proposals: tuple[str, ...] = ()
    waited_ms: int = 0
    project_code: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether the request may be carried out."""
        return self.action == "allow"

    @property
    def was_asked(self) -> bool:
        """Whether the user was shown the question; false when a rule decided or no user could be asked."""
        return self.decided_by in (USER, TIMEOUT, _UNKNOWN_OPTION, _UNKNOWN_KIND)

    @property
    def is_unasked(self) -> bool:
        """Whether it was cancelled because no user could be asked, or because asking failed."""
        return self.decided_by in (NO_USER, ASKING_FAILED)


def is_allowing(kind: str) -> bool:
    """Whether an option of this kind means yes. A kind of a later version never does (rule 261)."""
    return kind in _ALLOWING


def is_known_kind(kind: str) -> bool:
    """Whether this version of the protocol defines the kind."""
    return kind in _ALLOWING or kind in _REJECTING


def is_clear(option: Option, options: Sequence[Option]) -> bool:
    """Whether the option's id has one meaning among `options`: two kinds under one id look the same on the wire."""
    return all(other.kind == option.kind for other in options if other.id == option.id)


def judge_all(
    requests: Sequence[Request], judge_one: Callable[[Request], Verdict]
) -> tuple[Verdict, tuple[Request, ...]]:
    """Return one verdict for a call that needs several permissions, and the requests the user has to be asked about.

    A deny wins; to be allowed, every request has to be; otherwise the user is asked. A call without requests needs no
    permission.
    """
    verdicts = [judge_one(request) for request in requests]
    for verdict in verdicts:
        if verdict.action == "deny":
            return verdict, ()
    to_ask = tuple(request for request, verdict in zip(requests, verdicts, strict=True) if verdict.action == "ask")
    if to_ask:
        return next(verdict for verdict in verdicts if verdict.action == "ask"), to_ask
    if len(verdicts) == 1:
        return verdicts[0], ()
    why = "; ".join(verdict.why for verdict in verdicts) or "it needs no permission"
    return Verdict("allow", None, why, project=unite(verdict.project for verdict in verdicts)), ()


def common_proposals(requests: Sequence[Request]) -> tuple[str, ...]:
    """Return the rules that "always" may write for a call; none for one that needs several permissions."""
    return proposals(requests[0]) if len(requests) == 1 else ()


def offer_options(texts: Sequence[str], *, keeps_rules: bool = True) -> tuple[Option, ...]:
    """Return the options of a question of ours. Each label states how long the answer holds, and for what.

    Args:
        texts: the `proposals` for what is asked: the first is exactly that, the second something wider.
        keeps_rules: whether a rule for the project can be kept; the session is always possible.
    """
    options = [Option("allow-once", "Allow once", "allow_once")]
    scopes: tuple[RememberScope, ...] = ("session", "project") if keeps_rules else ("session",)
    for scope in scopes if texts else ():
        options.append(_remembered("allow", scope, texts[0]))
    if len(texts) > 1 and keeps_rules:
        options.append(_remembered("allow", "project", texts[1], "-wide"))
    options.append(Option("reject-once", "Reject", "reject_once"))
    for scope in scopes if texts else ():
        options.append(_remembered("reject", scope, texts[0]))
    return tuple(options)


def _remembered(verb: Literal["allow", "reject"], scope: RememberScope, text: str, more: str = "") -> Option:
    # The scope comes first: a narrow screen cuts the end of a label.
    label = f"{verb.capitalize()} for this {scope}: {cut_middle(describe_rule(text), _LABEL)}"
    return Option(f"{verb}-{scope}{more}", label, f"{verb}_always", text, scope)


def choose(options: Sequence[Option], option_id: str | None, decided_by: str = USER) -> Selection:
    """Return the option with this id, if it was offered and its meaning is clear; None means that none was chosen."""
    if option_id is None:
        return Selection(None, decided_by)
    option = next((option for option in options if option.id == option_id), None)
    if option is None:
        return Selection(None, _UNKNOWN_OPTION)
    # A kind of a later version might mean yes; it is not treated as one (rule 261).
    if not is_known_kind(option.kind) or not is_clear(option, options):
        return Selection(None, _UNKNOWN_KIND)
    return Selection(option, decided_by)


def option_for(verdict: Verdict, options: Sequence[Option]) -> Option | None:
    """Return the narrowest option that states the verdict.

    A rule never answers "always" to an allow: that is the user's.
    """
    kinds = {"allow": ("allow_once",), "deny": _REJECTING}.get(verdict.action, ())
    for kind in kinds:
        for option in options:
            if option.kind == kind and is_clear(option, options):
                return option
    return None


def rule_to_remember(option: Option | None) -> tuple[str, Action, RememberScope] | None:
    """Return the rule that this answer writes: its text, its action and how long it is kept. None for "once"."""
    if option is None or option.rule is None or option.scope is None:
        return None
    return option.rule, "allow" if is_allowing(option.kind) else "deny", option.scope


def decide_by_rules(request: Request | None, verdict: Verdict, option: Option | None = None) -> Decision:
    """Return the decision that the rules made. `request` is None for a call that needs no permission.

    Raises: ValueError if the verdict is to ask.
    """
    if verdict.action == "ask":
        raise ValueError("the verdict is to ask: ask the user and call decide_by_answer")
    return Decision(
        action=verdict.action,
        decided_by=verdict.why if verdict.rule is None else named(verdict.rule),
        reason=verdict.why,
        rule=None if verdict.rule is None else verdict.rule.text,
        option_id=None if option is None else option.id,
        option_kind=None if option is None else option.kind,
        title="" if request is None else request.title,
        kind="" if request is None else request.kind,
        command=None if request is None else request.command_line,
        paths=() if request is None else request.paths,
        project_code=_unseen_code(verdict, verdict.action),
    )


def decide_by_answer(request: Request, verdict: Verdict, selection: Selection) -> Decision:
    """Return the decision after asking about `verdict`. Without a selected option the request is cancelled."""
    option = selection.option
    if option is None:
        action: Literal["allow", "deny", "cancelled"] = "cancelled"
        reason = _reason_without_answer(selection.decided_by, verdict.why)
    else:
        action = "allow" if is_allowing(option.kind) else "deny"
        reason = f"{'allowed' if action == 'allow' else 'refused'} by the user ({verdict.why})"
    return Decision(
        action=action,
        decided_by=selection.decided_by,
        reason=reason,
        option_id=None if option is None else option.id,
        option_kind=None if option is None else option.kind,
        title=request.title,
        kind=request.kind,
        command=request.command_line,
        paths=request.paths,
        project_code=() if selection.decided_by == USER else _unseen_code(verdict, action),
    )


def _unseen_code(verdict: Verdict, action: Action | Literal["cancelled"]) -> tuple[str, ...]:
    return verdict.project.names if verdict.project is not None and action == "allow" else ()


def _reason_without_answer(decided_by: str, why: str) -> str:
    if decided_by == NO_USER:
        return f"{why}, and no user can be asked"
    return {USER: "the user did not answer", TIMEOUT: "the user did not answer in time"}.get(decided_by, decided_by)


def describe_rule(text: str) -> str:
    """Return what a rule covers, in words for a button."""
    kind, _, pattern = text.partition(":")
    if kind == "execute":
        if pattern.endswith(" *"):
            return f"`{pattern[:-2]}` with any arguments"
        return f"`{pattern}`"
    if kind == "mcp":
        server, _, tool = pattern.partition(":")
        return f"`{tool}` of {server}" if tool else f"every tool of {server}"
    if kind == "tool":
        return f"the tool `{pattern}`" if pattern else "every named tool"
    if kind == "fetch":
        return f"fetching from {pattern}"
    verb = {"edit": "edits of", "read": "reading", "delete": "deleting", "move": "moving", "search": "searching"}
    return f"{verb.get(kind, kind)} {pattern}" if pattern else verb.get(kind, kind)
