"""Everything a run needs, read before the agent is started; and the start of the agent's program.

The program is started before most of dragoman is loaded, so that both happen at the same time and the agent's start-up
hides most of ours. Therefore nothing here may import asyncio or the protocol.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dragoman.boundary import boundary_of
from dragoman.cli.exec.agent_options import PassedOptions, pass_options
from dragoman.cli.exec.exit_code import StartFailed
from dragoman.cli.exec.options import Options, read_options
from dragoman.cli.exec.prompt import Prompt, read_prompt
from dragoman.cli.exec.rules import remembered_rules, typed_rules
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import find_agent
from dragoman.errors import ConfigError
from dragoman.registry.built_in import is_built_in, runs_built_in, with_open_files
from dragoman.runs.sandbox import RunSandboxes, confine_agent, prepare_sandboxes, sandboxed_entry
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.exec.view import ExecView
    from dragoman.policy import Rule
    from dragoman.process.launch import Launched
    from dragoman.process.sandbox.apart import ApartCommand
    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Observer
    from dragoman.runs.result import RunAgent
    from dragoman.runs.terms import Terms
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
    sandboxes: RunSandboxes
    restores_protected: bool = False
    passed: PassedOptions = PassedOptions()
    uses_ledger: bool = True
    """Whether the session is written into the ledger."""

    @property
    def allows_all(self) -> bool:
        """Whether everything that no rule denies is allowed, by the option or by the settings of the agent."""
        return self.options.allows_all or self.entry.allows_all

    def described_agent(self) -> RunAgent:
        """Return the agent as it is configured, for an event."""
        from dragoman.runs.record import describe_agent

        return describe_agent(self.terms())

    def terms(self) -> Terms:
        """Return the terms of the run; made when the agent's program was started."""
        from dragoman.cli.exec.rules import remember_rule, rule_file
        from dragoman.runs.ledger import ledger_name
        from dragoman.runs.terms import SessionTerms, Terms, mode_rules

        options, project, rules = self.options, self.project, self.rules
        is_own = runs_built_in(self.entry)
        return Terms(
            agent=self.entry.name,
            entry=self.entry,
            chosen=SessionTerms(
                allows_all=options.allows_all,
                sandbox=options.sandbox,
                writable=options.writable,
                offers_files=options.offers_files,
                offers_terminals=options.offers_terminals,
                uses_ledger=self.uses_ledger,
                follows_changes=options.follows_changes,
            ),
            project=project,
            roots=options.roots,
            rules=lambda mode: [*rules, *mode_rules(mode, options.roots)] if is_own else rules,
            sandboxes=self.sandboxes,
            restores=self.restores_protected,
            remember=lambda text, action, scope: remember_rule(project, text, action, scope),
            rule_file=rule_file(),
            ledger_name=ledger_name(self.entry),
            left_out=tuple(_own_files(options)),
        )


def read_request(call: CliCall, view: ExecView) -> RunRequest:
    """Read and check the options, settings, rules and prompt.

    Raises:
        CliError, ConfigError: one of them is wrong.
    """
    options = read_options(call)
    view.root = options.cwd
    view.show_progress(options)
    entry, agents = find_agent("exec", options.agent, options.command, options.cwd, is_sure=options.is_sure)
    if options.keeps_session and "connect" not in entry.command:
        raise CliError("--keep is for a session at a host", hint="add --url, or leave it out: sessions here stay")
    if not options.closes_denied:
        entry = with_open_files(entry)
    entry, passed = pass_options(with_model(entry, options.model), options)
    view.secrets = Secrets(os.environ, entry.env)
    settings = agents.settings
    project = options.cwd if settings.root is None else str(settings.root)
    rules = typed_rules(options) + remembered_rules(project) + settings.rules()
    servers = _servers(options, settings.mcp_servers())
    prompt = read_prompt(options)
    if options.allows_all or entry.allows_all:
        named = "--dangerously-allow-all" if options.allows_all else f"dangerously_allow_all ({entry.where})"
        view.note(f"{named}: everything the agent asks for is allowed, protected files included")
    for note in agents.notes:
        view.note(note)
    for name in prompt.outside:
        view.note(f"@{name} is sent as text: the file is outside the session's folders (see --add-dir)")
    recorder = _recorder(options.recording, options, entry, view.secrets)
    sandboxes = prepare_sandboxes(options.wanted_sandboxes(entry.name, rules), entry)
    if sandboxes.agent is not None:
        entry = sandboxed_entry(entry)
    for note in sandboxes.notes():
        view.note(note)
    if sandboxes.agent is None and boundary_of(options.cwd) is not None:
        from dragoman.process.sandbox.apart import lacks_enforcement

        lacking = lacks_enforcement(options.cwd)
        if lacking:
            view.note(lacking)
    restores = settings.restores_protected
    ledger = settings.uses_ledger and not options.no_ledger
    return RunRequest(options, prompt, entry, project, rules, servers, recorder, sandboxes, restores, passed, ledger)


def again(request: RunRequest, number: int, view: ExecView) -> RunRequest:
    """Return the same run for another try; each try has its own recording.

    Raises:
        CliError: the recording cannot be written.
    """
    if request.recorder is None or request.options.recording is None:
        return request
    path = f"{request.options.recording}.retry-{number}"
    return request._replace(recorder=_recorder(path, request.options, request.entry, view.secrets))


def with_model(entry: AgentEntry, model: str | None) -> AgentEntry:
    """Pass the model on the command line of the built-in agent; others get it when their session is open."""
    if model is None:
        return entry
    if is_built_in(entry):
        from msgspec.structs import replace

        return replace(entry, command=(*entry.command, "--model", model))
    if model == SCRIPTED_MODEL:
        raise CliError("--model scripted is for the built-in agent", hint="name it with -a dragoman")
    return entry


def start_program(request: RunRequest) -> Launched:
    """Start the agent's program; from now on it does not outlive this process.

    Raises:
        StartFailed: the program cannot be started.
    """
    try:
        return _launch(request)
    except ConfigError as error:
        raise StartFailed(str(error)) from error


def _launch(request: RunRequest) -> Launched:
    from dragoman.process.launch import launch

    entry, cwd = request.entry, request.options.cwd
    if request.sandboxes.agent is None:
        apart = _kept_apart(entry, cwd)
        return launch(
            entry.command if apart is None else apart.argv,
            cwd=cwd,
            env=entry.changed_env(os.environ),
            spare=entry.quirks.spare,
            starter=None if apart is None else apart.starter,
        )
    inside = confine_agent(request.sandboxes.agent, entry, cwd)
    return launch(
        inside.argv,
        cwd=inside.cwd,
        env=inside.env,
        inherit_env=False,
        spare=entry.quirks.spare,
        starter=inside.starter,
    )


def _kept_apart(entry: AgentEntry, cwd: str) -> ApartCommand | None:
    """Return the agent's command within the boundary of a worktree; None elsewhere."""
    if boundary_of(cwd) is None:
        return None
    from dragoman.process.sandbox.apart import keep_apart

    return keep_apart(entry.command, cwd, cwd=cwd, env={**os.environ, **entry.env})


def _recorder(path: str | None, options: Options, entry: AgentEntry, secrets: Secrets) -> Observer | None:
    if path is None:
        return None
    from dragoman.cli.exec.recording import make_recorder

    return make_recorder(path, entry.command, options.cwd, secrets)


def _servers(options: Options, configured: dict[str, dict[str, object]]) -> list[v1.McpServer]:
    if not configured and options.mcp_file is None:
        return []
    from dragoman.cli.exec.mcp import configured_servers, read_servers

    servers = configured_servers(configured)
    return servers if options.mcp_file is None else servers + read_servers(options.mcp_file)


def _own_files(options: Options) -> list[str]:
    """Return the files that the run itself writes: the patch, a recording for each try, and redirected output."""
    found = [] if options.patch is None else [options.patch]
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or there is no such way to learn its name
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    if options.recording is not None:
        tries = range(1, options.retries + 1)
        found += [options.recording, *(f"{options.recording}.retry-{number}" for number in tries)]
    return found
