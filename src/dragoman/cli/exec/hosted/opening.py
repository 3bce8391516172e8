"""The opening of a named session of the local host, and of one whose agent has to be started again.

This is where the agent is chosen and the terms of the session are written down: its rules, its sandbox and its MCP
servers. All of that is decided when the session is opened; the options of a later
prompt can only repeat it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dragoman.cli.exec.agent_options import pass_options, refused
from dragoman.cli.exec.mcp import configured_servers, read_servers
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.request import with_model
from dragoman.cli.exec.rules import typed_rules
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import find_agent
from dragoman.host.environment import NOT_PASSED_ON
from dragoman.host.local.thin import HostRefused
from dragoman.registry.built_in import is_built_in, runs_built_in
from dragoman.runs.terms import restricting_rules
from dragoman.schema import encode

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import TurnRequest
    from dragoman.host.local.thin import ThinClient
    from dragoman.policy import Rule
    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.schema import v1


def open_plainly(client: ThinClient, request: TurnRequest, found: dict[str, Any] | None) -> dict[str, Any]:
    """Open or prepare a session as `SessionOpener` does, without options."""
    return SessionOpener(Options(cwd=request.cwd))(client, request, found)


class NewHosted(NamedTuple):
    """What a new session is opened with."""

    agent: str
    """The text that stands for the agent in the host."""
    terms: dict[str, Any]
    is_scripted: bool
    servers: list[v1.McpServer]
    meta: dict[str, Any]


class SessionOpener:
    """The opener of the session that one command line names; it may only have to be prepared."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __call__(self, client: ThinClient, request: TurnRequest, found: dict[str, Any] | None) -> dict[str, Any]:
        """Give the session, ready for a prompt.

        Raises:
            CliError, ConfigError: the agent or an option cannot be used.
            HostRefused: the host or the agent refuses.
        """
        if found is None:
            found = self._open(client, request)
            self._apply(client, found, is_new=True)
            return found
        self._compare(found)
        if not found["hasAgent"]:
            self._prepare(client, found)
        if found["state"] in ("idle", "lost", "closed"):
            self._apply(client, found, is_new=False)
        return found

    # A new one

    def describe(self, name: str | None) -> NewHosted:
        """Return what a new session is opened with, and what it is called.

        Raises:
            CliError, ConfigError: the agent or an option cannot be used.
        """
        options = self._options
        entry, agents, text = self._agent()
        entry, passed = pass_options(entry, options)
        if passed.system_prompt is not None:
            raise refused("append_system_prompt", entry.name)
        rules = typed_rules(options)
        terms = self._terms(rules)
        own: dict[str, Any] = {
            "agent": text,
            **({} if name is None else {"name": name}),
            "terms": terms,
        }
        project = options.cwd if agents.settings.root is None else str(agents.settings.root)
        asked = restricting_rules(rules, entry.name, (project, *options.roots[1:]))
        if asked and runs_built_in(entry):
            own["agentMeta"] = {"asksAbout": asked}
        return NewHosted(text, terms, entry.is_scripted, self._servers(agents), {**passed.meta, "dragoman": own})

    def _open(self, client: ThinClient, request: TurnRequest) -> dict[str, Any]:
        options = self._options
        if "machine" not in client.hello:
            raise CliError(
                NOT_PASSED_ON, hint="run without --session, or end it: dragoman sessions --host shows its pid"
            )
        text, terms, is_scripted, servers, meta = self.describe(request.name)
        request.session = {"agent": text, "terms": terms}
        try:
            opened = client.call(
                "session/new",
                cwd=options.cwd,
                mcpServers=_written(servers),
                **({"additionalDirectories": list(options.directories)} if options.directories else {}),
                _meta=meta,
            )
        except HostRefused as error:
            if error.reason != "name_taken":
                raise
            # Another program opened it in this moment: then it is the session that was meant.
            found: dict[str, Any] | None = client.call("_dragoman/named", name=request.name, cwd=request.cwd)["session"]
            if found is None:
                raise CliError(f"the session {request.name!r} is just being opened", hint="try again") from None
            return found
        return {
            "sessionId": opened["sessionId"],
            "cwd": options.cwd,
            "agent": text,
            "state": "idle",
            "isBusy": False,
            "hasAgent": True,
            "terms": terms,
            "isScripted": is_scripted,
        }

    def _agent(self) -> tuple[AgentEntry, Agents, str]:
        """Return the agent, and the text that stands for it in the host."""
        options = self._options
        entry, agents = find_agent("exec", options.agent, options.command, options.cwd, is_sure=options.is_sure)
        with_model(entry, options.model)  # refuses what the agent does not take
        if entry.source == "command":
            return entry, agents, f"-- {shlex.join(entry.command)}"
        words = []
        if options.model is not None and is_built_in(entry):
            words += ["--model", options.model]
        if is_built_in(entry):
            given, _ = pass_options(entry, options)
            words += given.command[len(entry.command) :]
        return entry, agents, shlex.join([entry.name, *words])

    def _terms(self, rules: list[Rule]) -> dict[str, Any]:
        options = self._options
        found: dict[str, Any] = {
            action: [rule.text for rule in rules if rule.action == action] for action in ("allow", "deny", "ask")
        }
        found |= {
            "allows_all": options.allows_all,
            "sandbox": options.sandbox,
            "closes_denied": options.closes_denied,
            "writable": list(options.writable),
            "offers_files": options.offers_files,
            "offers_terminals": options.offers_terminals,
            "uses_ledger": not options.no_ledger,
            "follows_changes": options.follows_changes,
        }
        switches = ("closes_denied", "offers_files", "offers_terminals", "uses_ledger", "follows_changes")
        plain = {"sandbox": "off", **dict.fromkeys(switches, True)}
        return {name: value for name, value in found.items() if value and value != plain.get(name)} | {
            name: False for name in switches if not found[name]
        }

    def _servers(self, agents: Agents) -> list[v1.McpServer]:
        servers = configured_servers(agents.settings.mcp_servers())
        return servers if self._options.mcp_file is None else servers + read_servers(self._options.mcp_file)

    # An earlier one

    def _compare(self, found: dict[str, Any]) -> None:
        """Refuse options that would change what a session was opened with: they would be ignored."""
        options = self._options
        if options.agent is not None or options.command is not None or options.model is not None:
            text = self._agent()[2]
            known = found["agent"]
            if options.agent is None and options.command is None:
                return  # a model alone is set as an option of the session
            if text != known and not (options.model is None and known.split(" ")[0] == text):
                raise CliError(
                    f"this session runs {known!r}, not {text!r}",
                    hint="choose another name, or end it first: dragoman sessions close",
                )
        wanted = self._terms(typed_rules(options))
        if wanted and wanted != found["terms"]:
            raise CliError(
                "the rules, the sandbox and --no-ledger of a session are those it was opened with",
                hint="leave them out, choose another name, or end it first: dragoman sessions close",
            )
        if options.directories or options.mcp_file is not None:
            raise CliError(
                "--add-dir and --mcp-config count only for a new session",
                hint="leave them out, or choose another name",
            )

    def _prepare(self, client: ThinClient, found: dict[str, Any]) -> None:
        """Give the agent that has to be started the MCP servers of this client."""
        _, agents, _ = SessionOpener(Options(cwd=found["cwd"]))._agent()
        client.call(
            "session/resume",
            sessionId=found["sessionId"],
            cwd=found["cwd"],
            mcpServers=_written(self._servers(agents)),
        )

    # Settings of the session

    def _apply(self, client: ThinClient, found: dict[str, Any], *, is_new: bool) -> None:
        """Set mode, model and options, and put a new session of a well-known agent into the mode that asks."""
        options = self._options
        entry = self._agent()[0] if is_new else None
        facts = None if entry is None or options.allows_all or not options.chooses_no_mode else entry.facts
        is_own_model = options.model is not None and entry is not None and is_built_in(entry)
        if facts is None and options.mode is None and not options.settings and (options.model is None or is_own_model):
            return
        import asyncio

        from msgspec.structs import replace

        chosen = replace(options, model=None) if is_own_model else options
        asyncio.run(_apply_by_role(client.place.socket, found, chosen, facts))


async def _apply_by_role(socket: str, found: dict[str, Any], options: Options, facts: Any) -> None:
    from dragoman.cli.console import write_note
    from dragoman.client import connect
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.host.local.build import hello
    from dragoman.runs.opening import apply_settings, enter_asking_mode

    models = LegacyModels()
    async with connect(f"unix:{socket}", meta={"dragoman": hello()}, observers=[models]) as agent:
        session = await agent.resume_session(found["sessionId"], found["cwd"])
        await apply_settings(session, options, models)
        for note in await enter_asking_mode(session, facts):
            write_note(note)


def _written(servers: list[v1.McpServer]) -> list[Any]:
    """Return the servers as plain JSON values."""
    written: list[Any] = msgspec.json.decode(encode(servers))
    return written
