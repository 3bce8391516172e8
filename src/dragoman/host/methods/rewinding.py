"""Methods that take back whole turns: a plan first, then the plan is applied, as far as it still holds.

A plan belongs to the connection that made it, is good for a minute, and is made once more when it is applied: if that
is another one, nothing is changed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.errors import RequestError
from dragoman.host.methods.changes import changed, following, note_changed, refused, require_rest
from dragoman.host.methods.params import read_params, text_member
from dragoman.host.working.session_review import SessionReview
from dragoman.snapshots.session_turns import shown_path

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call
    from dragoman.snapshots.rewind import Choice, Rewinder, RewindPlan
    from dragoman.snapshots.session_turns import SessionTurns

PLAN_SECONDS: Final = 60
_PLANS: Final = 16
_CHOICES: Final = ("keep", "take", "merge")


class _Plan(NamedTuple):
    session: str
    turns: tuple[int, ...]
    """Counted from 1; none for one that brings back what was taken last."""
    plans: list[tuple[Rewinder, RewindPlan]]
    until: float


async def plan_rewind(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with what taking back turns, or bringing back the last rewind, would do. Changes no file."""
    params = read_params(call.params)
    numbers, redo = params.get("turns"), params.get("redo")
    if (redo is True) == (numbers is not None):
        raise RequestError.invalid_params("either turns, a list of numbers, or redo: true", path="$.turns")
    async with following(host, client, params) as found:
        turns = found.turns
        if turns is None:
            raise refused("no turn of this session was followed yet")
        wanted = () if redo is True else _numbers(numbers, len(turns.turns))
        plans = await asyncio.to_thread(_plan, turns, wanted)
    if not plans:
        raise refused("there is nothing to bring back" if redo is True else "these turns have nothing to take back")
    kept: dict[str, _Plan] = client.kept.setdefault("rewinds", {})
    now = monotonic()
    for id in [id for id, plan in kept.items() if plan.until < now] + list(kept)[: max(0, len(kept) - _PLANS)]:
        kept.pop(id, None)
    id = secrets.token_hex(16)
    kept[id] = _Plan(found.session.id, wanted, plans, now + PLAN_SECONDS)
    paths = [_path(rewinder, planned, found.session.record.cwd) for rewinder, plan in plans for planned in plan.paths]
    notes = [note for _, plan in plans for note in plan.notes]
    return {"planId": id, "paths": paths, "notes": list(dict.fromkeys(notes)), "seconds": PLAN_SECONDS}


async def apply_rewind(host: Host, client: HostConnection, call: Call) -> object:
    """Do what a plan says, if it would be the same plan now."""
    params = read_params(call.params)
    id, choices = text_member(params, "planId"), params.get("choices") or {}
    if not isinstance(choices, dict) or not all(choice in _CHOICES for choice in choices.values()):
        raise RequestError.invalid_params(f"choices are {', '.join(_CHOICES)}, by their paths", path="$.choices")
    # Taken here: the same plan is applied once, also if it is asked for twice at a time.
    plan: _Plan | None = client.kept.get("rewinds", {}).pop(id, None)
    if plan is None or plan.until < monotonic():
        raise RequestError(-32603, "this plan is over; make another one", {"reason": "expired"})
    client.require("prompt", plan.session)
    async with following(host, client, {"sessionId": plan.session}) as found:
        turns = found.turns
        if turns is None:
            raise changed("")
        await require_rest(host, found.roots)
        cwd = found.session.record.cwd

        def work() -> dict[str, Any] | None:
            again = _plan(turns, plan.turns)
            if [made for _, made in again] != [made for _, made in plan.plans]:
                return None
            return _apply(again, choices, cwd)

        try:
            answer = await asyncio.to_thread(work)
        except OSError as error:
            raise refused(f"the snapshots cannot be used: {error.strerror or error}") from None
        revision = await asyncio.to_thread(SessionReview(turns, cwd).revision)
        if answer is None:
            raise changed(revision)
        await note_changed(found, None, revision)
        return answer


def _numbers(numbers: Any, count: int) -> tuple[int, ...]:
    is_list = isinstance(numbers, list) and bool(numbers)
    if not is_list or not all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= count for n in numbers):
        raise RequestError.invalid_params(f"turns must be a list of numbers from 1 to {count}", path="$.turns")
    return tuple(sorted(set(numbers)))


def _plan(turns: SessionTurns, numbers: tuple[int, ...]) -> list[tuple[Rewinder, RewindPlan]]:
    for rewinder in turns.rewinders:
        rewinder.complete()  # what a host that was killed had begun
    if not numbers:
        return turns.plan_redo()
    return turns.plan_of({turns.turns[number - 1][0].uid for number in numbers})


def _apply(plans: list[tuple[Rewinder, RewindPlan]], choices: dict[str, Choice], cwd: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"changed": [], "failed": [], "kept": [], "number": 0}
    for rewinder, plan in plans:
        chosen: dict[str, Choice] = {}
        for planned in plan.paths:
            choice = choices.get(_shown(rewinder, planned.path, cwd))
            if choice is not None:
                chosen[planned.path] = choice
        outcome = rewinder.apply(plan, chosen, what="redone" if plan.redoes else f"rewound {len(plan.turns)} turns")
        answer["changed"] += [_shown(rewinder, path, cwd) for path in outcome.changed]
        answer["kept"] += [_shown(rewinder, path, cwd) for path in outcome.kept]
        answer["failed"] += [
            {"path": _shown(rewinder, failure.path, cwd), "reason": failure.reason} for failure in outcome.failed
        ]
        answer["number"] = answer["number"] or outcome.number
    return answer


def _path(rewinder: Rewinder, planned: Any, cwd: str) -> dict[str, Any]:
    return {
        "path": _shown(rewinder, planned.path, cwd),
        "folder": shown_path(rewinder.root),
        "action": planned.action,
        "reason": planned.reason,
        "by": planned.by,
    }


def _shown(rewinder: Rewinder, path: str, cwd: str) -> str:
    return shown_path(path if rewinder.root == os.path.realpath(cwd) else os.path.join(rewinder.root, path))
