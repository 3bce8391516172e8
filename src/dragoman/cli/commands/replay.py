"""`dragoman replay`: replays a recording as a fake agent or as a fake client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, cast

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import json_of, write_json, write_note
from dragoman.text.secrets import known_keys
from dragoman.text.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dragoman.rpc import Transport
    from dragoman.trace import Difference, Replay
    from dragoman.versions import Side, Version


def run(call: CliCall) -> int:
    import asyncio

    from dragoman.trace import Replay

    given = call.given
    is_client = getattr(given, "as") == "client"
    if is_client and not call.program:
        raise exits.CliError("--as client needs the agent's command", hint="dragoman replay FILE --as client -- CMD")
    if not is_client and call.program:
        raise exits.CliError("only --as client takes a command", hint="an agent is started by its client")
    timing = _timing(given.timing)
    replay = Replay(
        given.file,
        timing="none" if timing == 0 else timing,
        ignore=tuple(filter(None, (given.ignore or "").split(","))),
        patience_seconds=None if given.patience is None else _number("--patience", given.patience),
    )
    _print_problems(replay)
    signals: list[int] = []
    play = _drive(replay, call.program or (), given.protocol) if is_client else _serve(replay, given.protocol)
    differences = asyncio.run(_until_signal(replay, play, signals))
    _report(differences, given)
    if signals:
        return 128 + signals[0]
    if replay.exit_code is not None:
        return replay.exit_code
    return exits.CHECK_FAILED if differences and not given.allow_differences else exits.OK


async def _until_signal(
    replay: Replay, play: Coroutine[None, None, list[Difference]], signals: list[int]
) -> list[Difference]:
    """Stop the replay at a signal: many clients end an agent that way, and the report is still written."""
    import asyncio
    import signal

    def stop(number: int) -> None:
        signals.append(number)
        replay.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return await play


async def _serve(replay: Replay, protocol: str | None) -> list[Difference]:
    from dragoman.transports.stdio import StdioTransport

    spoken = replay.trace.protocol
    return await replay.serve(_translated(StdioTransport(), "agent", _version(protocol, spoken), spoken))


def _version(protocol: str | None, recorded: Version) -> Version:
    return recorded if protocol in (None, "auto") else cast("Version", protocol)


def _translated(transport: Transport, side: Side, client: Version, agent: Version | Literal["auto"]) -> Transport:
    """Return the transport of one side of the recording, whose other side speaks another version than recorded."""
    if client == agent:
        return transport
    from dragoman.transports.translated import TranslatedTransport
    from dragoman.versions import translator

    made = translator(client, agent, is_lazy=True)
    return TranslatedTransport(
        transport, made, side, on_loss=lambda lost: write_note(f"not translated: {lost.what}"), on_noise=write_note
    )


async def _drive(replay: Replay, program: tuple[str, ...], protocol: str | None) -> list[Difference]:
    from dragoman.errors import ConfigError
    from dragoman.transports.process import ProcessTransport

    def pass_on(log: bytes) -> None:
        sys.stderr.write(plain(log.decode(errors="replace")))
        sys.stderr.flush()

    try:
        transport = await ProcessTransport.spawn(program, on_stderr=pass_on)
    except ConfigError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error
    spoken = replay.trace.protocol
    agent = "auto" if protocol == "auto" else _version(protocol, spoken)
    return await replay.drive(_translated(transport, "client", spoken, agent))


def _report(differences: list[Difference], given: object) -> None:
    """Write the differences to stderr, or as JSON to stdout. For a fake agent stdout is stderr, too."""
    import msgspec

    rows = [{"text": str(difference), **msgspec.to_builtins(difference)} for difference in differences]
    document = {"differences": rows}
    report = getattr(given, "report", None)
    if report is not None:
        with open(report, "w", encoding="utf-8") as file:
            file.write(known_keys.mask(json_of(document, indent=2)) + "\n")
    if getattr(given, "json", False):
        write_json(document)
        return
    for difference in differences:
        sys.stderr.write(f"{plain(str(difference))}\n")
    if differences:
        sys.stderr.write(f"dragoman: {len(differences)} difference{'s'[: len(differences) > 1]} from the recording\n")


def _print_problems(replay: Replay) -> None:
    for problem in replay.trace.problems:
        write_note(f"warning: {problem}")


def _timing(given: str | None) -> float:
    match given:
        case None | "none":
            return 0.0
        case "recorded":
            return 1.0
    return _number("--timing", given)


def _number(option: str, given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise exits.CliError(f"{option} takes a number, not {given!r}", hint="see dragoman replay --help")
    return number


COMMAND = CliCommand(
    run=run,
    description=(
        "Replays a recording. As an agent, on stdin and stdout, it answers like the recorded agent; as a client it\n"
        "starts a program and sends what the recorded client sent. The other side's messages are compared with the\n"
        "recording: differences are listed on stderr, and the exit code is 8. If the recorded agent ended by itself,\n"
        "the fake one ends in the same way."
    ),
    arguments=(Argument("file", "the recording, as dragoman record writes it"),),
    options=(
        CliOption("--as", "the side to play (default: agent)", value="ROLE", choices=("agent", "client")),
        CliOption(
            "--timing", "none, recorded, or a factor such as 0.5 for twice as fast (default: none)", value="TIMING"
        ),
        CliOption(
            "--ignore", "what may differ: patterns of `method path` with *, separated by commas", value="PATTERNS"
        ),
        CliOption(
            "--protocol",
            "the version that the other side speaks, translated if the recording is of another (default: as recorded)",
            value="VERSION",
            choices=("1", "2", "auto", "2025.1"),
        ),
        CliOption("--patience", "how long to wait for a recorded message that does not come", value="SECONDS"),
        CliOption("--allow-differences", "exit with 0 even if there are differences"),
        CliOption("--report", "write the differences to a file, as JSON", value="REPORT"),
        JSON,
    ),
    examples=(
        "dragoman replay session.jsonl",
        "dragoman replay session.jsonl --timing recorded",
        "dragoman replay session.jsonl --protocol 2",
        "dragoman replay session.jsonl --as client -- my-agent --acp",
        "dragoman replay session.jsonl --as client --ignore 'session/new params.cwd' -- my-agent",
    ),
    takes_program=True,
)
