"""Rules of a client: what it wants to be asked about, although this agent would do it without asking.

A client may have rules of its own, as `dragoman exec --deny` has. Much of what this agent does is not visible to the
client before it happens: safe commands, commands in the sandbox, searches. So the client names its rules in
`_meta.dragoman.asksAbout` when it opens a session, and decides about each request that they concern. They can only
restrict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.policy import Rule

_SOURCE: Final = "a rule of the client"
_MOST_RULES: Final = 10_000


def read_client_rules(meta: Mapping[str, Any] | Any) -> tuple[Rule, ...]:
    """The rules in the `_meta` of a request that opens a session. Raises: RequestError if one is not valid."""
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    texts = own.get("asksAbout", []) if isinstance(own, dict) else []
    path = "$._meta.dragoman.asksAbout"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > _MOST_RULES:
        raise RequestError.invalid_params(f"asksAbout must be a list of at most {_MOST_RULES} rules", path=path)
    if not texts:
        return ()
    from dragoman.policy import parse_rule

    try:
        return tuple(parse_rule(text, "ask", "flag", _SOURCE) for text in texts)
    except ConfigError as error:
        raise RequestError.invalid_params(str(error), path=path) from error
