"""The run of the cases about requests, one after the other."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from dragoman.conformance.case import CaseResult, Ending, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.conformance.case import Case, Status
    from dragoman.conformance.remote.probe import RemoteProbe
    from dragoman.conformance.runner import Progress

_log = logging.getLogger("dragoman.conformance")
_BOUND_SECONDS = 120.0


async def judge_requests(
    probe: RemoteProbe, cases: Sequence[Case], on_result: Progress | None = None
) -> list[CaseResult]:
    """Find out how a served agent does in each case."""
    results: list[CaseResult] = []
    for case in cases:
        status: Status = "pass"
        message, began = "", monotonic()
        try:
            async with asyncio.timeout(_BOUND_SECONDS):
                await case.run(probe)
        except Ending as ending:
            status, message = status_of(case, ending), ending.message
        except TimeoutError:
            status, message = "inconclusive", f"not finished after {_BOUND_SECONDS:g} s"
        except Exception as error:
            _log.exception("the case %s has a bug", case.id)
            status, message = "error", f"{type(error).__name__}: {error}"
        results.append(CaseResult(case.id, status, message, monotonic() - began))
        if on_result is not None:
            on_result(results[-1], len(results), len(cases))
    return results
