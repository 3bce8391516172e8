"""The page in a real browser, in front of a host of this process whose agent a test plays.

One browser and one host serve all tests of a process. They live in a thread with an event loop of their own, because
tests of other folders run loops in the main thread; `conftest.py` runs the coroutine tests of this folder in it. Each
test gets pages of a new context, paired as a device of their own.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import pytest
from websockets.asyncio.client import ClientConnection, connect

from dragoman.host.host import Host
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.limits import Buckets
from dragoman.host.serving.metrics import HostMetrics
from dragoman.host.serving.page_files import PageFiles
from dragoman.host.serving.pairing import NewDevice
from dragoman.host.serving.server import HostServer, ServeOptions
from dragoman.host.serving.tokens import RIGHTS, HostToken, HostTokens
from dragoman.host.working.uploads import Uploads
from dragoman.store.memory_log import MemoryLog
from tests import machine
from tests.host.kit import OnTheWire, WireAgent
from tests.host.serving.kit import FREELY, CuttingProxy
from tests.trace.browser import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = 60.0
SIZES: Final = {"desktop": {"width": 1400, "height": 900}, "phone": {"width": 390, "height": 844}}
AXE: Final = ROOT / "web/node_modules/axe-core/axe.min.js"
OPTIONS: Final = [
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
# Each context would get a process for the buttons of a window that has none, and one in reserve. Of several such lists
# the last one counts, so the first lines repeat what Playwright turns off.
WITHOUT: Final = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    *("PreconnectToSearch", "PreloadTopChromeWebUI", "SpareRendererForSitePerProcess"),
)
_names = itertools.count(1)


def needs_page() -> None:
    """Skips a test that needs the page where it cannot be built or shown, with the reason."""
    if machine.program("node") is None:
        pytest.skip("Node.js is not installed, so the web page cannot be built")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")


def build_page(folder: Path) -> Path:
    """Builds the page as it is now; gives the folder."""
    done = subprocess.run(
        ["node", "build.mjs", "--out", str(folder)], cwd=ROOT / "web", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def shared_page(factory: pytest.TempPathFactory) -> Path:
    """Gives the folder of the page as it is now, which is built once for all workers of a run."""
    base = factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (run / "page.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (run / "page" / "table.json").exists():  # the last file of a build
            build_page(run / "page")
    return run / "page"


class Loop:
    """A thread with an event loop, in which a host, a browser and the tests of this folder run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="web tests", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 90.0) -> T:
        """The result of a coroutine that runs there."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(_bounded(work, seconds), self._loop)
        return done.result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


async def _bounded(work: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


class Played:
    """A session whose agent the test plays, from a prompt to the end of the turn."""

    def __init__(self, id: str, agent: WireAgent) -> None:
        self.id = id
        self.agent = agent
        self._prompt: dict[str, Any] = {}
        self._calls = itertools.count(1)

    async def prompted(self) -> str:
        """Waits for a prompt; gives its text. The turn runs until `end`."""
        self._prompt = await self.agent.prompted()
        return "".join(block.get("text", "") for block in self._prompt["params"]["prompt"])

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks of the last prompt."""
        return list(self._prompt["params"]["prompt"])

    def say(self, text: str, **members: Any) -> None:
        self.agent.say(text, **members)

    def think(self, text: str) -> None:
        self.agent.update("agent_thought_chunk", content={"type": "text", "text": text})

    def update(self, kind: str, /, **members: Any) -> None:
        self.agent.update(kind, **members)

    def tool(self, title: str, kind: str = "execute", status: str = "pending", **members: Any) -> str:
        """Announces a tool call; gives its id."""
        id = members.pop("id", None) or f"call-{next(self._calls)}"
        self.agent.update("tool_call", toolCallId=id, title=title, kind=kind, status=status, **members)
        return id

    def tool_update(self, id: str, **members: Any) -> None:
        self.agent.update("tool_call_update", toolCallId=id, **members)

    def ask(self, title: str = "go test ./...", kind: str = "execute", **call: Any) -> Answer:
        """Asks for a permission; gives what becomes of it."""
        id = call.pop("id", None) or self.tool(title, kind, **call)
        tool = {"toolCallId": id, "title": title, "kind": kind, "status": "pending", **call}
        return Answer(self.agent, self.agent.call("session/request_permission", toolCall=tool, options=OPTIONS))

    def end(self, reason: str = "end_turn") -> None:
        self.agent.reply(self._prompt, {"stopReason": reason})

    def fail(self, message: str) -> None:
        self.agent.fail(self._prompt, code=-32603, message=message)


class Answer:
    """What becomes of a question of the agent."""

    def __init__(self, agent: WireAgent, id: int) -> None:
        self._agent = agent
        self._id = id

    async def chosen(self) -> str:
        """The option that was chosen; `cancelled` if none was."""
        found = await self._agent.answer(self._id)
        return str(found["outcome"].get("optionId", found["outcome"]["outcome"]))


class WireClient:
    """Another client of the same user, on the wire; it folds nothing and keeps every message."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.heard: list[dict[str, Any]] = []

    async def request(self, method: str, **params: Any) -> Any:
        id = next(self._ids)
        await self._socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        return (await self.until(lambda message: message.get("id") == id and "method" not in message)).get("result")

    async def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            async with asyncio.timeout(SECONDS):
                message: dict[str, Any] = json.loads(await self._socket.recv())
            self.heard.append(message)
            if is_it(message):
                return message

    def texts(self) -> str:
        """The agent's text of all updates so far."""
        updates = (message["params"]["update"] for message in self.heard if message.get("method") == "session/update")
        return "".join(
            update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
        )


class Web:
    """What the tests of this folder share: a browser, a host with the page, and its agent."""

    def __init__(self, host: Host, source: OnTheWire, proxy: CuttingProxy, tokens: HostTokens, folder: Path) -> None:
        self.host = host
        self.source = source
        self.proxy = proxy
        self.tokens = tokens
        self.folder = folder
        self.server: HostServer
        self.browser: Browser
        self.problems: list[str] = []
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """Where the page is, behind a proxy that can cut the line."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @asynccontextmanager
    async def context(
        self,
        size: Literal["desktop", "phone"] = "desktop",
        scheme: Literal["light", "dark"] = "light",
        **options: Any,
    ) -> AsyncIterator[BrowserContext]:
        """A new browser context; an error of a script or of the policy in it fails the test."""
        is_phone = size == "phone"
        context = await self.browser.new_context(
            viewport=SIZES[size],  # type: ignore[arg-type]  # a dict of two integers
            color_scheme=scheme,
            has_touch=is_phone,
            is_mobile=is_phone,
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(SECONDS * 1000)
        context.on("weberror", lambda error: self.problems.append(str(error.error)))
        context.on("console", lambda said: self._note(said.type, said.text))
        context.on("request", lambda request: self.requests.append(request.url))
        try:
            yield context
        finally:
            await context.close()

    @asynccontextmanager
    async def page(self, path: str = "/", **options: Any) -> AsyncIterator[Page]:
        """The page in a new context, paired and connected.

        `options` as for `context`, and `rights` and `user` of the device.
        """
        rights, user = options.pop("rights", RIGHTS), options.pop("user", "tests")
        async with self.context(**options) as context:
            page = await context.new_page()
            await self.enter(page, path, rights, user)
            yield page

    async def enter(self, page: Page, path: str = "/", rights: tuple[str, ...] = RIGHTS, user: str = "tests") -> None:
        """Opens the page, pairs it, and waits for its line."""
        await page.goto(f"{self.url}{path}")
        await holds(page, "() => window.dragoman?.app.line.value.state === 'unpaired'")
        await self._pair(page, rights, user)
        await connected(page)

    async def _pair(self, page: Page, rights: tuple[str, ...], user: str) -> None:
        answer = await page.evaluate("code => dragoman.app.pair(code, 'Test browser')", self.code(rights, user))
        assert answer == {"ok": True}, answer

    def code(self, rights: tuple[str, ...] = RIGHTS, user: str = "tests") -> str:
        """A code that pairs a device, of the user whom all pages belong to unless it is said."""
        assert self.server.pairing is not None
        return self.server.pairing.codes.issue(NewDevice(user=user, rights=rights))

    def token(self, name: str, rights: tuple[str, ...] = RIGHTS) -> str:
        """A token of the user whom all pages belong to; gives its secret."""
        return self.tokens.add(HostToken(name=name, digest="", user="tests", rights=rights))

    async def session(self, page: Page, cwd: str | None = None) -> Played:
        """A new session of this page."""
        starts = self.source.starts
        id = await page.evaluate(
            "wanted => dragoman.app.create(wanted)", {"agent": "test", "cwd": cwd or str(self.folder)}
        )
        return Played(id, await self.source.started(starts + 1))

    @asynccontextmanager
    async def wire(self, **own: Any) -> AsyncIterator[WireClient]:
        """Another client of the same user."""
        headers = {"Authorization": f"Bearer {self.token(f'wire-{next(_names)}')}"}
        address = f"ws://127.0.0.1:{self.proxy.target}/acp"
        async with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
            client = WireClient(socket)
            capabilities = {"_meta": {"dragoman": {"activity": True, **own}}}
            await client.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
            yield client

    def _note(self, kind: str, text: str) -> None:
        # A line that was cut is what some tests are about, and a code that is refused is answered with an error.
        is_network = "WebSocket connection to" in text or "Failed to load resource" in text
        if kind == "error" and not is_network:
            self.problems.append(text)


async def connected(page: Page) -> None:
    """Waits until the page has its line, and its list."""
    await holds(page, "() => window.dragoman?.app.line.value.state === 'connected'")


async def holds(page: Page, function: str, argument: Any = None) -> Any:
    """Waits until a function of the page gives something that is true; gives that.

    Playwright's own `wait_for_function` evaluates a text in the page, which the page's policy refuses.
    """
    script = f"""argument => new Promise((done, failed) => {{
        const look = () => {{
            let found;
            try {{ found = ({function})(argument); }} catch (error) {{ failed(error); return; }}
            if (found) done(found); else setTimeout(look, 10);
        }};
        look();
    }})"""
    try:
        async with asyncio.timeout(SECONDS):
            return await page.evaluate(script, argument)
    except TimeoutError:
        pytest.fail(f"this did not come true in {SECONDS:g} s: {function}")


async def axe(page: Page) -> list[str]:
    """What axe finds wrong with what is shown now; Trusted Types refuse a script tag."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text())
    found = await page.evaluate(
        "axe.run(document, {resultTypes: ['violations'],"
        " runOnly: ['wcag2a','wcag2aa','wcag21a','wcag21aa','wcag22aa','best-practice']})"
        ".then(found => found.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' | ')))"
    )
    return list(found)


@contextmanager
def opened_web(loop: Loop, page: Path | None = None) -> Iterator[Web]:
    """Opens what all tests of a process share, with the page of a folder or a new one."""
    stack = AsyncExitStack()
    with tempfile.TemporaryDirectory(prefix="dgw-") as folder:
        try:
            files = PageFiles(page or build_page(Path(folder, "page")))
            yield loop.run(_open(stack, Path(folder), files))
        finally:
            loop.run(stack.aclose())


async def _open(stack: AsyncExitStack, folder: Path, page: PageFiles) -> Web:
    from playwright.async_api import async_playwright

    assert page.is_complete, page.problems
    project = folder / "project"
    project.mkdir()
    proxy = await stack.enter_async_context(CuttingProxy())
    capabilities = {"loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True}}
    source, metrics, tokens = OnTheWire(capabilities=capabilities), HostMetrics(), HostTokens(folder / "tokens.json")
    host = Host(MemoryLog(time.time), [source])
    host.uploads = Uploads(folder / "host")  # the log is in memory; attachments are files
    options = ServeOptions(hosts=(f"127.0.0.1:{proxy.port}",), limits=FREELY, drain_seconds=1.0, web=True)
    web = Web(host, source, proxy, tokens, project)
    web.server = HostServer(host, tokens, options, metrics=metrics, access_log=AccessLog(None), page=page)
    web.server._pairs = Buckets(1e6, 1e6)  # every page of a test is a device from the same address
    stack.push_async_callback(web.server.close)
    stack.callback(source.die)  # first: the host would wait for turns that no test plays to their end any more
    proxy.target = int((await web.server.listen("127.0.0.1:0")).address.rpartition(":")[2])
    playwright = await stack.enter_async_context(async_playwright())
    web.browser = await playwright.chromium.launch(
        executable_path=CHROMIUM, args=[*FLAGS, f"--disable-features={','.join(WITHOUT)}"]
    )
    stack.push_async_callback(web.browser.close)
    return web
