"""`dragoman wrap`: something that is not an ACP agent as one, on stdin and stdout, as an editor starts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.programs import PROGRAMS
from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.wrap.editor_settings import EDITORS
from dragoman.process.own_program import own_command

if TYPE_CHECKING:
    from dragoman.agent import Agent

# Options that are given to an editor as they are; those with a path are made absolute.
_KEPT: Final = ("url", "as", "header", "body", "resume", "model", "system", "name", "title")


def run(call: CliCall) -> int:
    from dragoman.cli.wrap.source import adapter_for, check_words

    check_words(call)
    if call.given.print_settings is not None:
        return _print_settings(call)
    from dragoman.adapters import AdapterError

    try:
        agent = _agent(adapter_for(call), call.given)
    except AdapterError as error:
        raise exits.CliError(str(error)) from error
    from dragoman.cli.masked_streams import mask_streams

    mask_streams()
    agent.run()
    return exits.OK


def wrap_command(call: CliCall) -> list[str]:
    """Return the command that starts the same wrapped agent from any folder."""
    given = call.given
    words = [*own_command("wrap")]
    if given.source is not None:
        words.append(given.source)
        if ":" in given.source and not given.source.startswith(("http://", "https://")):
            words += ["--folder", str(Path(given.folder or ".").absolute())]
    for name in _KEPT:
        value = getattr(given, name)
        if value is True:
            words.append(f"--{name}")
        elif value not in (None, False, []):
            for text in value if isinstance(value, list) else [value]:
                words += [f"--{name}", text]
    if given.store:
        words += ["--store", str(Path(given.store).absolute())]
    if given.no_sessions:
        words.append("--no-sessions")
    if not call.program:
        return words
    program, *arguments = call.program
    return [*words, "--", str(Path(program).absolute()) if "/" in program else program, *arguments]


def _print_settings(call: CliCall) -> int:
    from dragoman.cli.console import write_note
    from dragoman.cli.wrap.editor_settings import settings_for, where

    editor = call.given.print_settings
    name = call.given.title or call.given.name or _short_name(call)
    sys.stdout.write(settings_for(editor, name, wrap_command(call)))
    write_note(f"for {where(editor)}")
    return exits.OK


def _short_name(call: CliCall) -> str:
    if call.program:
        return Path(call.program[0]).name
    source: str = call.given.url or call.given.source
    if source.startswith(("http://", "https://")):
        return source.split("/")[2]
    return source.rpartition(":")[0].removesuffix(".py").rpartition("/")[2] or source


def _agent(found: Any, given: Any) -> Agent:
    from dragoman.adapters import wrap
    from dragoman.agent import Agent

    if isinstance(found, Agent):
        return found
    store: Any = False if given.no_sessions else given.store or True
    return wrap(found, name=given.name, title=given.title, store=store)


COMMAND = CliCommand(
    run=run,
    description=(
        "Serves something that is not an ACP agent to an editor, on stdin and stdout, with cancel, permission and\n"
        "sessions. docs/adapters.md describes each kind.\n"
        "  MODULE:OBJECT, FILE.py:OBJECT  a function of the prompt, an agent or graph of pydantic-ai, LangGraph,\n"
        "                                 LangChain, deepagents or openai-agents, or an adapter; () after the name\n"
        "                                 calls it first\n"
        "  URL                            an AI SDK endpoint, an AG-UI endpoint, or a chat-completions API; which of\n"
        "                                 them is found out, or named with --as\n"
        f"  {', '.join(sorted(PROGRAMS)):<31}the installed program of this name, with its own sessions and settings\n"
        "  -- PROGRAM ARGUMENTS           a command-line tool, run once for each prompt in the folder of the session;\n"
        "                                 {prompt}, {cwd} and {session} in arguments are replaced, and without\n"
        "                                 {prompt} it reads the prompt from standard input"
    ),
    arguments=(
        Argument("source", "what to wrap: MODULE:OBJECT, FILE.py:OBJECT, a URL or a known program", is_optional=True),
    ),
    options=(
        CliOption("--url", "an endpoint, the same as a URL as the source", value="URL"),
        CliOption("--as", "the kind of the endpoint", value="KIND", choices=("ui-stream", "ag-ui", "chat")),
        CliOption("--header", "a header of every request to the endpoint", value="'NAME: VALUE'", is_repeatable=True),
        CliOption("--body", "further members of every request's body, as a JSON object", value="JSON"),
        CliOption("--resume", "ui-stream: continue a running answer with GET, as servers with resumable streams offer"),
        CliOption("--model", "chat: the model (default: the first that the server lists)", value="MODEL"),
        CliOption("--system", "chat: the system prompt", value="TEXT"),
        CliOption("--folder", "where modules and files are looked for (default: the current folder)", value="FOLDER"),
        CliOption("--name", "the agent's name for programs; its sessions are stored under it", value="NAME"),
        CliOption("--title", "the agent's name for users", value="TEXT"),
        CliOption("--store", "the file that stores its sessions", value="FILE"),
        CliOption("--no-sessions", "do not store sessions; they end with the agent"),
        CliOption(
            "--print-settings",
            "print the settings that start it from an editor, instead of serving one",
            value="EDITOR",
            choices=EDITORS,
        ),
    ),
    examples=(
        "dragoman wrap my_agent:agent",
        "dragoman wrap ./graphs.py:make_graph()",
        "dragoman wrap --url http://127.0.0.1:3000/api/chat --as ui-stream",
        "dragoman wrap http://127.0.0.1:8080/v1 --model qwen3 --system 'Answer briefly.'",
        "dragoman wrap claude --print-settings zed",
        "dragoman wrap codex --print-settings zed",
        "dragoman wrap -- aider --yes --message {prompt}",
        "dragoman wrap my_agent:agent --print-settings zed",
        "dragoman exec 'say hello' -- dragoman wrap my_agent:agent",
    ),
    takes_program=True,
)
