"""Recordings as tests: a fake agent for client code, a fake client for an agent.

Owns the result: a test that differs from its recording fails with the list of differences. `dragoman.trace` plays
the recordings.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.agent import Agent
from dragoman.client import connect
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    from dragoman.client import ClientOptions, RemoteAgent
    from dragoman.trace import Difference, Replay


class NotAsRecorded(AssertionError):
    """The conversation differed from the recording; `differences` lists how."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        super().__init__("not as recorded:\n" + "\n".join(f"- {difference}" for difference in differences))
        self.differences = tuple(differences)


@asynccontextmanager
async def replayed(
    recording: str | os.PathLike[str] | Replay, *, ignore: Sequence[str] = (), **options: Unpack[ClientOptions]
) -> AsyncIterator[RemoteAgent]:
    """Connect to the agent of a recording, which answers as it did then: initialized, in memory.

    Args:
        recording: The recording, or the path of one.
        ignore: Patterns of what may differ, see `Replay`.
        options: Those of `dragoman.connect`.

    Raises: NotAsRecorded, at the end, if the client did not send what the recorded client sent.
    """
    replay = _replay(recording, ignore)
    ours, theirs = memory_pair()
    serving = asyncio.create_task(replay.serve(theirs))
    try:
        async with connect(ours, **options) as agent:
            yield agent
    except BaseException:
        await serving
        raise
    if differences := await serving:
        raise NotAsRecorded(differences)


async def drive_as_recorded(
    recording: str | os.PathLike[str] | Replay, agent: Agent | Sequence[str], *, ignore: Sequence[str] = ()
) -> None:
    """Send to an agent what the recorded client sent.

    Args:
        recording: The recording, or the path of one.
        agent: The agent, or the command of one.
        ignore: Patterns of what may differ, see `Replay`.

    Raises: NotAsRecorded if it does not answer as the recorded agent did.
    """
    replay = _replay(recording, ignore)
    if isinstance(agent, Agent):
        ours, theirs = memory_pair()
        serving = asyncio.create_task(agent.serve(theirs))
        try:
            differences = await replay.drive(ours)
        finally:
            await serving
    else:
        from dragoman.transports.process import ProcessTransport

        differences = await replay.drive(await ProcessTransport.spawn(agent))
    if differences:
        raise NotAsRecorded(differences)


def _replay(recording: str | os.PathLike[str] | Replay, ignore: Sequence[str]) -> Replay:
    from dragoman.trace import Replay  # not needed by the scripted agent, which loads this package

    return recording if isinstance(recording, Replay) else Replay(recording, ignore=ignore)
