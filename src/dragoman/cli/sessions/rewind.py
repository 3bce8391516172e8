"""`dragoman sessions rewind` and `redo`: first the plan, then a question, then the files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman.cli import console, exits
from dragoman.cli.sessions.turns import chosen_turn, find_turns
from dragoman.snapshots.session_turns import shown_path

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.snapshots.rewind import Choice, PlannedPath, Rewinder, RewindOutcome, RewindPlan
    from dragoman.snapshots.session_turns import SessionTurns

_WORDS: Final = {
    "write": "restore",
    "delete": "delete",
    "done": "as before",
    "conflict": "keep (conflict)",
    "impossible": "keep (impossible)",
    "offered": "keep",
}


def rewind_session(call: CliCall) -> int:
    found = find_turns(call)
    _complete(found)
    given = call.given
    if given.turn is not None and given.turns is not None:
        raise exits.CliError("--turn and --turns both say which turns", hint="use only one of them")
    plans: list[tuple[Rewinder, RewindPlan]] = []
    for rewinder in found.rewinders:
        turns = rewinder.active_turns(found.session_id, found.agent)
        if given.turn is not None:
            _, records = chosen_turn(found, given.turn)
            turns = [record for record in records if record.folder == rewinder.root]
        else:
            count = _count(given.turns)
            active = found.active()
            uids = [records[0].uid for records in found.turns if records[0].uid in active][-count:]
            turns = [turn for turn in turns if turn.uid in uids]
        if turns:
            plans.append((rewinder, rewinder.plan(turns)))
    if not plans:
        raise exits.CliError(
            f"every followed turn of session {found.session_id} was taken back already",
            hint="dragoman sessions redo brings the last one back",
        )
    return _go(call, plans, "rewind")


def redo_session(call: CliCall) -> int:
    found = find_turns(call)
    _complete(found)
    plans = []
    for rewinder in found.rewinders:
        plan = rewinder.plan_redo()
        if plan is not None:
            plans.append((rewinder, plan))
    if not plans:
        raise exits.CliError(
            "there is no rewind or review to take back here", hint="dragoman sessions rewind --dry-run"
        )
    return _go(call, plans, "redo")


def _go(call: CliCall, plans: list[tuple[Rewinder, RewindPlan]], what: str) -> int:
    given = call.given
    choices = _choices(given, plans)
    if not given.json:
        _show(plans, choices)
    if given.dry_run:
        if given.json:
            console.write_json([_planned(plan) for _, plan in plans])
        return exits.OK
    count = sum(_is_changed(planned, choices) for _, plan in plans for planned in plan.paths)
    if not count:
        for rewinder, plan in plans:
            rewinder.apply(plan, choices, what=what)  # a turn that is as before already counts as taken back
        if given.json:
            console.write_json([])
        else:
            console.write_note("nothing to do")
        return exits.OK
    if not given.yes:
        _confirm(f"{what.capitalize()} {count} path{'s' if count != 1 else ''}?", what)
    outcomes = [(rewinder, rewinder.apply(plan, choices, what=what)) for rewinder, plan in plans]
    if given.json:
        console.write_json([_outcome(rewinder, outcome) for rewinder, outcome in outcomes])
    return _report(outcomes, what, is_quiet=given.json)


def _report(outcomes: list[tuple[Rewinder, RewindOutcome]], what: str, *, is_quiet: bool) -> int:
    failed = [failure for _, outcome in outcomes for failure in outcome.failed]
    changed = sum(len(outcome.changed) for _, outcome in outcomes)
    for failure in failed:
        console.write_note(f"not changed: {failure.path}: {failure.reason}")
    if not is_quiet:
        back = "sessions rewind" if what == "redo" else "sessions redo"
        console.write_note(f"{changed} path{'s' if changed != 1 else ''} changed; dragoman {back} takes that back")
    return exits.CHECK_FAILED if failed else exits.OK


def _complete(found: SessionTurns) -> None:
    """Finish a rewind that was interrupted: half of it is neither the one state nor the other."""
    for rewinder in found.rewinders:
        for outcome in rewinder.complete():
            console.write_note(f"an interrupted rewind in {rewinder.root} was completed")
            for failure in outcome.failed:
                console.write_note(f"not changed: {failure.path}: {failure.reason}")


def _count(text: str | None) -> int:
    if text is None:
        return 1
    if not text.isdigit() or int(text) < 1:
        raise exits.CliError(f"--turns {text}: write how many of the last turns to take back", hint="--turns 2")
    return int(text)


def _choices(given: Any, plans: list[tuple[Rewinder, RewindPlan]]) -> dict[str, Choice]:
    known = {planned.path for _, plan in plans for planned in plan.paths}
    found: dict[str, Choice] = {}
    for name, word in (("take", "take"), ("merge", "merge"), ("keep", "keep")):
        for path in getattr(given, name):
            if path not in known:
                raise exits.CliError(f"--{name} {path}: it is not in the plan", hint="see --dry-run for the paths")
            found[path] = cast("Choice", word)
    return found


def _is_changed(planned: PlannedPath, choices: dict[str, Choice]) -> bool:
    if planned.action in ("write", "delete"):
        return choices.get(planned.path) != "keep"
    return planned.action in ("conflict", "offered") and choices.get(planned.path, "keep") != "keep"


def _show(plans: list[tuple[Rewinder, RewindPlan]], choices: dict[str, Choice]) -> None:
    for _, plan in plans:
        for note in plan.notes:
            console.write_note(note)
        rows = []
        for planned in plan.paths:
            word = _WORDS[planned.action]
            if planned.path in choices and planned.action != "impossible":
                word = {"take": "restore", "merge": "merge", "keep": "keep"}[choices[planned.path]]
            rows.append((word, shown_path(planned.path), planned.reason))
        if rows:
            if len(plans) > 1:
                sys.stdout.write(f"{shown_path(plan.folder)}\n")
            console.write_table(("DO", "PATH", "WHY NOT"), rows)
    sys.stdout.flush()


def _confirm(question: str, what: str) -> None:
    from dragoman.cli.prompt.keyboard import TERMINAL, can_read

    if not sys.stderr.isatty() or not can_read(TERMINAL):
        raise exits.CliError(
            "no user can be asked", hint=f"dragoman sessions {what} --yes does it, --dry-run only shows the plan"
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    with open(TERMINAL, encoding="utf-8", errors="replace") as terminal:
        if terminal.readline().strip().lower() not in ("y", "yes"):
            raise exits.CliError("nothing was changed", exit_code=exits.CANCELLED)


def _planned(plan: RewindPlan) -> dict[str, Any]:
    return {
        "folder": shown_path(plan.folder),
        "session_id": plan.session_id,
        "notes": list(plan.notes),
        "paths": [
            {
                "path": shown_path(planned.path),
                "action": planned.action,
                "reason": planned.reason or None,
                "by": planned.by,
            }
            for planned in plan.paths
        ],
    }


def _outcome(rewinder: Rewinder, outcome: RewindOutcome) -> dict[str, Any]:
    return {
        "folder": shown_path(rewinder.root),
        "changed": [shown_path(path) for path in outcome.changed],
        "kept": [shown_path(path) for path in outcome.kept],
        "failed": [{"path": shown_path(failure.path), "reason": failure.reason} for failure in outcome.failed],
    }
