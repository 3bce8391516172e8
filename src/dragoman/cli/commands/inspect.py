"""`dragoman inspect`: shows a recording, or a conversation while it happens."""

from __future__ import annotations

import os
import shutil
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import json_text, uses_colour, write_note
from dragoman.cli.masked_streams import mask_stored_keys
from dragoman.cli.named_agent import AGENT, CA, TOKEN_ENV, URL, program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from dragoman.trace.entry import Entry
    from dragoman.trace.inspect.screen import Screen
    from dragoman.trace.inspect.timeline import Filter, RecordingTimeline, Row
    from dragoman.trace.reader import Trace

# In a file or a pipe a line may be longer, so that an excerpt of a message fits.
WIDTH_WITHOUT_TERMINAL: Final = 160
_SEE_HELP: Final = "see dragoman inspect --help"
_VIEWS: Final = ("message", "state", "stats", "findings", "html")


def run(call: CliCall) -> int:
    given = call.given
    chosen = [f"--{view}" for view in _VIEWS if getattr(given, view)]
    if len(chosen) > 1:
        raise exits.CliError(f"{' and '.join(chosen)}: one view at a time", hint=_SEE_HELP)
    if given.at is not None and not given.state:
        raise exits.CliError("--at goes with --state", hint=_SEE_HELP)
    mask_stored_keys()
    if given.live or call.program is not None or given.url is not None or given.agent is not None:
        return _run_live(call, chosen)
    if given.o is not None:
        raise exits.CliError("-o goes with --live", hint=_SEE_HELP)
    if given.file is None:
        raise exits.CliError("inspect needs a recording", hint="dragoman inspect session.jsonl")
    return _run_file(given)


def _run_file(given: Any) -> int:
    from dragoman.trace.reader import open_trace

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets the rest
    trace = open_trace(sys.stdin.buffer if given.file == "-" else given.file)
    for problem in trace.problems:
        write_note(f"warning: {problem}")
    if given.html is not None:
        return _write_page(trace, given)
    if given.state:
        return _show_state(trace, given)
    timeline = _timeline(trace)
    wanted = _filter(given, timeline)
    screen = _screen(timeline, sys.stdout)
    if given.message is not None:
        _show_message(trace, timeline, screen, given)
    elif given.findings:
        _show_findings(trace, timeline, screen, wanted, given)
    elif given.stats:
        _show_stats(trace, timeline, screen, wanted, given)
    else:
        _show_timeline(trace, timeline, screen, wanted, given)
    return exits.OK


def _timeline(trace: Trace, watch: Any = None, until: int | None = None) -> RecordingTimeline:
    from dragoman.trace.inspect.timeline import read_timeline

    entries = trace.entries if until is None else trace.entries[:until]
    return read_timeline(entries, header=trace.header, watch=watch)


def _screen(timeline: RecordingTimeline, stream: TextIO) -> Screen:
    from dragoman.trace.inspect.screen import Screen

    return Screen(
        _width(stream),
        has_colour=uses_colour(stream),
        aliases=timeline.aliases,
        last_number=len(timeline.rows),
    )


def _width(stream: TextIO) -> int:
    if stream.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return WIDTH_WITHOUT_TERMINAL


def _show_timeline(trace: Trace, timeline: RecordingTimeline, screen: Screen, wanted: Filter, given: Any) -> None:
    from dragoman.trace.inspect.screen import closing, opening

    groups = list(_groups(timeline.rows, trace.entries, wanted, one_by_one=given.all or given.json))
    if given.json:
        from dragoman.trace.inspect.document import row_document

        _write_json(row_document(row) for rows in groups for row in rows)
        return
    _write([opening(trace.header, timeline, given.file), screen.head()])
    for rows in groups:
        _write([screen.line(rows), *screen.findings(rows)])
    _write(closing(timeline, sum(map(len, groups))))


def _groups(rows: list[Row], entries: list[Entry], wanted: Filter, *, one_by_one: bool) -> Iterator[list[Row]]:
    """Yield groups of rows, one line each."""
    from dragoman.trace.inspect.timeline import runs

    for group in runs(row for row in rows if wanted.wants(row)):
        if one_by_one:
            yield from ([row] for row in group if wanted.finds([row], entries))
        elif wanted.finds(group, entries):
            yield group


def _show_message(trace: Trace, timeline: RecordingTimeline, screen: Screen, given: Any) -> None:
    from dragoman.trace.inspect.screen import message_lines

    number = _number("--message", given.message, len(timeline.rows))
    row, entry = timeline.rows[number - 1], trace.entries[number - 1]
    if given.json:
        from dragoman.trace.inspect.document import entry_document, row_document

        _write_json([{**row_document(row), **entry_document(entry)}])
    else:
        _write(message_lines(screen, row, entry))


def _show_state(trace: Trace, given: Any) -> int:
    from dragoman.trace.inspect.folding import FoldedSessions, describe
    from dragoman.trace.inspect.screen import state_lines

    until = None if given.at is None else _number("--at", given.at, len(trace.entries))
    sessions = FoldedSessions()
    timeline = _timeline(trace, watch=sessions.feed, until=until)
    screen = _screen(timeline, sys.stdout)
    wanted = _filter(given, timeline).session
    for name, state in sessions.states.items():
        if wanted is not None and name != wanted:
            continue
        if given.json:
            _write_json([{"session": name, "at": len(timeline.rows), "state": describe(state)}])
        else:
            _write(state_lines(screen, name, timeline.aliases.get(name, ""), describe(state)))
    return exits.OK


def _show_findings(trace: Trace, timeline: RecordingTimeline, screen: Screen, wanted: Filter, given: Any) -> None:
    from dragoman.trace.inspect.document import finding_document
    from dragoman.trace.inspect.screen import finding_lines

    groups = _groups(timeline.rows, trace.entries, wanted, one_by_one=True)
    found = [finding for rows in groups for row in rows for finding in row.findings]
    if given.json:
        _write_json(finding_document(finding) for finding in found)
    else:
        _write(finding_lines(screen, found) if found else ["no broken rules found"])


def _show_stats(trace: Trace, timeline: RecordingTimeline, screen: Screen, wanted: Filter, given: Any) -> None:
    from dragoman.trace.inspect.figures import figures
    from dragoman.trace.inspect.screen import stats_lines

    groups = _groups(timeline.rows, trace.entries, wanted, one_by_one=False)
    stats = figures(row for rows in groups for row in rows)
    if given.json:
        _write_json([stats])
    else:
        _write(stats_lines(screen, stats, timeline.aliases))


def _write_page(trace: Trace, given: Any) -> int:
    from dragoman.trace.inspect.page import write_page

    with open(given.html, "w", encoding="utf-8", opener=_private) as file:
        write_page(file, trace, given.file)
    sys.stderr.write(f"dragoman: wrote {given.html}\n")
    return exits.OK


def _private(path: str, flags: int) -> int:
    """Open the page so that only the owner may read it, as with the recording itself."""
    return os.open(path, flags, 0o600)


def _run_live(call: CliCall, chosen: list[str]) -> int:
    import asyncio

    from dragoman.errors import DragomanError
    from dragoman.trace.inspect.live import LiveView
    from dragoman.trace.record.relay import run_relay

    given = call.given
    if not given.live or not (call.program or given.agent or given.url):
        raise exits.CliError(
            "--live and the agent's command go together", hint="dragoman inspect --live -- gemini --acp"
        )
    program = program_of("inspect --live", call)
    if given.file is not None or chosen:
        what = given.file if given.file is not None else chosen[0]
        raise exits.CliError(f"--live shows the timeline, not {what}", hint="record first, then inspect the recording")
    view = LiveView(
        given.o,
        command=program,
        width=_width(sys.stderr),
        has_colour=uses_colour(sys.stderr),
        wanted=_filter(given),
        session=given.session,
        gathers=not given.all,
        as_json=given.json,
    )
    try:
        return asyncio.run(run_relay(program, view, show=view.show_on))
    except DragomanError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


def _filter(given: Any, timeline: RecordingTimeline | None = None) -> Filter:
    """Return the filter of the options. A live conversation has no sessions yet, so its filter is without one."""
    from dragoman.trace.inspect.timeline import Filter

    return Filter(
        session=None if given.session is None or timeline is None else _session(given.session, timeline),
        method=given.method,
        dir=given.dir,
        errors=given.errors,
        since=_seconds("--since", given.since),
        until=_seconds("--until", given.until),
        grep=given.grep,
    )


def _session(word: str, timeline: RecordingTimeline) -> str:
    """Find a session by its id, its short name in the timeline, or the beginning or end of its id."""
    from dragoman.trace.inspect.timeline import is_called

    known = timeline.aliases
    if word in known:
        return word
    found = [name for name, alias in known.items() if word == alias]
    found = found or [name for name, alias in known.items() if is_called(word, name, alias)]
    if len(found) != 1:
        what = "is not a session" if not found else f"matches {len(found)} sessions"
        listed = ", ".join(f"{alias} ({name})" for name, alias in list(known.items())[:5])
        hint = f"sessions: {listed}" if known else "the recording has no sessions"
        raise exits.CliError(f"{word!r} {what} of this recording", hint=hint)
    return found[0]


def _number(option: str, word: str, last: int) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= last:
        raise exits.CliError(f"{option} takes a number from 1 to {last}, not {word!r}", hint=_SEE_HELP)
    return int(word)


def _seconds(option: str, word: str | None) -> float | None:
    if word is None:
        return None
    try:
        return float(word)
    except ValueError:
        raise exits.CliError(f"{option} takes a number of seconds, not {word!r}", hint=_SEE_HELP) from None


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _write_json(documents: Iterable[Any]) -> None:
    from dragoman.schema import encode

    for document in documents:
        sys.stdout.write(json_text(encode(document)) + "\n")


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows a recording as a timeline: a line for each message with its time, direction, session, summary,\n"
        "response time and size. Chunks of one message are one line. A line that breaks a rule of the protocol is\n"
        "followed by the number of the rule. docs/inspect.md explains columns, levels and the JSON form.\n"
        "With --live it runs between an editor and an agent, as dragoman record does, and shows this on stderr."
    ),
    arguments=(Argument("file", "the recording, as dragoman record writes it; - reads stdin", is_optional=True),),
    options=(
        CliOption("--live", "show the conversation with the program after -- while it runs"),
        AGENT._replace(help="with --live: the agent, by its name"),
        URL._replace(help="with --live: an agent or a host on another machine, by its URL"),
        TOKEN_ENV,
        CA,
        CliOption("-o", "with --live: write a recording too", value="FILE"),
        CliOption("--all", "every chunk on its own line"),
        CliOption(
            "--session", "only this session: its id, its short name (s1), or the beginning or end of its id", value="ID"
        ),
        CliOption("--method", "only these methods or kinds of update, with * and ?", value="GLOB"),
        CliOption("--dir", "only one direction", value="DIR", choices=("c2a", "a2c")),
        CliOption("--errors", "only errors, lines that are not messages, and broken MUST or SCHEMA rules"),
        CliOption("--since", "only from this time on", value="SECONDS"),
        CliOption("--until", "only up to this time", value="SECONDS"),
        CliOption("--grep", "only messages that contain this text, in upper or lower case", value="TEXT"),
        CliOption("--message", "one message in full, by its number in the timeline", value="N"),
        CliOption("--state", "the sessions as a client would show them at the end"),
        CliOption("--at", "with --state: after message N instead", value="N"),
        CliOption("--stats", "counts, sizes and latencies per method and per session"),
        CliOption("--findings", "the broken rules, each with its text and the messages that break it"),
        CliOption("--html", "write one HTML page that shows all of this, offline", value="OUT"),
        JSON._replace(help="one JSON object per line"),
    ),
    examples=(
        "dragoman inspect session.jsonl",
        "dragoman inspect session.jsonl --session s1 --method 'fs/*'",
        "dragoman inspect session.jsonl --message 42",
        "dragoman inspect session.jsonl --state --at 42",
        "dragoman inspect session.jsonl --html session.html",
        "dragoman inspect --live -- gemini --acp",
    ),
    takes_program=True,
)
