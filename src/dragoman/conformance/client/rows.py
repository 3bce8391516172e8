"""A kind of row that several tables of cases for clients are made of: what the judge answers to initialize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Case, Fail
from dragoman.conformance.client.probe import FULL

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

_GATED = ("session/load", "session/resume", "session/list", "session/close", "session/delete", "logout")


@dataclass(frozen=True, kw_only=True)
class HandshakeCase(Case):
    """Answers initialize in an unusual way; expects that the client opens a session and sends its prompt."""

    capabilities: Any = field(default_factory=lambda: FULL)
    members: Mapping[str, Any] = field(default_factory=dict)
    """Other members of the result than a usual agent's."""
    what: str
    """What was unusual: an answer, as a noun."""
    unused: str = ""
    """Why no capability may be used, for the failure; empty if any may."""

    @property
    def steps(self) -> str:
        unused = ", and no use of any capability" if self.unused else ""
        return f"Sends {self.what}; expects a session and a prompt{unused}."

    async def run(self, probe: ClientProbe) -> None:
        await probe.initialize(self.capabilities, **self.members)
        await probe.require_prompt(self.what)
        if self.unused:
            _expect_unused(probe, self.unused)


def _expect_unused(probe: ClientProbe, why: str) -> None:
    gated = probe.sent(*_GATED)
    if gated:
        raise Fail(f"{gated[0].method} was called although {why}")
    for request in probe.sent("session/prompt"):
        kinds = {str(block.get("type")) for block in request.params.get("prompt") or () if isinstance(block, dict)}
        if kinds & {"image", "audio", "resource"}:
            raise Fail(f"the prompt has blocks of {sorted(kinds)} although {why}")
