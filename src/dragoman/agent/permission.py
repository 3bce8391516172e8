"""Questions for permission, and how their answers are read.

Owns what counts as a yes: the kind of the chosen option and nothing else. Does not know how tool calls are shown.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.agent.client import ClientError
from dragoman.agent.values import check_permission_options, check_tool_call
from dragoman.errors import LocalProtocolError, RemoteProtocolError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent.session import AgentSession

_log = logging.getLogger("dragoman.agent")


class Permission(Struct, frozen=True):
    """The user's answer to a permission request. It is true only for a yes, so that `if await turn.ask(...)` is safe.

    `option_id` and `kind` are those of the chosen option, None when the request was cancelled or the answer is invalid.
    `decided_by` and `reason` are what a dragoman client reports about a decision that the user did not make;
    `decided_by` is `cancelled` if the user closed the question.
    """

    allowed: bool
    option_id: str | None = None
    kind: str | None = None
    decided_by: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.allowed


REFUSED = Permission(False)
CANCELLED = Permission(False, decided_by="cancelled")
"""No choice: the user closed the question. The protocol has no other meaning for this outcome."""


async def ask_permission(
    session: AgentSession, tool_call: v1.ToolCallPatch, options: Sequence[v1.PermissionOption] | None
) -> Permission:
    """Send the request to the client. Everything that is not clearly a yes is a no, also an error."""
    offered = allow_or_reject() if options is None else list(options)
    if not offered or len({option.option_id for option in offered}) != len(offered):
        raise LocalProtocolError("a permission request needs at least one option, and every option needs its own id")
    check_permission_options(offered)
    check_tool_call(tool_call)
    request = v1.RequestPermissionRequest(session.id, tool_call, offered)
    try:
        response = await session.client._ask("session/request_permission", request, v1.RequestPermissionResponse)
    except (ClientError, RemoteProtocolError) as error:
        _log.warning("a permission was not given because the client could not be asked: %s", error)
        return REFUSED
    return judge(response.outcome, offered)


def allow_or_reject() -> list[v1.PermissionOption]:
    """Return the usual options.

    "Always" is not among them, because an agent that offers it has to remember the answer.
    """
    return [
        v1.PermissionOption("allow", "Allow", "allow_once"),
        v1.PermissionOption("reject", "Reject", "reject_once"),
    ]


def judge(outcome: v1.RequestPermissionOutcome, offered: Sequence[v1.PermissionOption]) -> Permission:
    """Read an outcome by the kind of the option it names (rule 261)."""
    from dragoman.policy.decide import is_allowing

    if isinstance(outcome, v1.SelectedPermissionOutcome):
        for option in offered:
            if option.option_id == outcome.option_id:
                own = outcome.meta.get("dragoman") if isinstance(outcome.meta, dict) else None
                reported = own if isinstance(own, dict) else {}
                by, reason = (str(reported.get(name) or "") for name in ("decidedBy", "reason"))
                return Permission(is_allowing(option.kind), option.option_id, option.kind, by, reason)
        _log.warning("the client chose an option that was not offered; that counts as a no")
    return CANCELLED if isinstance(outcome, v1.CancelledPermissionOutcome) else REFUSED
