"""`dragoman guard`: rules, limits and an audit log around any agent."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, CA, TOKEN_ENV, URL
from dragoman.cli.wrap.editor_settings import EDITORS, settings_for

if TYPE_CHECKING:
    from dragoman.cli.guard.options import GuardOptions
    from dragoman.cli.guard.setup import GuardSetup
    from dragoman.client.permission import Asker


def run(call: CliCall) -> int:
    from dragoman.cli.guard.options import read_guard_options
    from dragoman.cli.masked_streams import mask_stored_keys

    try:
        options = read_guard_options(call)
        if call.given.print_settings is not None:
            return _print_settings(call)
        mask_stored_keys()
        return _explain(options) if call.given.explain else _guard(options)
    except exits.CliError as error:
        _answer(error)
        raise


def _guard(options: GuardOptions) -> int:
    import asyncio

    from dragoman.cli import console
    from dragoman.cli.guard.setup import make_plan, open_log, prepare, starter
    from dragoman.errors import DragomanError
    from dragoman.proxy.guard.relay import run_guard

    try:
        setup = prepare(options)
    except DragomanError as error:
        raise exits.CliError(str(error)) from error
    log = None
    try:
        asker = _asker(setup)
        log = open_log(setup)
        plan = make_plan(setup, log, asker)
        recording = _recording(setup)
        notes = [*_notes(setup), *([] if log is None else log.take_notices())]
        guard = run_guard(starter(setup), plan, notes=notes, recording=recording, grace_seconds=options.grace_seconds)
        return asyncio.run(guard)
    except DragomanError as error:
        raise _Answered(str(error), exit_code=exits.AGENT_DIED) from error
    finally:
        if log is not None:
            log.close()
            for notice in log.take_notices():  # of a file that was begun behind the last prompt
                console.write_note(notice)
        setup.close()


class _Answered(exits.CliError):
    """An error about which the editor knows already."""


def _answer(error: exits.CliError) -> None:
    """Answer the editor's first request with the reason: editors do not show stderr."""
    if isinstance(error, _Answered) or not (_is_connection(0) and _is_connection(1)):
        return
    import asyncio

    from dragoman.proxy.guard.relay import answer_failure

    asyncio.run(answer_failure(error.message))


def _is_connection(fd: int) -> bool:
    """Whether a descriptor leads to a program, and not to a terminal, a file or nowhere."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _asker(setup: GuardSetup) -> Asker | None:
    if setup.options.ask != "terminal":
        return None
    from dragoman.cli import console
    from dragoman.cli.prompt.user import UserPrompt

    if not UserPrompt.is_available():
        raise exits.CliError(
            "--ask terminal: stderr is not a terminal from which you can be asked",
            hint="editors start agents without one; use --ask editor or --ask deny",
        )
    return UserPrompt(agent=setup.entry.name, colour=console.uses_colour(sys.stderr))


def _recording(setup: GuardSetup) -> Any:
    path = setup.options.recording
    if path is None:
        return None
    from dragoman.trace.writer import TraceWriter

    try:
        return TraceWriter(path, command=setup.entry.command, cwd=setup.options.cwd)
    except OSError as error:
        raise exits.CliError(f"--record {path}: {error.strerror}", hint="name a file that can be written") from None


def _notes(setup: GuardSetup) -> list[str]:
    from dragoman.proxy.guard.grades import summarize

    return [*setup.notes, *summarize(setup.graded, setup.entry.name)]


def _explain(options: GuardOptions) -> int:
    from dragoman.cli.guard.explain import explain
    from dragoman.cli.guard.setup import prepare

    setup = prepare(options)
    try:
        explain(setup)
    finally:
        setup.close()
    return exits.OK


def _print_settings(call: CliCall) -> int:
    """Print the settings for an editor, with the options that were given."""
    given = call.given
    words = ["dragoman", "guard"]
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        value = getattr(given, name)
        if name in ("print_settings", "explain") or not value:
            continue
        for setting in value if isinstance(value, list) else [value]:
            words += [option.flag] if setting is True else [option.flag, setting]
    program = call.program or ()
    name = given.agent or (os.path.basename(program[0]) if program else "agent")
    command = [*words, "--", *program] if program else words
    sys.stdout.write(settings_for(given.print_settings, f"{name} (guarded)", command))
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs between an editor and an agent: put it in front of the agent's command in the editor's settings.\n"
        "Your rules decide what the agent may do (dragoman rules), limits stop it, and an audit log records it.\n"
        "Files and commands go through the guard wherever the agent lets its client do them; --explain shows how\n"
        "far each rule binds this agent. Everything else passes unchanged. docs/guard.md is the page for teams."
    ),
    options=(
        AGENT,
        URL,
        TOKEN_ENV,
        CA,
        CliOption("--allow", "allow this, as in dragoman exec; may be repeated", value="RULE", is_repeatable=True),
        CliOption("--deny", "deny this; may be repeated", value="RULE", is_repeatable=True),
        CliOption("--policy", "a JSON file with lists allow, deny and ask", value="FILE"),
        CliOption(
            "--ask",
            "who is asked about what no rule decides (default: editor)",
            value="WHO",
            choices=("editor", "terminal", "deny"),
        ),
        CliOption(
            "--on-violation",
            "what follows if the agent did what a rule denies, without asking (default: report)",
            value="ACTION",
            choices=("report", "cancel"),
        ),
        CliOption(
            "--sandbox", "run commands of the agent in a sandbox", value="MODE", choices=("off", "auto", "require")
        ),
        CliOption("--sandbox-agent", "run the agent itself in the sandbox"),
        CliOption(
            "--sandbox-write", "a further folder that may be written in the sandbox", value="DIR", is_repeatable=True
        ),
        CliOption("--add-dir", "a further folder for sessions in the sandbox", value="DIR", is_repeatable=True),
        CliOption(
            "--limit",
            "the most of cost, tokens, turns, seconds or files, such as session.turns=20 or day.cost=5",
            value="LIMIT",
            is_repeatable=True,
        ),
        CliOption("--audit", "the folder of the audit log (default: ~/.local/state/dragoman/audit)", value="DIR"),
        CliOption("--no-audit", "keep no audit log"),
        CliOption("--audit-best-effort", "pass prompts on even if the log cannot be written"),
        CliOption("--keep-days", "remove files of the log that are older", value="DAYS"),
        CliOption("--bodies", "record the texts of prompts and tool calls too, with keys masked"),
        CliOption("--digest-key", "a key for the digests of texts, so that they cannot be guessed", value="FILE"),
        CliOption("--mcp-config", "MCP servers for every session, as in dragoman exec", value="FILE"),
        CliOption("--instructions", "instructions for every session; @FILE reads them from a file", value="TEXT"),
        CliOption("--env", "set a variable for the agent: NAME=VALUE", value="VARIABLE", is_repeatable=True),
        CliOption(
            "--env-allow", "remove all variables but the usual ones and these", value="PATTERN", is_repeatable=True
        ),
        CliOption("--record", "record the messages from and to the agent (docs/recording.md)", value="FILE"),
        CliOption("--no-fs", "do not offer files to the agent if the editor does not"),
        CliOption("--no-terminal", "do not offer terminals to the agent if the editor does not"),
        CliOption(
            "--grace", "how long a silent agent may take to end after the editor is gone (default: 10)", value="SECONDS"
        ),
        CliOption("--explain", "print how far each rule binds this agent, and run nothing"),
        CliOption(
            "--print-settings", "print the settings for an editor, and run nothing", value="EDITOR", choices=EDITORS
        ),
    ),
    examples=(
        "dragoman guard -- gemini --acp",
        "dragoman guard -a claude --deny 'execute:git push *' --on-violation cancel",
        "dragoman guard --sandbox-agent --limit day.cost=5 --ask deny -- my-agent",
        "dragoman guard --explain -- codex-acp",
        "dragoman guard --print-settings zed -- gemini --acp",
    ),
    takes_program=True,
)
