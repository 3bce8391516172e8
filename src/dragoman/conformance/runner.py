"""Runs one case on one probe and says how it ended.

Owns the line between the judged and the judge: an ending raised by a case is a finding, anything else is an error of
ours. Works for both roles.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from dragoman.conformance.case import CaseResult, Ending, status_of

if TYPE_CHECKING:
    from dragoman.conformance.case import Case, Status
    from dragoman.trace.entry import Entry

_log = logging.getLogger("dragoman.conformance")


class Probe(Protocol):
    """What a case is given: anything that keeps what was exchanged."""

    entries: list[Entry]


async def judge(case: Case, probe: Probe, *, bound_seconds: float) -> CaseResult:
    """The case's result, with what was exchanged while it ran as its evidence."""
    start, began = len(probe.entries), monotonic()
    status: Status = "pass"
    message = ""
    try:
        async with asyncio.timeout(bound_seconds):
            await case.run(probe)
    except Ending as ending:
        status, message = status_of(case, ending), ending.message
    except TimeoutError:
        status, message = "inconclusive", f"not finished after {bound_seconds:g} s"
    except Exception as error:
        _log.exception("the case %s has a bug", case.id)
        status, message = "error", f"{type(error).__name__}: {error}"
    # Half a character from the judged program must not break a report.
    message = message.encode(errors="replace").decode()
    return CaseResult(case.id, status, message, monotonic() - began, probe.entries[start:])
