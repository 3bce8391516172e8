"""`dragoman exec --session NAME` with all its options, parsed as usual.

Loaded for a command line that `warm.py` does not read: a warm prompt starts without the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from dragoman.cli import exits
from dragoman.cli.exec.hosted.opening import SessionOpener
from dragoman.cli.exec.hosted.turn import HostedTurn, TurnRequest
from dragoman.cli.exec.hosted.warm import run_request
from dragoman.cli.exec.options import read_options
from dragoman.cli.exec.prompt import blocks, read_prompt
from dragoman.errors import DragomanError
from dragoman.schema import encode, v1

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.exec.options import Options

# What a session that outlives the run cannot have, and why.
_REFUSED: Final = (
    (
        "resume",
        "--resume and --session both name a session",
        "use --session NAME for a session of the host, --resume for another one",
    ),
    (
        "sandboxes_agent",
        "--sandbox-agent does not go with --session: the host runs the agent for many prompts, with its own rights",
        "--sandbox require confines the commands that the host runs for it; without --session the agent itself",
    ),
)
_SHOWN: Final = ("fails_on_deny", "patch", "retries", "recording", "stops_on_violation")
"""Options that need the state of the session."""
_ALL_CONTENT: Final = v1.PromptCapabilities(image=True, audio=True, embedded_context=True)


def execute_hosted(call: CliCall) -> int:
    """Run one turn of a named session and return its exit code.

    Raises:
        CliError, ConfigError: an option or the set-up is wrong.
        OSError: stdout could not be written.
    """
    try:
        return _execute(call)
    except (exits.CliError, DragomanError) as error:
        form = call.given.output
        if form not in ("json", "events"):
            raise
        from dragoman.cli.exec.hosted.shown import write_refusal

        return write_refusal(form, error)


def _execute(call: CliCall) -> int:
    options, request = _read(call)
    if not request.waits and options.form != "text":
        return _queue(request)
    is_plain = options.form in ("text", "json") and options.progress in ("none", "plain")
    if is_plain and not any(getattr(options, name) for name in _SHOWN):
        return run_request(request, is_quiet=options.progress == "none", form=options.form)
    from dragoman.cli.exec.hosted.shown import run_shown

    return run_shown(request, options)


def _read(call: CliCall) -> tuple[Options, TurnRequest]:
    options = read_options(call)
    name: str = call.given.session
    _check(options, name)
    prompt = read_prompt(options)
    written: list[dict[str, Any]] = json.decode(encode(blocks(prompt, _ALL_CONTENT)))
    request = TurnRequest(name, options.cwd, written)
    request.waits = not call.given.no_wait
    request.queue = call.given.queue or call.given.no_wait
    request.timeout_seconds = options.timeout_seconds
    request.open = SessionOpener(options)
    if not request.waits:
        _check_queued(options)
    return options, request


def _check(options: Options, name: str) -> None:
    if not name.strip():
        raise exits.CliError("--session takes a name", hint="dragoman exec --session review 'Look at the last commit'")
    for member, sentence, hint in _REFUSED:
        if getattr(options, member):
            raise exits.CliError(sentence, hint=hint)


def _check_queued(options: Options) -> None:
    """Refuse what needs the end of the turn."""
    flags = {"patch": "--patch", "retries": "--retries", "stops_on_violation": "--stop-on-violation"}
    for member, flag in flags.items():
        if getattr(options, member):
            raise exits.CliError(
                f"{flag} and --no-wait contradict each other: the run ends before its turn", hint="leave out --no-wait"
            )
    if options.form == "raw" or options.recording is not None:
        raise exits.CliError(
            "--record and --output raw show the turn, which --no-wait does not wait for", hint="leave out --no-wait"
        )


def _queue(request: TurnRequest) -> int:
    from dragoman.cli.exec.hosted.ending import finish_text
    from dragoman.cli.exec.hosted.shown import write_queued
    from dragoman.cli.exec.hosted.text import TextView

    turn = HostedTurn(request, TextView(is_quiet=True))
    end = turn.run()
    if end.error is not None or end.signal:
        return finish_text(end, request, is_quiet=True)
    write_queued(request, turn)
    return exits.OK
