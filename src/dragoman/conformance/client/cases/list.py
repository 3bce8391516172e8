"""Listing sessions, for clients that do: filters, pages, cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import CaseNeeds, Fail, Skip, case
from dragoman.conformance.expect import is_absolute

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

# Opaque: it looks like a number, like a path and like base64 at once.
_CURSOR = "007/Zw== \u00e9?&next=2"
_ELSEWHERE = "/nonexistent/dragoman-check"


async def _listed(probe: ClientProbe, *pages: dict[str, Any]) -> list[WireMessage]:
    """Return what the client asks for while it is given these pages, in a row; the last one again and again."""
    left = list(pages)
    probe.answers["session/list"] = lambda request: left.pop(0) if len(left) > 1 else left[0]
    await probe.prompted()
    await probe.settle()
    probe.first("session/list")
    return probe.sent("session/list")


@case("client/list/params", rules=(123, 124), needs=CaseNeeds(calls="session/list"))
async def params(probe: ClientProbe) -> None:
    """session/list has no other params than an absolute cwd and a cursor, and begins without a cursor.

    Looks at session/list, if it comes.
    """
    request = (await _listed(probe, {"sessions": []}))[0]
    found = {name: value for name, value in request.params.items() if value is not None and name != "_meta"}
    if not found.keys() <= {"cwd", "cursor"}:
        raise Fail(f"session/list has the params {sorted(found)}")
    if "cursor" in found:
        raise Fail(f"the first session/list has the cursor {found['cursor']!r}, which the agent never gave")
    if "cwd" in found and not is_absolute(found["cwd"]):
        raise Fail(f"the cwd of session/list is {found['cwd']!r}")


@case("client/list/opaque-cursor", rules=(129,), needs=CaseNeeds(calls="session/list"))
async def opaque_cursor(probe: ClientProbe) -> None:
    """A cursor comes back exactly as the agent gave it.

    Gives a first page with a cursor; expects that the second session/list, if it comes, has the same cursor.
    """
    requests = await _listed(probe, {"sessions": [_session(1)], "nextCursor": _CURSOR}, {"sessions": []})
    if len(requests) < 2:
        raise Skip("the client does not ask for a second page by itself")
    if requests[1].params.get("cursor") != _CURSOR:
        raise Fail(f"the cursor {_CURSOR!r} came back as {requests[1].params.get('cursor')!r}")


@case("client/list/last-page", rules=(128,), needs=CaseNeeds(calls="session/list"))
async def last_page(probe: ClientProbe) -> None:
    """A page without nextCursor, or with null, is the last one.

    Gives two pages, the second without a cursor; expects no third session/list of the same walk.
    """
    first: dict[str, Any] = {"sessions": [_session(1)], "nextCursor": "second"}
    requests = await _listed(probe, first, {"sessions": [_session(2)], "nextCursor": None})
    if len(requests) < 2:
        raise Skip("the client does not ask for a second page by itself")
    third = requests[2:]
    if third and third[0].params.get("cursor") is not None:
        raise Fail(f"after the last page the client asked for one more, with the cursor {third[0].params['cursor']!r}")


@case("client/list/odd-entries", rules=(226, 227), needs=CaseNeeds(calls="session/list"))
async def odd_entries(probe: ClientProbe) -> None:
    """An entry that is malformed is skipped, and a malformed member counts as absent.

    Lists sessions without ids, with a number as title and without a time; expects the client's prompt.
    """
    odd = [7, {"title": "no id"}, {**_session(1), "title": 5, "updatedAt": False}, {**_session(2), "_meta": None}]
    probe.answers["session/list"] = lambda request: {"sessions": odd}
    await probe.initialize()
    await probe.require_prompt("a list of sessions with malformed entries")


def _session(number: int) -> dict[str, Any]:
    return {"sessionId": f"sess-listed-{number}", "cwd": _ELSEWHERE, "title": f"Session {number}"}
