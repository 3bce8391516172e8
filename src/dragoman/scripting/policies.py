"""Ready answers to an agent's permission requests, for `permission=`.

Owns the three answers a script can give without a user. Rules are judged by `dragoman.client.ClientPermissions`;
`dragoman.ask_in_terminal` asks the user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.client.permission import ClientPermissions
from dragoman.policy import parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dragoman.client import Asker, Decision, Session
    from dragoman.policy import Action, Rule
    from dragoman.schema import v1


def rules(
    *allow: str,
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    asker: Asker | None = None,
    agent: str = "",
    on_decision: Callable[[Decision], None] | None = None,
) -> ClientPermissions:
    """Permit by rules: what is allowed is done, what is denied is refused, the rest is asked or cancelled.

    The result is also what `WorkspaceFiles(permissions=...)` and `LocalTerminals(permissions=...)` take, so that files
    and commands that go through this program follow the same rules. `decisions` lists what was decided.

    Args:
        allow: what is allowed, such as `"edit:src/**"` or `"execute:npm test"`; docs/rules.md has the grammar.
        deny: what is refused, whatever is allowed.
        ask: what is asked about, whatever is allowed.
        asker: asks the user, such as `dragoman.ask_in_terminal`; without one such requests are cancelled.
        agent: the agent's name, for rules of the form `AGENT@KIND`.
        on_decision: called with each decision.

    Raises:
        ConfigError: a rule cannot be understood; the message says what to write instead.
    """
    written: tuple[tuple[Action, Iterable[str]], ...] = (("deny", deny), ("ask", ask), ("allow", allow))
    parsed: list[Rule] = [
        parse_rule(text, action, "flag", f"rules(), {action}") for action, texts in written for text in texts
    ]
    return ClientPermissions(parsed, agent=agent, asker=asker, on_decision=on_decision)


async def allow_once(request: v1.RequestPermissionRequest, session: Session) -> str | None:
    """Allow everything the agent asks for, each time once. Use it where the agent can do no harm: in a container."""
    return _first(request, "allow_once")


async def deny_all(request: v1.RequestPermissionRequest, session: Session) -> str | None:
    """Refuse everything the agent asks for. Unlike a cancelled request, the agent goes on without it."""
    return _first(request, "reject_once")


def _first(request: v1.RequestPermissionRequest, kind: str) -> str | None:
    return next((option.option_id for option in request.options if option.kind == kind), None)
