"""The run of the cases for agents of version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.agent.version2.probe import Version2Probe
from dragoman.conformance.case import VERSION2_CASES, Ending, choose_cases, load_cases
from dragoman.conformance.conversation import Gone
from dragoman.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dragoman.conformance.case import Case

# Cases of version 1 about lines and JSON-RPC, which are the same in both versions.
SHARED = ("envelope", "transport")


def cases_of_version2(patterns: Iterable[str] = ()) -> list[Case]:
    """Return every case for an agent of version 2, or those whose id fits one of the shell patterns."""
    import dragoman.conformance.agent.version2.cases  # noqa: F401  # it registers them

    shared = [case for case in load_cases("agent") if case.area in SHARED and case.id not in _OTHERWISE]
    return choose_cases([*VERSION2_CASES.values(), *shared], "agent", patterns)


class Version2Run(AgentRun):
    """One judgement of one agent, in version 2."""

    version = 2

    async def open(self, folder: Path) -> Version2Probe:
        def on_stderr(data: bytes) -> None:
            probe.take_output(data)

        link = await self._target.open(on_stderr)
        probe = Version2Probe(link, self._settings, folder, self.connection)
        return probe

    async def meet(self, cases: Sequence[Case]) -> Any:
        """See whether the program starts and speaks version 2.

        Raises:
            RemoteProtocolError: It speaks another version.
        """
        async with self.connection() as probe:
            try:
                answer = await probe.initialize()
            except Gone:
                assert probe.ended is not None
                raise probe.ended from None
            except Ending:
                self._can_initialize = False
                return None
        version = probe.answered.get("protocolVersion")
        if not answer.is_error and version == 1:
            raise RemoteProtocolError("the agent speaks version 1 of the protocol: check it with --protocol 1")
        return probe.answered.get("info")


_OTHERWISE: frozenset[str] = frozenset()
