"""The MCP servers of one session, and their tools in the session's table of tools.

Owns which servers there are, that all connect in parallel and in the background, and the names of their tools in the
table. The table changes only between turns, in `ready`: a turn keeps the tools it began with. The `mcp` package is
loaded in a thread when the first server is started, and not at all without one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.command import Command, argument_words
from dragoman.builtin.mcp.config import read_servers
from dragoman.builtin.mcp.resources import NAME as RESOURCE_TOOL
from dragoman.builtin.mcp.resources import ResourceTool
from dragoman.builtin.mcp.server import SessionServer, Waits, report
from dragoman.builtin.mcp.token_store import TokenStore
from dragoman.builtin.mcp.tools import McpTool, name_of
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
    from pathlib import Path

    from dragoman.builtin.context.command import Command
    from dragoman.builtin.mcp.client_side import ClientSide
    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.connection import PackageConnection
    from dragoman.builtin.mcp.listing import PromptMessage, PromptOffer
    from dragoman.builtin.mcp.server import McpConnection, Notice, Opener, SessionServer
    from dragoman.builtin.tools.tool import Tool
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.builtin")


class McpServers:
    """The servers of a session.

    Args:
        client_servers: The servers that the client sent.
        configured: The servers of the user's configuration, by name.
        tools: The session's table of tools, which `ready` and `close` change.
        notice: Shows a problem to the user: a title, and the reason with what to do.
        cwd: The working folder of servers that are started.
        after: Awaited before anything is started, such as the search for the user's PATH.
        side: What the servers can ask of the session.
        config_dir: The folder with the stored logins; None: there are none.
        on_change: Called when a server offers something else than before.
    """

    def __init__(
        self,
        client_servers: Sequence[v1.McpServer],
        configured: Mapping[str, Any],
        tools: dict[str, Tool],
        notice: Notice,
        cwd: str,
        *,
        waits: Waits = Waits(),  # noqa: B008 - frozen
        after: Callable[[], Awaitable[object]] | None = None,
        side: ClientSide | None = None,
        config_dir: Path | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        specs, self.problems = read_servers(client_servers, configured)
        self.all = [SessionServer(spec, cwd, notice, waits, on_change) for spec in specs]
        self._tools = tools
        self._notice = notice
        self._after = after
        self._side = side
        self._tokens = None if config_dir is None else TokenStore(config_dir)
        self._stamp = None if self._tokens is None else self._tokens.stamp()
        self._added: dict[tuple[SessionServer, str], McpTool] = {}
        self._resource_tool = ResourceTool(self)
        self._background: set[asyncio.Future[None]] = set()
        self._beginning: asyncio.Task[Opener | None] | None = None
        self.are_searched = False
        """Whether the tools are found with `tool_search`, for the rest of the session."""

    @property
    def tools(self) -> dict[str, McpTool]:
        """The tools of the servers that are in the table, by the name that the model sees."""
        return {tool.name: tool for tool in self._added.values()}

    def named(self, name: str) -> SessionServer:
        """Return the server of a name. Raises: ToolError."""
        for server in self.all:
            if server.spec.name == name:
                return server
        known = ", ".join(server.spec.name for server in self.all) or "none"
        raise ToolError(f"there is no MCP server {name!r}; there are: {known}")

    def start(self) -> None:
        """Start to connect, in the background."""
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin(), name="dragoman-mcp")
            for server in self.all:
                server.start(self._beginning)

    async def ready(self) -> None:
        """Return when every server is connected, has failed, or has taken too long; never raises.

        Then the table has the current tools of the servers. Call it only when no turn is running.
        """
        self._retry_logins()
        await asyncio.gather(*(server.settle() for server in self.all))
        self._update_tools()

    async def reconnect(self, name: str) -> SessionServer:
        """Try a server again that was given up, and wait for it as a turn does. Raises: ToolError."""
        server = self.named(name)
        if self._beginning is not None:
            server.start(self._beginning)
        await server.settle()
        return server

    def announce_roots(self) -> None:
        """Report to the servers, in the background, that the session's folders may have changed."""
        self._in_background(self._announce_roots())

    async def _announce_roots(self) -> None:
        for server in self.all:
            try:
                await server.announce_roots()
            except Exception as error:  # the connection is about to end, which its own task notices
                _log.debug("MCP server %s does not know the new folders: %s", server.spec.name, error)

    def _in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """End every connection and every process, and remove the tools from the table."""
        beginning = self._beginning
        if beginning is not None:
            beginning.cancel()
            await asyncio.wait({beginning})
        await asyncio.gather(*(server.close() for server in self.all))
        for task in tuple(self._background):
            task.cancel()
        for tool in self._added.values():
            self._remove(tool)
        self._added.clear()
        if self._tools.get(RESOURCE_TOOL) is self._resource_tool:
            del self._tools[RESOURCE_TOOL]

    # Prompts

    def commands(self, taken: Collection[str]) -> dict[str, Command]:
        """Return the prompts and the skills of the servers as commands, by name."""
        found = {name: command for name, (command, _, _) in prompt_commands(self.all, taken).items()}
        if any(server.listing.resources or server.listing.skills for server in self.all):
            from dragoman.builtin.skills.of_servers import server_skill_commands

            found |= server_skill_commands(self, {*taken, *found})
        return found

    async def prompt(self, name: str, arguments: str, taken: Container[str]) -> str:
        """Return the text of a prompt for the model. Raises: ToolError."""
        found = prompt_commands(self.all, taken).get(name)
        if found is None:
            raise ToolError(f"the prompt /{name} is not offered any more")
        _, server, offer = found
        text = prompt_text(await server.prompt(offer.name, read_arguments(arguments, offer)))
        if not text.strip():
            raise ToolError(f"the prompt /{name} of {server.spec.name} is empty")
        return text

    # Connecting

    def _retry_logins(self) -> None:
        """Try servers again that wanted a login, when logins have changed since."""
        stamp = None if self._tokens is None else self._tokens.stamp()
        if stamp != self._stamp and self._beginning is not None:
            self._stamp = stamp
            for server in self.all:
                if server.state == "login needed":
                    server.start(self._beginning)

    async def _begin(self) -> Opener | None:
        for problem in self.problems:
            await report(self._notice, f"MCP server {problem.name} is not available", problem.why)
        if not self.all:
            return None
        if self._after is not None:
            await self._after()
        try:
            connection = await asyncio.to_thread(_load)  # takes most of a second
        except ImportError as error:
            from dragoman.extras import install_command

            why = f"{error}. Install what is missing: {install_command('agent')}"
        except Exception as error:  # a damaged installation fails in its own way
            _log.exception("the mcp package cannot be loaded")
            why = f"the mcp package cannot be loaded ({type(error).__name__}: {error}). Install it again"
        else:
            return self._opener(connection)
        names = ", ".join(server.spec.name for server in self.all)
        for server in self.all:
            server.state, server.problem = "not available", why
        await report(self._notice, "MCP servers are not available", f"{names} cannot be used: {why}")
        return None

    def _opener(self, connection: type[PackageConnection]) -> Opener:
        def open(spec: ServerSpec, cwd: str, news: Callable[[], None]) -> McpConnection:
            auth = None
            if self._tokens is not None and spec.can_login:
                from dragoman.builtin.mcp.oauth import auth_for

                auth = auth_for(spec, self._tokens)

            def note(text: str) -> None:
                self._in_background(self._notice(f"MCP server {spec.name} reports", text))

            return connection(spec, cwd, news, side=self._side, note=note, auth=auth)

        return open

    def _update_tools(self) -> None:
        offered = {(server, offer.name): offer for server in self.all for offer in server.listing.tools}
        for key, tool in list(self._added.items()):
            if key not in offered:
                self._remove(tool)
                del self._added[key]
        for (server, name), offer in offered.items():
            old = self._added.get((server, name))
            if old is not None and old.offer == offer:
                continue
            # A tool that only changed keeps the name that the model has seen.
            known_as = name_of(server.spec.name, name, self._tools) if old is None else old.name
            tool = McpTool(known_as, server.spec.name, offer, server)
            self._tools[known_as] = self._added[server, name] = tool
        if any(server.listing.has_resources for server in self.all):
            self._tools.setdefault(RESOURCE_TOOL, self._resource_tool)
        elif self._tools.get(RESOURCE_TOOL) is self._resource_tool:
            del self._tools[RESOURCE_TOOL]

    def _remove(self, tool: McpTool) -> None:
        if self._tools.get(tool.name) is tool:
            del self._tools[tool.name]


def _load() -> type[PackageConnection]:
    from dragoman.builtin.mcp.connection import load

    return load()


_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.*)", re.DOTALL)
_DESCRIPTION_CHARACTERS: Final = 120
_PROMPT_CHARACTERS: Final = 100_000


def prompt_commands(
    servers: Sequence[SessionServer], taken: Container[str]
) -> dict[str, tuple[Command, SessionServer, PromptOffer]]:
    """Return the prompts of servers as slash commands by name: `/SERVER:PROMPT ARGUMENTS`.

    A command of the agent, the user or the project keeps its name; the prompt is then `/mcp:SERVER:PROMPT`.
    """
    found: dict[str, tuple[Command, SessionServer, PromptOffer]] = {}
    for server in servers:
        for offer in server.listing.prompts:
            plain = ":".join(_UNFIT.sub("_", part).strip("_.-") for part in (server.spec.name, offer.name))
            name = next(
                (
                    candidate
                    for candidate in (plain, f"mcp:{plain}")
                    if candidate not in taken and candidate not in found
                ),
                None,
            )
            if name is None or not all(plain.split(":")):
                continue
            words = shorten(sentence(offer.description), _DESCRIPTION_CHARACTERS) or offer.name
            hint = " ".join(
                f"<{parameter.name}>" if parameter.is_required else f"[{parameter.name}]"
                for parameter in offer.parameters
            )
            command = Command(name, f"{words} (MCP: {server.spec.name})", sentence(hint), source="mcp")
            found[name] = command, server, offer
    return found


def read_arguments(text: str, offer: PromptOffer) -> dict[str, str]:
    """Read the arguments after a command: `name=value`, and the others by position; the last takes the rest.

    Raises: ToolError that says what is missing.
    """
    names = [parameter.name for parameter in offer.parameters]
    given: dict[str, str] = {}
    plain: list[str] = []
    for word in argument_words(text):
        named = _NAMED.fullmatch(word)
        if named is not None and named[1] in names:
            given[named[1]] = named[2]
        else:
            plain.append(word)
    free = [name for name in names if name not in given]
    for index, name in enumerate(free):
        if index < len(plain):
            is_last = index == len(free) - 1
            given[name] = " ".join(plain[index:]) if is_last else plain[index]
    if plain and not free:
        raise ToolError(f"the prompt {offer.name} takes no such argument: {plain[0]}")
    missing = [
        parameter.name for parameter in offer.parameters if parameter.is_required and parameter.name not in given
    ]
    if missing:
        raise ToolError(f"the prompt {offer.name} needs {', '.join(missing)}: write {'=... '.join(missing)}=...")
    return given


def prompt_text(messages: Sequence[PromptMessage]) -> str:
    """Return the messages of a prompt as one text for the model."""
    if len(messages) == 1:
        text = messages[0].text
    else:
        text = "\n\n".join(
            f"{'User' if message.role == 'user' else 'Assistant'}: {message.text}" for message in messages
        )
    return text[:_PROMPT_CHARACTERS]
