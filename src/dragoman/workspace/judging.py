"""Keeps the judging of long requests off the event loop.

A command line may have 200 KB, and judging it takes tens of milliseconds; the files that a request names are looked at
on the disk, too. A short request, which is nearly every one, is judged at once: a thread would take longer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.policy.rule import Request

LONG_LETTERS: Final = 16 * 1024
"""Judging a line of this length takes a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop_if_long(requests: Sequence[Request], judge: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `judge` in a thread if the requests are long, at once otherwise. It must not change what the loop uses."""
    if sum(map(_letters, requests)) > LONG_LETTERS:
        return await asyncio.to_thread(judge, *args, **kwargs)
    return judge(*args, **kwargs)


def _letters(request: Request) -> int:
    return len(request.shell or "") + sum(map(len, request.command or ())) + sum(map(len, request.paths))
