"""Everything a run needs, read before the agent is started; and the start of the agent's program.

The program is started before most of dragoman is loaded, so that both happen at the same time and the agent's start-up
hides most of ours. Therefore nothing here may import asyncio or the protocol.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from dragoman.cli.exec.exit_code import StartFailed
from dragoman.cli.exec.options import Options, read_options
from dragoman.cli.exec.prompt import Prompt, read_prompt
from dragoman.cli.exec.rules import remembered_rules, typed_rules
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import find_agent, is_built_in
from dragoman.errors import ConfigError
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.exec.output import Output
    from dragoman.policy import Rule
    from dragoman.process.launch import Launched
    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Observer
    from dragoman.schema import v1

SCRIPTED_MODEL = "scripted"


class RunRequest(NamedTuple):
    """The checked input of one run."""

    options: Options
    prompt: Prompt
    entry: AgentEntry
    project: str
    rules: list[Rule]
    servers: list[v1.McpServer]
    recorder: Observer | None


def read_request(call: CliCall, output: Output) -> RunRequest:
    """Read and check the options, settings, rules and prompt.

    Raises:
        CliError, ConfigError: one of them is wrong.
    """
    options = read_options(call)
    if options.has_progress:
        output.show_progress(is_verbose=options.is_verbose, root=options.cwd)
    entry, agents = find_agent("exec", options.agent, options.command, options.cwd)
    entry = _with_model(entry, options.model)
    output.secrets = Secrets(os.environ, entry.env)
    settings = agents.settings
    project = options.cwd if settings.root is None else str(settings.root)
    rules = typed_rules(options) + remembered_rules(project) + settings.rules()
    servers = _servers(options, settings.mcp_servers())
    prompt = read_prompt(options)
    if options.allows_all:
        output.note("--dangerously-allow-all: everything the agent asks for is allowed, protected files included")
    for note in agents.notes:
        output.note(note)
    for name in prompt.outside:
        output.note(f"@{name} is sent as text: the file is outside the session's folders (see --add-dir)")
    return RunRequest(options, prompt, entry, project, rules, servers, _recorder(options, entry, output.secrets))


def _with_model(entry: AgentEntry, model: str | None) -> AgentEntry:
    """Pass the model on the command line of the built-in agent; others get it when their session is open."""
    if model is None:
        return entry
    if is_built_in(entry):
        from msgspec.structs import replace

        return replace(entry, command=(*entry.command, "--model", model))
    if model == SCRIPTED_MODEL:
        raise CliError("--model scripted is for the built-in agent", hint="leave -a and the command out to use it")
    return entry


def start_program(request: RunRequest) -> Launched:
    """Start the agent's program; from now on it does not outlive this process.

    Raises:
        StartFailed: the program cannot be started.
    """
    from dragoman.process.launch import launch

    entry = request.entry
    try:
        program = launch(entry.command, cwd=request.options.cwd, env=entry.env)
    except ConfigError as error:
        raise StartFailed(str(error)) from error
    from dragoman.process.guard import guard  # loaded while the program already starts

    guard.watch(program.pid, program.marker, entry.quirks.spare)
    return program


def end_program(request: RunRequest, program: Launched) -> None:
    """End a program that was started and not connected to."""
    from dragoman.process.guard import kill_now

    kill_now(program.pid, program.marker, request.entry.quirks.spare)
    program.close()


def _recorder(options: Options, entry: AgentEntry, secrets: Secrets) -> Observer | None:
    if options.recording is None:
        return None
    from dragoman.trace.record.recorder import Recorder

    class WithoutKeys(Recorder):
        def received(self, line: bytes) -> None:
            super().received(secrets.mask_bytes(line))

        def sent(self, line: bytes) -> None:
            super().sent(secrets.mask_bytes(line))

    try:
        return WithoutKeys(options.recording, command=[*map(secrets.mask, entry.command)], cwd=options.cwd)
    except OSError as error:
        raise CliError(
            f"--record {options.recording}: {error.strerror}", hint="name a file that can be written"
        ) from None


def _servers(options: Options, configured: dict[str, dict[str, object]]) -> list[v1.McpServer]:
    if not configured and options.mcp_file is None:
        return []
    from dragoman.cli.exec.mcp import configured_servers, read_servers

    servers = configured_servers(configured)
    return servers if options.mcp_file is None else servers + read_servers(options.mcp_file)
