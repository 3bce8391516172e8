"""What a run is going to do, read before anything is started; and the start of the agent's program.

The program is started before the greater part of dragoman is loaded: the two take place side by side, and most of what
dragoman costs is gone in the time the agent needs to start. So nothing here may import asyncio or the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dragoman.cli.entry import find_agent, is_built_in
from dragoman.cli.exec.exit_code import StartFailed
from dragoman.cli.exec.options import Options, read_options
from dragoman.cli.exec.prompt import Prompt, read_prompt
from dragoman.cli.exec.rules import remembered_rules, typed_rules
from dragoman.cli.exits import Failure
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.cli.command import Call
    from dragoman.cli.exec.output import Output
    from dragoman.policy import Rule
    from dragoman.process.launch import Launched
    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Observer
    from dragoman.schema import v1

SCRIPTED_MODEL = "scripted"


class Plan(NamedTuple):
    """Everything a run needs to know, checked."""

    options: Options
    prompt: Prompt
    entry: AgentEntry
    project: str
    rules: list[Rule]
    servers: list[v1.McpServer]
    recorder: Observer | None


def read_plan(call: Call, output: Output) -> Plan:
    """Reads everything that can be wrong before an agent is started.

    Raises:
        Failure, ConfigError: something is.
    """
    options = read_options(call)
    if options.has_progress:
        output.show_progress(is_verbose=options.is_verbose, root=options.cwd)
    entry, agents = find_agent("exec", options.agent, options.command, options.cwd)
    entry = _with_model(entry, options.model)
    settings = agents.settings
    project = options.cwd if settings.root is None else str(settings.root)
    rules = typed_rules(options) + remembered_rules(project) + settings.rules()
    servers = _servers(options, settings.mcp_servers())
    prompt = read_prompt(options)
    for note in agents.notes:
        output.note(note)
    for name in prompt.outside:
        output.note(f"@{name} stays text: it is outside the session's folders (see --add-dir)")
    return Plan(options, prompt, entry, project, rules, servers, _recorder(options, entry))


def _with_model(entry: AgentEntry, model: str | None) -> AgentEntry:
    """The agent, started with the model if it is ours; others are told once a session is open."""
    if model is None:
        return entry
    if is_built_in(entry):
        from msgspec.structs import replace

        return replace(entry, command=(*entry.command, "--model", model))
    if model == SCRIPTED_MODEL:
        raise Failure("--model scripted belongs to the built-in agent", hint="name no agent to use that one")
    return entry


def start_program(plan: Plan) -> Launched:
    """Starts the agent's program; from now on it does not outlive this one.

    Raises:
        StartFailed: it cannot be started.
    """
    from dragoman.process.launch import launch

    entry = plan.entry
    try:
        program = launch(entry.command, cwd=plan.options.cwd, env=entry.env)
    except ConfigError as error:
        raise StartFailed(str(error)) from error
    from dragoman.process.guard import guard  # loaded while the program already starts

    guard.watch(program.pid, program.marker, entry.quirks.spare)
    return program


def end_program(plan: Plan, program: Launched) -> None:
    """Ends a program nobody has begun to talk to."""
    from dragoman.process.guard import kill_now

    kill_now(program.pid, program.marker, plan.entry.quirks.spare)
    program.close()


def _recorder(options: Options, entry: AgentEntry) -> Observer | None:
    if options.recording is None:
        return None
    from dragoman.trace.record.recorder import Recorder

    try:
        return Recorder(options.recording, command=entry.command, cwd=options.cwd)
    except OSError as error:
        raise Failure(
            f"--record {options.recording}: {error.strerror}", hint="name a file that can be written"
        ) from None


def _servers(options: Options, configured: dict[str, dict[str, object]]) -> list[v1.McpServer]:
    if not configured and options.mcp_file is None:
        return []
    from dragoman.cli.exec.mcp import configured_servers, read_servers

    servers = configured_servers(configured)
    return servers if options.mcp_file is None else servers + read_servers(options.mcp_file)
