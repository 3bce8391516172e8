"""What an action of `dragoman mcp` works on: the MCP servers of the settings, and the one that was named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from dragoman.cli.exits import CliError

if TYPE_CHECKING:
    from dragoman.builtin.mcp.config import Problem, ServerSpec
    from dragoman.builtin.mcp.token_store import TokenStore
    from dragoman.settings import EffectiveSettings


class ListedServer(Struct, frozen=True):
    """One entry of the settings."""

    name: str
    source: Literal["user", "project"]
    entry: dict[str, Any]
    is_accepted: bool = True
    """Whether the user accepted it; what the user wrote needs no acceptance."""

    def read(self, *, is_used: bool = False) -> ServerSpec | Problem | None:
        """Return the server of the entry, the reason why it is wrong, or None if it is switched off.

        Args:
            is_used: fill in the variables of the environment, whose values no list shows.
        """
        from dragoman.builtin.mcp.config import read_entry
        from dragoman.settings.effective import filled

        return read_entry(self.name, filled(self.entry) if is_used and self.source == "user" else self.entry)


class ListedServers(Struct, frozen=True):
    """The servers of the folder this command runs in."""

    settings: EffectiveSettings
    tokens: TokenStore
    all: tuple[ListedServer, ...]

    def find(self, name: str) -> ListedServer:
        """Raises: CliError."""
        from dragoman.settings.documents import did_you_mean

        for server in self.all:
            if server.name == name:
                return server
        names = [server.name for server in self.all]
        hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}; dragoman mcp add adds one"
        raise CliError(f"there is no MCP server {name!r} in the settings", hint=hint)

    def usable(self, name: str) -> ServerSpec:
        """Return a server that may be contacted; an address counts as a server of its own. Raises: CliError."""
        from dragoman.builtin.mcp.config import Problem, ServerSpec

        if name.startswith(("http://", "https://")):
            return ServerSpec(name, url=name)
        found = self.find(name)
        if not found.is_accepted:
            hint = f"read and accept it with: dragoman agents accept --mcp {name}"
            raise CliError(f"the MCP server {name} is only proposed by the project", hint=hint)
        spec = found.read(is_used=True)
        if spec is None:
            raise CliError(f"the MCP server {name} is switched off", hint="set its `enabled` to true in the settings")
        if isinstance(spec, Problem):
            raise CliError(f"the MCP server {name} cannot be used: {spec.why}")
        return spec


def load_servers_here() -> ListedServers:
    """Return the servers for the folder this command runs in. Raises: ConfigError."""
    from dragoman.builtin.mcp.token_store import TokenStore
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.acceptances import mcp_fingerprint
    from dragoman.settings.places import config_dir

    settings = load_settings(config_dir(), find_project(Path.cwd()))
    found = [ListedServer(name, "user", entry) for name, entry in settings.user.mcp_servers.items()]
    for name, entry in settings.proposed_mcp_servers().items():
        is_accepted = settings.is_accepted("mcp", name, mcp_fingerprint(entry))
        found.append(ListedServer(name, "project", entry, is_accepted))
    return ListedServers(settings, TokenStore(config_dir()), tuple(found))


def required_name(name: str | None, action: str, example: str) -> str:
    """Return the name that was given. Raises: CliError, if none was."""
    if not name:
        raise CliError(f"mcp {action} needs the name of a server", hint=example)
    return name


def load_package() -> None:
    """Import the `mcp` package. Raises: CliError, if it is not installed."""
    try:
        from dragoman.builtin.mcp.connection import load

        load()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types", "httpx2", "anyio", "pydantic"):
            raise
        from dragoman.extras import install_command

        raise CliError("MCP needs one more package", hint=install_command("agent")) from None
