"""`dragoman record`: runs between an editor and an agent, and records their conversation."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from dragoman.cli import exits
from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys
from dragoman.cli.named_agent import AGENT, CA, TOKEN_ENV, URL, program_of


def run(call: CliCall) -> int:
    import asyncio

    from dragoman.errors import DragomanError
    from dragoman.trace.record.relay import GRACE_SECONDS, run_relay
    from dragoman.trace.writer import TraceWriter

    program = program_of("record", call)
    mask_stored_keys()
    grace_seconds = _seconds(call.given.grace, GRACE_SECONDS)
    path = _recording(call.given.o, _name(call, program))
    protocol = None if call.given.protocol in (None, "auto") else call.given.protocol
    writer = TraceWriter(
        path, command=program, cwd=os.getcwd(), redact=call.given.redact, protocol=protocol, on_failure=_warn
    )
    if writer.is_open:
        _print(f"recording to {path}")
    try:
        return asyncio.run(run_relay(program, writer, grace_seconds=grace_seconds))
    except DragomanError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


def _name(call: CliCall, program: tuple[str, ...]) -> str:
    """Return what the file of a recording is named after."""
    from urllib.parse import urlsplit

    given = call.given
    if given.agent is not None:
        return str(given.agent)
    return program[0] if given.url is None else urlsplit(given.url).hostname or "agent"


def _recording(given: str | None, program: str) -> Path:
    """Return the file to write. In a folder, and by default, each run gets a new file."""
    if given is not None and not given.endswith("/") and not Path(given).is_dir():
        if _is_stdout(given):
            raise exits.CliError(
                f"{given} is this program's stdout, which carries the conversation", hint="name another file with -o"
            )
        return Path(given)
    folder = Path(given) if given is not None else _default_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", Path(program).name) or "agent"
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return folder / f"{started}Z-{name}-{os.getpid()}.jsonl"


def _is_stdout(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1)) and path != os.devnull
    except OSError:  # a new file, or no stdout
        return False


def _default_folder() -> Path:
    """Return the default folder. Not the current one: editors start agents in the user's project."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "dragoman" / "traces"


def _seconds(given: str | None, default: float) -> float:
    try:
        seconds = default if given is None else float(given)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise exits.CliError(f"--grace takes a number of seconds, not {given!r}", hint="see dragoman record --help")
    return seconds


def _warn(sentence: str) -> None:
    _print(f"warning: {sentence}; the conversation goes on")


def _print(sentence: str) -> None:
    sys.stderr.write(f"dragoman: {sentence}\n")
    sys.stderr.flush()


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs between an editor and an agent: put it in front of the agent's command in the editor's settings.\n"
        "All messages go through unchanged and at once. Messages, log and exit code are written to FILE, with\n"
        "the keys of your environment masked. The exit code is the agent's. docs/recording.md describes the format."
    ),
    options=(
        AGENT,
        URL,
        TOKEN_ENV,
        CA,
        CliOption(
            "-o",
            "the recording, or a folder for one new file per run (default: ~/.local/state/dragoman/traces)",
            value="FILE",
        ),
        CliOption(
            "--protocol",
            "the version that both sides speak, to note it in the recording (default: auto, as their messages show)",
            value="VERSION",
            choices=("1", "2", "auto", "2025.1"),
        ),
        CliOption("--redact", "replace contents by placeholders, so that the recording can be shared"),
        CliOption(
            "--grace", "how long a silent agent may take to end after the editor is gone (default: 10)", value="SECONDS"
        ),
    ),
    examples=(
        "dragoman record -- gemini --acp",
        "dragoman record -o session.jsonl -- npx @zed-industries/claude-code-acp",
        "dragoman record --redact -o ./traces/ -- my-agent",
        "dragoman record --url wss://agents.example/acp --token-env AGENTS_TOKEN",
    ),
    takes_program=True,
)
