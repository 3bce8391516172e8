"""Closing, listing and deleting sessions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import CaseNeeds, Fail, Inconclusive, Warn, case
from dragoman.conformance.expect import expect_code, expect_empty, is_absolute, is_same_path

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage

_CLOSE = CaseNeeds(offers=("sessionCapabilities.close",))
_LIST = CaseNeeds(offers=("sessionCapabilities.list",))
_DELETE = CaseNeeds(offers=("sessionCapabilities.delete",))
_LIST_AND_DELETE = CaseNeeds(offers=(*_LIST.offers, *_DELETE.offers))
# The history of a real user may be long; this many pages show how paging works.
_PAGES = 20
# No client wants more in one answer.
_PAGE_SESSIONS = 1000


@case("agent/close/result", rules=(56, 117), needs=_CLOSE)
async def close_result(probe: AgentProbe) -> None:
    """session/close of an open session succeeds with an empty object.

    Opens and closes a session; expects an object with nothing but _meta.
    """
    answer = await probe.call("session/close", {"sessionId": await probe.new_session()})
    expect_empty(answer, "session/close")


@case("agent/close/cancels", rules=(116, 196), needs=_CLOSE)
async def close_cancels(probe: AgentProbe) -> None:
    """session/close cancels what is running: the open prompt is answered with the stop reason cancelled.

    Closes a session in the middle of a turn; expects the prompt to be answered with cancelled.
    """
    turn = await probe.running()
    close = probe.request("session/close", {"sessionId": turn.session_id})
    # No model is needed for this answer. An agent that gives it only when its model is done has cancelled nothing.
    end = await turn.end(probe.settings.timeout_seconds)
    if end.fields.get("stopReason") != "cancelled":
        raise Fail(f"the prompt of a session that was closed was answered with {end}")
    answer = await probe.answer(close, "answer to session/close")
    if answer.is_error:
        raise Fail(f"session/close in the middle of a turn was answered with {answer}")


@case("agent/close/inactive-after", rules=(119, 120), level="SHOULD", needs=_CLOSE, provokes=True)
async def inactive_after(probe: AgentProbe) -> None:
    """A closed session cannot be prompted until it was loaded or resumed.

    Prompts a session after closing it; expects an error.
    """
    session_id = await probe.new_session()
    await probe.call("session/close", {"sessionId": session_id})
    end = await probe.prompt(session_id, probe.text("say")).end()
    if not end.is_error:
        raise Fail("a prompt to a closed session was answered with a result")
    if end.code != -32002:
        raise Warn(f"a prompt to a closed session was answered with {end}, not with -32002")


@case("agent/close/unknown-session", rules=(118, 119, 342), level="SHOULD", needs=_CLOSE, provokes=True)
async def close_unknown(probe: AgentProbe) -> None:
    """Closing a session that is not open succeeds, or fails with -32002.

    Closes a session that does not exist; expects success or -32002.
    """
    answer = await probe.call("session/close", {"sessionId": "no-such-session"})
    if answer.is_error and answer.code != -32002:
        raise Fail(f"session/close of a session that does not exist was answered with {answer}")


@case("agent/list/shape", rules=(56, 123, 126, 127), needs=_LIST)
async def list_shape(probe: AgentProbe) -> None:
    """session/list gives a list of sessions, each with an id and an absolute folder.

    Has a turn and lists with `{}`; expects `sessions`, and the required members in each.
    """
    await probe.acted("say")
    answer = await probe.call("session/list", {})
    if answer.is_error:
        raise Fail(f"session/list was answered with {answer}")
    if not isinstance(answer.fields.get("sessions"), list):
        raise Fail("the result of session/list has no list `sessions`")
    for session in answer.fields["sessions"]:
        if isinstance(session, dict) and session.get("sessionId") in probe.provoked:
            continue  # its folder is what the judge sent, which another case warns about
        _expect_session_info(session)


@case("agent/list/empty", rules=(126,), needs=_LIST)
async def list_empty(probe: AgentProbe) -> None:
    """Without a match, `sessions` is an empty list.

    Lists the sessions of a folder that has none; expects an empty list, not an error and not null.
    """
    empty = probe.folder / "no-sessions-here"
    empty.mkdir(exist_ok=True)
    answer = await probe.call("session/list", {"cwd": str(empty)})
    if answer.is_error or not isinstance(answer.fields.get("sessions"), list):
        raise Fail(f"session/list of a folder without sessions was answered with {answer}")


@case("agent/list/filter", rules=(125,), level="SHOULD", needs=_LIST)
async def list_filter(probe: AgentProbe) -> None:
    """A list for one folder has the sessions of that folder only.

    Has turns in two folders and lists one of them; expects no session of the other.
    """
    here, there = probe.folder / "listed", probe.folder / "unlisted"
    for folder in (here, there):
        folder.mkdir(exist_ok=True)
        await probe.acted("say", await probe.new_session(cwd=str(folder)))
    answer = await probe.call("session/list", {"cwd": str(here)})
    for session in _sessions(answer):
        if not is_same_path(session.get("cwd"), here):
            raise Fail(f"the list for {here} has a session of {session.get('cwd')}")


@case("agent/list/pages", rules=(126, 131), level="SHOULD", needs=_LIST)
async def list_pages(probe: AgentProbe) -> None:
    """Pages are bounded, follow each other by their cursors, and repeat nothing.

    Has turns in four sessions and follows nextCursor; expects every session once.
    """
    for _ in range(4):
        await probe.acted("say")
    seen: list[str] = []
    params: dict[str, Any] = {}
    for _ in range(_PAGES):
        answer = await probe.call("session/list", params)
        page = [str(session.get("sessionId")) for session in _sessions(answer)]
        if len(page) > _PAGE_SESSIONS:
            raise Fail(f"one page has {len(page)} sessions")
        seen += page
        cursor = answer.fields.get("nextCursor")
        if cursor is None:
            break
        if not isinstance(cursor, str):
            raise Fail(f"nextCursor is {cursor!r}")
        params = {"cursor": cursor}
    if len(set(seen)) < len(seen):
        raise Fail("a session stands on two pages")


@case("agent/list/invalid-cursor", rules=(130, 337), level="SHOULD", needs=_LIST, provokes=True)
async def list_invalid_cursor(probe: AgentProbe) -> None:
    """A cursor that the agent did not give out is refused with -32602.

    Lists with a made-up cursor; expects -32602.
    """
    answer = await probe.call("session/list", {"cursor": "no such cursor \u2603"})
    expect_code(answer, -32602, "an invalid cursor")


@case("agent/list/no-side-effects", rules=(134,), level="SHOULD", needs=_LIST)
async def list_no_side_effects(probe: AgentProbe) -> None:
    """Listing changes nothing: an open session stays open.

    Lists twice around a turn; expects the same list twice, and the open session to answer.
    """
    session_id = await probe.new_session()
    await probe.acted("say", session_id)
    params = {"cwd": probe.cwd}
    one, two = await probe.call("session/list", params), await probe.call("session/list", params)
    if [session.get("sessionId") for session in _sessions(one)] != [
        session.get("sessionId") for session in _sessions(two)
    ]:
        raise Fail("two lists in a row differ")
    await probe.acted("say", session_id)


@case("agent/delete/result", rules=(56, 136), needs=_DELETE)
async def delete_result(probe: AgentProbe) -> None:
    """session/delete succeeds with an empty object.

    Has a turn and deletes the session; expects an object with nothing but _meta.
    """
    answer, _ = await _deleted(probe)
    if answer.is_error and not probe.offers("sessionCapabilities.close"):
        raise Inconclusive(f"an open session cannot be deleted, and this agent closes none: {answer}")
    expect_empty(answer, "session/delete")


@case("agent/delete/gone", rules=(137,), level="SHOULD", needs=_LIST_AND_DELETE)
async def delete_gone(probe: AgentProbe) -> None:
    """A deleted session is not listed any more.

    Deletes a session and lists; expects that it is not there.
    """
    answer, session_id = await _deleted(probe)
    if answer.is_error:
        raise Inconclusive(f"session/delete was answered with {answer}")
    listed = await probe.call("session/list", {"cwd": probe.cwd})
    if session_id in [session.get("sessionId") for session in _sessions(listed)]:
        raise Fail("a deleted session is still listed")


@case("agent/delete/twice", rules=(138,), level="SHOULD", needs=_DELETE)
async def delete_twice(probe: AgentProbe) -> None:
    """Deleting a session that is gone already, or never was, succeeds silently.

    Deletes a session twice, and one that never existed; expects success.
    """
    _, session_id = await _deleted(probe)
    for missing in (session_id, "no-such-session"):
        answer = await probe.call("session/delete", {"sessionId": missing})
        if answer.is_error:
            raise Fail(f"deleting a missing session was answered with {answer}")


async def _deleted(probe: AgentProbe) -> tuple[WireMessage, str]:
    session_id = await probe.new_session()
    await probe.acted("say", session_id)
    if probe.offers("sessionCapabilities.close"):
        # What happens to an open session is the agent's own affair (rule 139).
        await probe.call("session/close", {"sessionId": session_id})
    return await probe.call("session/delete", {"sessionId": session_id}), session_id


def _sessions(answer: WireMessage) -> list[dict[str, Any]]:
    sessions = answer.fields.get("sessions")
    if answer.is_error or not isinstance(sessions, list):
        raise Inconclusive(f"session/list was answered with {answer}")
    return [session for session in sessions if isinstance(session, dict)]


def _expect_session_info(session: object) -> None:
    if not isinstance(session, dict) or not isinstance(session.get("sessionId"), str):
        raise Fail(f"a listed session has no sessionId: {session!r}")
    cwd = session.get("cwd")
    if not is_absolute(cwd):
        raise Fail(f"the cwd of a listed session is {cwd!r}")
    updated = session.get("updatedAt")
    if updated is not None and not _is_time(updated):
        raise Fail(f"updatedAt of a listed session is {updated!r}, which is not ISO 8601")


def _is_time(text: object) -> bool:
    try:
        datetime.fromisoformat(str(text))
    except ValueError:
        return False
    return isinstance(text, str)
