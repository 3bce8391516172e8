"""Methods about what the turns of a session changed: look at it, decide about it hunk by hunk.

Everything that touches the disk runs in a thread, one call at a time for each folder, whichever client it comes from. A
decision names the revision that its client saw, so that it never meets something else; none is made while a turn runs
in a folder of the session, because the agent may write what is about to be taken back.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, TypeVar

import msgspec

from dragoman.errors import RequestError
from dragoman.host.history.facts import COMMENTS
from dragoman.host.methods.params import find_session, read_params, text_member
from dragoman.host.working.session_review import SESSION, ReviewChanged, SessionReview
from dragoman.policy.paths import is_below
from dragoman.runs.changes import snapshots_folder
from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SNAPSHOT_LIMITS
from dragoman.snapshots.overlap import stored_folders
from dragoman.snapshots.review import ReviewMark, ReviewRefused
from dragoman.snapshots.session_turns import SessionTurns, find_session_turns
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call

T = TypeVar("T")
_DECISIONS: Final = ("keep", "unkeep", "revert", "undo")
_NO_TURNS: Final[dict[str, Any]] = {"turns": [], "revision": "", "canRedo": False}


class Followed(NamedTuple):
    """A session whose folders no other call looks at meanwhile."""

    session: HostedSession
    roots: tuple[str, ...]
    turns: SessionTurns | None
    """None if no turn of it was followed."""

    @property
    def review(self) -> SessionReview:
        """What a user reviews. Raises: RequestError if there is nothing."""
        if self.turns is None:
            raise refused("no turn of this session was followed yet; changes are known when a turn has ended")
        return SessionReview(self.turns, self.session.record.cwd)


async def list_turns(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the turns of a session that were followed, and how much each changed."""
    async with following(host, client, read_params(call.params)) as found:
        if found.turns is None:
            return _NO_TURNS
        comments = found.session.facts.get(COMMENTS) or {}
        answer = await asyncio.to_thread(found.review.overview)
        for turn in answer["turns"]:
            if turn["promptId"] in comments:
                turn["review"] = comments[turn["promptId"]]
        return answer


async def list_files(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the files that a turn, or the whole session, changed, hunk by hunk."""
    params = read_params(call.params)
    path = text_member(params, "path") if params.get("path") is not None else None
    async with following(host, client, params) as found:
        turn = _turn(params, found)
        return await _work(lambda: found.review.files(turn, path))


async def read_context(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with lines of a changed file, as it was before or after."""
    params = read_params(call.params)
    path, side = text_member(params, "path"), text_member(params, "side")
    first, last = params.get("from"), params.get("to")
    if side not in ("before", "after"):
        raise RequestError.invalid_params("side must be before or after", path="$.side")
    if not _is_number(first) or not _is_number(last) or first < 1:
        raise RequestError.invalid_params("from and to must be numbers of lines, counted from 1", path="$.from")
    async with following(host, client, params) as found:
        turn = _turn(params, found)
        return await _work(lambda: found.review.context(turn, path, side, first, last))


async def decide(host: Host, client: HostConnection, call: Call) -> object:
    """Keep a change, or take it back: of a file, or of some of its hunks."""
    params = read_params(call.params)
    path = text_member(params, "path") if params.get("path") is not None else None
    do, revision, hunks = params.get("do"), text_member(params, "revision"), params.get("hunks") or []
    if do not in _DECISIONS:
        raise RequestError.invalid_params(f"do must be one of {', '.join(_DECISIONS)}", path="$.do")
    if not isinstance(hunks, list) or not all(map(_is_number, hunks)) or (hunks and path is None):
        raise RequestError.invalid_params("hunks must be numbers of hunks of one path", path="$.hunks")
    async with following(host, client, params) as found:
        turn, review = _turn(params, found), found.review
        await require_rest(host, found.roots)

        def work() -> dict[str, Any]:
            now = review.revision()
            if now != revision:
                raise changed(now)
            review.decide(turn, path, hunks, do)
            file = None if path is None else review.document(turn, path)
            return {"file": file, "revision": review.revision()}

        answer = await _work(work)
        await note_changed(found, turn, answer["revision"])
        return answer


async def mark_reviewed(host: Host, client: HostConnection, call: Call) -> object:
    """Note that a user has seen what a file became, or has not."""
    params = read_params(call.params)
    path, is_reviewed = text_member(params, "path"), params.get("isReviewed")
    if not isinstance(is_reviewed, bool):
        raise RequestError.invalid_params("isReviewed must be true or false", path="$.isReviewed")
    mark = ReviewMark(round(time.time() * 1000), text_member(params, "digest"), client.who) if is_reviewed else None
    async with following(host, client, params) as found:
        turn, review = _turn(params, found), found.review

        def work() -> dict[str, Any]:
            try:
                review.mark(turn, path, mark)
            except ReviewChanged:
                raise changed(review.revision()) from None
            return {"file": review.document(turn, path), "revision": review.revision()}

        answer = await _work(work)
        await note_changed(found, turn, answer["revision"])
        return answer


# Shared with rewinding


@asynccontextmanager
async def following(host: Host, client: HostConnection, params: dict[str, Any]) -> AsyncIterator[Followed]:
    """Find a session and its turns, and be the only one in its folders.

    Raises:
        RequestError: there is no such session.
    """
    session = await find_session(host, client, params)
    async with following_session(host, session, client.visitor.folders) as found:
        yield found


@asynccontextmanager
async def following_session(
    host: Host, session: HostedSession, folders: Sequence[str] | None = None
) -> AsyncIterator[Followed]:
    """Be the only one in the folders of a session; of them, those below `folders` are looked at."""
    roots = await asyncio.to_thread(_roots, session, folders)
    async with AsyncExitStack() as alone:
        for root in roots:  # sorted, so that two sessions that share folders never wait for each other
            await alone.enter_async_context(host.alone_in(root))
        names = _agent_names(host, session)
        turns = await asyncio.to_thread(_find, session.agent_session or "", names, roots)
        yield Followed(session, roots, turns)


async def require_rest(host: Host, roots: Sequence[str]) -> None:
    """Raises: RequestError if a turn runs in one of these folders, or in one around or inside them."""
    for session in host.live_sessions():
        if session.prompts.running is not None:
            theirs = await asyncio.to_thread(_roots, session, None)
            if any(_touch(one, other) for one in roots for other in theirs):
                raise _running(session.record.agent)
    others = await asyncio.to_thread(_live_elsewhere, roots)
    if others:
        raise _running(others[0])


async def note_changed(found: Followed, turn: int | str | None, revision: str) -> None:
    """Report to every attached client that there is something else to see, and note it for lists."""
    session = found.session
    body = msgspec.json.encode({"sessionId": session.id, "turn": turn, "revision": revision})
    for attachment in list(session.attachments):
        client = attachment.client
        if client.kind.knows_us and client.peer.is_open:
            client.peer.post(write_notification("_dragoman/changes/changed", body))
    await note_summary(found)


async def note_summary(found: Followed) -> None:
    """Keep how much a session changed with the session, for lists."""
    if found.turns is None:
        return
    try:
        summary = await asyncio.to_thread(found.review.summary)
    except OSError:  # a list without these numbers is better than a decision that seems to have failed
        return
    if found.session.facts.get("changes") != summary:
        found.session.facts["changes"] = summary
        found.session.describe()


def refused(why: str) -> RequestError:
    """Return the error for what cannot be done; the message says why."""
    return RequestError(-32603, why, {"reason": "refused"})


def changed(revision: str) -> RequestError:
    """Return the error for a decision about something that is not there any more."""
    return RequestError(
        -32603,
        "something else was decided or changed meanwhile; look again",
        {"reason": "changed", "revision": revision},
    )


async def _work(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except ReviewRefused as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"the snapshots cannot be used: {error.strerror or error}") from None


def _running(agent: str) -> RequestError:
    return RequestError(
        -32603, f"a turn of {agent or 'another session'} runs in this folder; wait for its end", {"reason": "running"}
    )


def _turn(params: dict[str, Any], found: Followed) -> int | str:
    turn = params.get("turn")
    count = 0 if found.turns is None else len(found.turns.turns)
    if turn == SESSION:
        return SESSION
    if _is_number(turn) and 1 <= turn <= count:
        return turn
    raise RequestError.invalid_params(f"turn must be {SESSION!r} or a number from 1 to {count}", path="$.turn")


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _roots(session: HostedSession, folders: Sequence[str] | None) -> tuple[str, ...]:
    found = {os.path.realpath(root) for root in (session.record.cwd, *session.directories)}
    if folders is not None:
        allowed = [os.path.realpath(folder) for folder in folders]
        found = {root for root in found if any(is_below(root, folder) for folder in allowed)}
    return tuple(sorted(found))


def _agent_names(host: Host, session: HostedSession) -> tuple[str, ...]:
    """Return the names under which the turns of an agent may be recorded."""
    from dragoman.host.local.agents import ledger_name

    agent = session.record.agent
    own = getattr(host.find_source(agent), "ledger_name", None)
    return tuple(dict.fromkeys(name for name in (own, ledger_name(agent), agent) if name))


def _find(session_id: str, names: Sequence[str], roots: Sequence[str]) -> SessionTurns | None:
    base = snapshots_folder()
    for name in names:
        turns = find_session_turns(base, session_id, name, roots=roots)
        if turns is not None:
            return turns
    return None


def _live_elsewhere(roots: Sequence[str]) -> list[str]:
    """Return the agents whose turns run in these folders, started by any program of this user."""
    base = snapshots_folder()
    return [
        live.agent
        for folder in stored_folders(base)
        if any(_touch(folder, root) for root in roots)
        for live, is_alive in FolderStore(base, folder, SNAPSHOT_LIMITS).live_turns()
        if is_alive
    ]


def _touch(one: str, other: str) -> bool:
    return is_below(one, other) or is_below(other, one)
