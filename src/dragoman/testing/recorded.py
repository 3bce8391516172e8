"""Recordings as tests: a fake agent for client code, a fake client for an agent.

Owns the verdict: a test that is not as recorded fails, with the list of differences. Playing is `dragoman.trace`'s.
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
    """Something was not as the recording has it; `differences` says what."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        super().__init__("not as recorded:\n" + "\n".join(f"- {difference}" for difference in differences))
        self.differences = tuple(differences)


@asynccontextmanager
async def replayed(
    recording: str | os.PathLike[str] | Replay, *, ignore: Sequence[str] = (), **options: Unpack[ClientOptions]
) -> AsyncIterator[RemoteAgent]:
    """The agent of a recording, as a client sees it: initialized, over memory, answering as it did.

    `ignore` are patterns of what may differ (see `Replay`), `options` those of `dragoman.connect`.

    Raises: NotAsRecorded, at the end, if the client side did not do what the recorded client did.
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
    """Says to an agent, or to the program a command starts, what the recorded client said.

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
    from dragoman.trace import Replay  # the scripted agent, which starts with this package, does without

    return recording if isinstance(recording, Replay) else Replay(recording, ignore=ignore)
