"""Which translator stands between a client and an agent: one, two in a row, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from dragoman.versions.frames import OTHER, Frame, Sent, Side
from dragoman.versions.losses import Lost
from dragoman.versions.unchanged import Unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.versions.permission import Decide
    from dragoman.versions.router import Translator

Version: TypeAlias = Literal["1", "2", "2025.1"]
VERSIONS: Final[tuple[Version, ...]] = get_args(Version)


class Chain:
    """Two translators in a row: the first one's agent is the second one's client."""

    def __init__(self, first: Translator, second: Translator) -> None:
        self._links: Sequence[Translator] = (first, second)

    @property
    def losses(self) -> tuple[Lost, ...]:
        """What either of them could not translate, each kind once."""
        counts: dict[str, Lost] = {}
        for link in self._links:
            for lost in link.losses:
                known = counts.get(lost.kind)
                counts[lost.kind] = Lost(lost.kind, lost.what, lost.count + (known.count if known else 0))
        return tuple(counts.values())

    @property
    def wait_seconds(self) -> float | None:
        """The shorter time that one of them waits for."""
        return min((link.wait_seconds for link in self._links if link.wait_seconds is not None), default=None)

    def elapsed(self) -> list[Sent]:
        """Return what leaves the chain after that time."""
        out: list[Sent] = []
        for at, link in enumerate(self._links):
            out += self._carry(at, link.elapsed())
        return out

    def feed(self, side: Side, frame: Frame) -> list[Sent]:
        """Return what leaves the chain on either end, in order."""
        at = 0 if side == "client" else 1
        return self._carry(at, self._links[at].feed(side, frame))

    def closed(self, side: Side) -> list[Sent]:
        """Return what leaves the chain after the connection to `side` was lost."""
        at = 0 if side == "client" else 1
        return self._carry(at, self._links[at].closed(side))

    def _carry(self, at: int, sent: list[Sent]) -> list[Sent]:
        out: list[Sent] = []
        for side, frame in sent:
            beyond = at + (1 if side == "agent" else -1)
            if 0 <= beyond < len(self._links):
                out += self._carry(beyond, self._links[beyond].feed(OTHER[side], frame))
            else:
                out.append((side, frame))
        return out


def translator(
    client: Version,
    agent: Version | Literal["auto"],
    *,
    folder: str = "/",
    decide: Decide | None = None,
    token: str | None = None,
    is_lazy: bool = False,
    mark: str = "dragoman",
    known_sessions: Mapping[str, str] | None = None,
    keep_session: Callable[[str, str], None] | None = None,
) -> Translator:
    """Make the translator between a client and an agent of these versions.

    Args:
        agent: `auto` for an agent of version 1 or 2 that shows by its answer to `initialize` which one it speaks.
        folder: The folder that an agent of 2025.1 works in; its sessions cannot have another one.
        decide: Answers the permission requests that a client of 2025.1 cannot be asked; without it they are refused.
        token: What to log in with at an agent of 2025.1.
        is_lazy: An agent of 2025.1 is introduced with the first session, which names its folder and MCP servers.
        mark: How the ids begin that messages for a client of version 2 get if the agent gave none; one that differs
            for each connection keeps apart what a client has seen on another one.
        known_sessions: The agent's session for ids that a client of 2025.1 chose on earlier connections.
        keep_session: Called with each new pair of such ids.
    """
    if client == agent:
        return Unchanged()
    if client == "2" and agent == "auto":
        from dragoman.versions.negotiated import NegotiatedAgent

        return NegotiatedAgent("2", mark)
    if client == "1":
        return _from_v1(agent, folder, token, is_lazy)
    to_v1 = _to_v1(client, decide, mark, known_sessions or {}, keep_session)
    return to_v1 if agent == "1" else Chain(to_v1, _from_v1(agent, folder, token, is_lazy))


def _to_v1(
    client: Version,
    decide: Decide | None,
    mark: str,
    known_sessions: Mapping[str, str],
    keep_session: Callable[[str, str], None] | None,
) -> Translator:
    """Make the translator for a client of another version and an agent of version 1."""
    if client == "2":
        from dragoman.versions.version2.v2_client import V2ClientV1Agent

        return V2ClientV1Agent(mark)
    from dragoman.versions.dialect.client import DialectClientV1Agent

    made = DialectClientV1Agent(decide, keep_session=keep_session)
    made.know_sessions(dict(known_sessions))
    return made


def _from_v1(agent: Version | Literal["auto"], folder: str, token: str | None, is_lazy: bool) -> Translator:
    """Make the translator for a client of version 1 and an agent of another version."""
    if agent == "auto":
        from dragoman.versions.negotiated import NegotiatedAgent

        return NegotiatedAgent("1")
    if agent == "2":
        from dragoman.versions.version2.v1_client import V1ClientV2Agent

        return V1ClientV2Agent()
    from dragoman.versions.dialect.agent import V1ClientDialectAgent

    return V1ClientDialectAgent(folder, token, is_lazy=is_lazy)
