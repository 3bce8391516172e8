"""One connection to an MCP server, through the official `mcp` package.

Owns the three transports and the requests to the server; `losses.py` has the messages about failures. A server on stdio
is a child of `dragoman.process`, so that its whole process tree ends with it. The package takes most of a second to
import and is not part of a base install, so `load` imports it, in a thread, when a session has a server; all other
imports of it are inside functions.

What it raises has no common class: its own errors come mixed with those of httpx, anyio, pydantic and of the transport,
some of them in groups. So each request here has an `except Exception`, which turns what it catches into an error of
this project; cancellation passes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman._version import __version__
from dragoman.builtin.mcp.client_side import NoClientSide, UserQuestion
from dragoman.builtin.mcp.inbound import LOG_LEVEL, Inbound
from dragoman.builtin.mcp.listing import (
    MOST_ENTRIES,
    MOST_PAGES,
    Listing,
    PromptMessage,
    prompt_offer,
    resource_offer,
    resource_texts,
    template_offer,
    tool_offer,
)
from dragoman.builtin.mcp.losses import first_of, is_end, loss_of, words_of
from dragoman.builtin.mcp.server import McpConnectionLost
from dragoman.builtin.mcp.stdio import Incoming, Outgoing, Watched
from dragoman.builtin.mcp.tools import output_of
from dragoman.builtin.skills.manifest import EXTENSION, read_entries
from dragoman.builtin.tools.tool import ToolError
from dragoman.process.child import Patience
from dragoman.text.secrets import Secrets
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from types import TracebackType

    import httpx2
    from mcp.client._transport import Transport

    from dragoman.builtin.mcp.client_side import ClientSide
    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.listing import ResourceText
    from dragoman.builtin.mcp.server import Progress
    from dragoman.builtin.tools.tool import ToolOutput

_log = logging.getLogger("dragoman.builtin")

# What the official package passes on; everything else may be a secret.
INHERITED_VARIABLES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
CALL_SECONDS: Final = 600.0  # a build or a crawl takes minutes; a server that forgot the call never answers
_REACH_SECONDS: Final = 30.0
_PATIENCE: Final = Patience(1.0, 2.0)  # servers that exit at the end of stdin do so at once
# For what a connection can do without: a change before the subscription is active would be missed, and the level of the
# server's log be its own.
_LISTEN_SECONDS: Final = 2.0
_LIST_CHANGES: Final = tuple(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
_PAGE_DONE: Final = "notifications/elicitation/complete"
# The server wants the user to visit a page before the call can be made.
_URL_REQUIRED: Final = -32042


def load() -> type[PackageConnection]:
    """Import the package. Raises: ImportError."""
    import mcp  # the top first: its submodules may have been imported already by another package
    import mcp.client.sse
    import mcp.client.streamable_http  # noqa: F401 - so that no later import of it blocks the event loop

    return PackageConnection


class PackageConnection:
    """An `McpConnection` through the `mcp` package. `news` is called when `lost` or `has_changed` is set.

    Args:
        side: what the server can ask of its client.
        note: shows a line of the server's log.
        auth: authorises the requests to an address.
    """

    def __init__(
        self,
        spec: ServerSpec,
        cwd: str,
        news: Callable[[], None],
        *,
        side: ClientSide | None = None,
        note: Callable[[str], None] | None = None,
        auth: httpx2.Auth | None = None,
    ) -> None:
        import mcp_types
        from mcp import Client

        self.lost: str | None = None
        self.has_changed = False
        self._spec = spec
        self._cwd = cwd
        self._news = news
        self._auth = auth
        self._side = side or NoClientSide()
        self._inbound = Inbound(spec, self._side, note or (lambda text: None))
        self._status: int | None = None
        self._listening: asyncio.Task[None] | None = None
        self._client = Client(
            self._transport(),
            message_handler=self._receive,
            sampling_callback=None if spec.sampling == "never" else self._inbound.sample,
            elicitation_callback=self._inbound.elicit if spec.elicitation else None,
            list_roots_callback=self._inbound.roots if self._side.roots else None,
            logging_callback=self._inbound.log,
            log_level=LOG_LEVEL,
            client_info=mcp_types.Implementation(name="dragoman", version=__version__),
            read_timeout_seconds=CALL_SECONDS,
            cache=None,  # the lists are requested again only after the server announced a change
        )

    async def __aenter__(self) -> PackageConnection:
        """Raises: McpConnectionLost with the reason why the server is not available."""
        try:
            await self._client.__aenter__()
        except Exception as error:  # of the package, of httpx or of a transport; all mean that there is no connection
            raise self._loss(error) from error
        try:
            if self._client.session.discover_result is not None:
                await self._begin_listening()
            elif self._client.server_capabilities.logging is not None:
                await self._set_log_level()
        except BaseException as error:
            # Cancelled, mostly by the time limit of connecting: nothing else would end the server's process.
            if await self.__aexit__(type(error), error, error.__traceback__):
                raise self._loss(error) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Report a cancellation by the package as `lost`.

        The package cancels the task that entered a connection when it breaks.
        """
        if self._listening is not None:
            self._listening.cancel()
        has_broken = False
        try:
            await self._client.__aexit__(kind, error, traceback)
        except Exception as broken:
            has_broken = broken is not error
            self._lose(str(self._loss(broken)))
        if self._listening is not None:
            await asyncio.wait({self._listening})
        task = asyncio.current_task()
        return has_broken and isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()

    async def listing(self) -> Listing:
        """Return what the server offers. Only its tools have to be listed. Raises: McpConnectionLost."""
        client, can = self._client, self._client.server_capabilities
        try:
            tools = await _pages(client.list_tools, "tools") if can.tools is not None else []
        except Exception as error:
            raise self._loss(error) from error
        has_resources = can.resources is not None
        resources = await self._optional(client.list_resources, "resources") if has_resources else []
        templates = await self._optional(client.list_resource_templates, "resource_templates") if has_resources else []
        prompts = await self._optional(client.list_prompts, "prompts") if can.prompts is not None else []
        skills = await self._skills() if EXTENSION in (can.extensions or {}) else None
        offered, problems = (None, ()) if skills is None else read_entries(skills)
        own = client.server_info
        return Listing(
            tuple(map(tool_offer, tools)),
            (*map(resource_offer, resources), *map(template_offer, templates)),
            tuple(map(prompt_offer, prompts)),
            has_resources,
            f"{own.title or own.name} {own.version}".strip() if own is not None else "",
            client.protocol_version,
            offered,
            problems,
        )

    async def _skills(self) -> list[Any]:
        """Return the entries of the server's skills, as it sends them. Raises: McpConnectionLost."""
        from mcp_types import PaginatedRequest, PaginatedRequestParams, PaginatedResult

        class SkillsPage(PaginatedResult):
            skills: list[Any]

        async def list_page(cursor: str | None) -> SkillsPage:
            request = PaginatedRequest[str](method="skills/list", params=PaginatedRequestParams(cursor=cursor))
            return await self._client.session.send_request(request, SkillsPage)

        return await self._optional(list_page, "skills")

    async def call(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str], progress: Progress | None = None
    ) -> ToolOutput:
        """Call a tool and return its result. Cancelling this cancels the call at the server.

        Raises: ToolError when the server refuses or fails, McpConnectionLost when it is gone.
        """

        show = progress

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if show is not None:
                count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                await show(f"{message} ({count})" if message else count)

        try:
            result = await self._client.call_tool(
                tool, arguments, progress_callback=report, meta=cast("Any", {**meta} or None)
            )
        except Exception as error:
            await self._show_pages(error)
            raise self._failure(tool, error) from error
        return output_of(result.content, result.structured_content, is_error=result.is_error)

    async def read(self, uri: str) -> tuple[ResourceText, ...]:
        """Read a resource. Raises: ToolError, McpConnectionLost."""
        try:
            return resource_texts((await self._client.read_resource(uri)).contents)
        except Exception as error:
            raise self._failure(f"to read {uri}", error) from error

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises: ToolError, McpConnectionLost."""
        try:
            found = await self._client.get_prompt(name, arguments)
        except Exception as error:
            raise self._failure(f"the prompt {name}", error) from error
        return tuple(
            PromptMessage(message.role, output_of([message.content], None, is_error=False).text)
            for message in found.messages
        )

    async def announce_roots(self) -> None:
        """Report that the session's folders have changed. Protocol 2026-07-28 has no such message."""
        from mcp_types import RootsListChangedNotification

        if self._client.session.discover_result is None:
            await self._client.session.send_notification(RootsListChangedNotification())

    async def _optional(self, list_page: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
        try:
            return await _pages(list_page, member)
        except Exception as error:
            if self.lost is not None or is_end(first_of(error)):
                raise self._loss(error) from error
            _log.warning("MCP server %s does not list its %s: %s", self._spec.name, member, first_of(error))
            return []

    async def _show_pages(self, error: Exception) -> None:
        """Ask the user to visit the pages without which the server refuses a call."""
        from mcp import MCPError

        if not isinstance(error, MCPError) or error.code != _URL_REQUIRED or not self._spec.elicitation:
            return
        data = error.error.data
        for entry in (data.get("elicitations") if isinstance(data, dict) else None) or ():
            if isinstance(entry, dict) and isinstance(entry.get("url"), str):
                id = str(entry.get("elicitationId", ""))
                question = UserQuestion(str(entry.get("message", "")), url=entry["url"], id=id)
                await self._side.ask_user(self._spec, question)

    async def _receive(self, message: Any) -> None:
        method = getattr(message, "method", None)
        if method in _LIST_CHANGES:
            self._change()
        elif method == _PAGE_DONE:
            await self._inbound.complete(message.params.elicitation_id)

    async def _set_log_level(self) -> None:
        from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

        # The method of the package warns that later protocols have no such request; this server needs it.
        request = SetLevelRequest(params=SetLevelRequestParams(level=LOG_LEVEL))
        try:
            async with asyncio.timeout(_LISTEN_SECONDS):
                await self._client.session.send_request(request, EmptyResult)
        except Exception as error:  # a server that refuses it, or does not answer, can be used all the same
            _log.debug("MCP server %s keeps its log level: %s", self._spec.name, first_of(error))

    async def _begin_listening(self) -> None:
        """Subscribe to changes, which protocol 2026-07-28 requires. Without it the lists stay as they are."""
        can = self._client.server_capabilities
        wanted: dict[str, Any] = {
            f"{kind}_list_changed": True
            for kind, own in (("tools", can.tools), ("resources", can.resources), ("prompts", can.prompts))
            if own is not None and own.list_changed
        }
        if not wanted:
            return
        listens = asyncio.Event()

        async def listen() -> None:
            try:
                async with self._client.listen(**wanted) as changes:
                    listens.set()
                    async for _ in changes:
                        self._change()
            except Exception as error:
                _log.debug("MCP server %s reports no changes: %s", self._spec.name, error)
            finally:
                listens.set()

        self._listening = asyncio.create_task(listen(), name=f"dragoman-mcp-listen-{self._spec.name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(_LISTEN_SECONDS):
                await listens.wait()

    def _change(self) -> None:
        self.has_changed = True
        self._news()

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = Secrets(os.environ, self._spec.env).mask(why)
            self._news()

    # Transports

    def _transport(self) -> Transport:
        if self._spec.command:
            return self._stdio()
        return self._sse() if self._spec.is_sse else self._http()

    @asynccontextmanager
    async def _stdio(self) -> AsyncIterator[Any]:
        spec = self._spec
        # Like other MCP clients: a server has no use for the keys of model providers, so it gets what its entry names.
        inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        transport = await ProcessTransport.spawn(
            spec.command,
            cwd=spec.cwd or self._cwd,
            env={**inherited, **spec.env},
            inherit_env=False,
            patience=_PATIENCE,
        )
        streams = Incoming(transport, lambda reason: self._lose(str(reason).replace("the agent", "it", 1)))
        transport.start(streams)
        try:
            yield streams, Outgoing(streams)
        finally:
            streams.close()
            await transport.wait_closed()

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[Any]:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        async with (
            AsyncClient(
                headers=self._spec.headers,
                auth=self._auth,
                timeout=Timeout(_REACH_SECONDS, read=CALL_SECONDS),
                event_hooks={"response": [self._note_status]},
            ) as client,
            streamable_http_client(self._spec.url, http_client=client) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _sse(self) -> AsyncIterator[Any]:
        from mcp.client.sse import sse_client

        watched: Watched | None = None

        def fail(error: BaseException) -> None:
            self._lose(str(self._loss(error)))
            if watched is not None:
                watched.end()

        async with sse_client(
            self._spec.url,
            self._spec.headers,
            timeout=_REACH_SECONDS,
            sse_read_timeout=CALL_SECONDS,
            httpx_client_factory=_posting(fail),
            auth=self._auth,
        ) as (reads, writes):
            watched = Watched(reads, lambda: self._lose("it closed the connection"))
            yield watched, writes

    async def _note_status(self, response: httpx2.Response) -> None:
        self._status = response.status_code if response.is_error else None

    # Failures

    def _failure(self, what: str, error: Exception) -> ToolError | McpConnectionLost:
        """Return the error of a request: that of the connection, or that of the request."""
        from httpx2 import HTTPError
        from mcp import MCPError
        from mcp_types import REQUEST_TIMEOUT

        first = first_of(error)
        if self.lost is not None or isinstance(first, (HTTPError, OSError, McpConnectionLost)) or is_end(first):
            loss = self._loss(first)
            self._lose(str(loss))
            return loss
        name = self._spec.name
        if not isinstance(first, MCPError):
            return ToolError(f"the answer of {name} to {what} cannot be used: {words_of(first)}")
        if first.code == REQUEST_TIMEOUT:
            return ToolError(f"{name} did not finish {what} within {CALL_SECONDS:g} s")
        if first.code == _URL_REQUIRED:
            return ToolError(f"{name} needs the user to visit a page first: {first.message}; then call it again")
        return ToolError(f"{name} refused {what}: {first.message}")

    def _loss(self, error: BaseException) -> McpConnectionLost:
        """Return the error of a connection that failed or is over."""
        if self.lost is not None:
            return McpConnectionLost(self.lost)
        return loss_of(self._spec, error, self._status)


def _posting(fail: Callable[[BaseException], None]) -> Callable[..., httpx2.AsyncClient]:
    """Return a function that makes HTTP clients, which report a message that could not be sent over SSE.

    The package only logs that. It sends nothing more then, and every call would wait until its time limit.
    """
    from httpx2 import AsyncClient, HTTPStatusError

    class PostingClient(AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                response = await super().send(request, **options)
            except Exception as error:
                if request.method == "POST":
                    fail(error)
                raise
            if request.method == "POST" and response.is_error:
                fail(HTTPStatusError("the message was refused", request=request, response=response))
            return response

    return PostingClient


async def _pages(list_page: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
    """Return the entries of all pages of a list, up to a number."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await list_page(cursor=cursor)
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None or len(found) >= MOST_ENTRIES:
            break
    return found[:MOST_ENTRIES]
