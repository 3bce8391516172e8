"""`dragoman exec --session NAME` with all its options, parsed as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from dragoman.cli import exits
from dragoman.cli.exec.hosted.opening import SessionOpener
from dragoman.cli.exec.hosted.turn import HostedTurn, TurnRequest
from dragoman.cli.exec.hosted.warm import run_request
from dragoman.cli.exec.options import read_options
from dragoman.cli.exec.prompt import blocks, read_prompt
from dragoman.schema import encode, v1

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.exec.options import Options

# What a session that outlives the run cannot have, and why.
_REFUSED: Final = (
    ("resume", "--resume and --session both name a session; use only one of them"),
    ("recording", "--record does not go with --session: the host keeps the connection to the agent"),
    ("patch", "--patch does not go with --session: the session has no beginning to compare with"),
    ("retries", "--retries does not go with --session: a prompt of a session is never run twice"),
    ("sandboxes_agent", "--sandbox-agent does not go with --session; --sandbox limits the commands"),
    ("stops_on_violation", "--stop-on-violation does not go with --session; --deny keeps the agent from asking"),
)
_ALL_CONTENT: Final = v1.PromptCapabilities(image=True, audio=True, embedded_context=True)


def execute_hosted(call: CliCall) -> int:
    """Run one turn of a named session and return its exit code.

    Raises:
        CliError, ConfigError: an option or the set-up is wrong.
        OSError: stdout could not be written.
    """
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
    if not request.waits and options.form != "text":
        return _queue(request)
    if options.form == "text" and options.progress in ("none", "plain") and not options.fails_on_deny:
        return run_request(request, is_quiet=options.progress == "none")
    from dragoman.cli.exec.hosted.shown import run_shown

    return run_shown(request, options)


def _check(options: Options, name: str) -> None:
    if not name.strip():
        raise exits.CliError("--session takes a name", hint="dragoman exec --session review 'Look at the last commit'")
    for member, sentence in _REFUSED:
        if getattr(options, member):
            raise exits.CliError(sentence, hint="see dragoman exec --help")
    if options.form == "raw":
        raise exits.CliError("--output raw does not go with --session", hint="--output events has everything")


def _queue(request: TurnRequest) -> int:
    from dragoman.cli.exec.hosted.ending import finish_text
    from dragoman.cli.exec.hosted.shown import write_queued
    from dragoman.cli.exec.hosted.text import TextView

    turn = HostedTurn(request, TextView(is_quiet=True))
    end = turn.run()
    if end.error is not None or end.signal:
        return finish_text(turn, end, is_quiet=True)
    write_queued(request, turn)
    return exits.OK
