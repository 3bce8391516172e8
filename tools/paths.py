"""How much code one piece of work passes through: `make paths`, or ``python -m tools.paths [--tree DIR] [PATH...]``.

Six paths are run with a profile hook, each in a process of its own, so that no cache of another one is warm. Counted
are distinct functions and modules of `src`, also those of the packages above the roles and stores alone (`upper`), all
calls, how often rules are judged and a shell line is read, and how often the disk is asked. The hook makes everything
slower: this measures no time.

    a   `dragoman exec`: one turn of the scripted agent, in a new home
    b   `dragoman exec --session`: the client's side of a turn in a warm host, with text and with JSON
    c   an agent's question about a command, through a host to a card of the full screen, and the answer back
    d   the built-in agent writes a file, and asks before it
    e   one turn with one update, through a host to a client
    f   the guard passes an update, and a question to the editor and back; one update is translated

`KEPT` holds what each may cost, and `tests/project/test_paths.py` compares. Lower a number when it has become smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from inspect import isawaitable
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.host.kit import OnTheWire

ROOT = Path(__file__).parent.parent
SECONDS = 60.0  # a bound for each wait; none takes a second on a machine with nothing else to do
# Named, and not read from the table of layers: then a tree from before a change of the lines can be compared.
UPPER = frozenset(
    (
        *("runs", "builtin", "adapters", "trace", "scripting", "proxy", "testing", "foreign"),
        *("host", "conformance", "evaluation", "cli", "tui"),
    )
)
# How often a screen is painted depends on time, so calls of the packages that do it do not count.
PAINTED = frozenset(("tui", "view", "text", "state"))
_IN_SOURCE = "/src/dragoman/"
_IS_FUNCTION = 0x2  # CO_NEWLOCALS, which the bodies of modules and classes do not have
_ASKS_DISK = frozenset(
    ("stat", "lstat", "readlink", "scandir", "listdir", "access", "open", "realpath", "exists", "isfile", "isdir")
)
COMMAND = "rm -rf build && cmake -B build"
UPDATE: dict[str, Any] = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Numbers(NamedTuple):
    """What was counted on one path."""

    functions: int
    modules: int
    upper_functions: int
    upper_modules: int
    calls: int
    judged: int
    lines_read: int
    disk: int


ANY = 1_000_000  # not compared: it depends on the machine, or says nothing about this path
KEPT = {
    "a exec": Numbers(769, 127, 246, 34, ANY, 0, 0, ANY),  # it looks at every process of the machine
    # A client sends its environment along, which is a module of its own: the host reads what this one writes.
    "b text": Numbers(58, 14, 54, 11, 99, 0, 0, 7),
    "b json": Numbers(62, 15, 58, 12, 149, 0, 0, 7),
    # Where each word of a command leads is looked up, whether there is a rule about files or not. What a question
    # shows is made of what was read, once, and sent to clients in two forms.
    # The host reports the row of the session that asks to the list of the full screen, which does not ask for it.
    "c question": Numbers(605, 110, 240, 52, 1130, 1, 1, 6),
    "d write": Numbers(588, 120, 258, 46, 2054, 2, 0, 22),
    # How many commits a turn has, and with them its calls, depends on the thread that writes the log: up to one for
    # each event, on a busy machine.
    "e update": Numbers(254, 51, 104, 19, 445, 0, 0, 0),  # a timer is due in some runs, and not in others
    "f guarded update": Numbers(6, 4, 5, 3, 6, 0, 0, 0),
    "f guard question": Numbers(221, 42, 30, 7, 583, 1, 1, 10),
    "f guard answer": Numbers(52, 20, 21, 9, 68, 0, 0, 0),
    "f with a file rule": Numbers(262, 47, 30, 7, 747, 1, 1, 18),
    "f translated update": Numbers(27, 10, 0, 0, 29, 0, 0, 0),
}
"""What each path costs, as this prints it."""
TOLERANCE = 1.05


def too_much(counted: dict[str, Numbers]) -> list[str]:
    """What has become more than it may be, a line for each."""
    return [
        f"{path}: {count} {member}, kept at {kept}"
        for path, numbers in counted.items()
        for member, count, kept in zip(Numbers._fields, numbers, KEPT[path], strict=True)
        if count > kept * TOLERANCE
    ]


class Counter:
    """Counts what runs in this thread, and in those that start meanwhile.

    What runs in an older thread (the writer of a log, a pool) depends on time, and does not count.
    """

    def __init__(self) -> None:
        self._is_counting = False
        self._calls: dict[CodeType, int] = {}
        self._disk = 0

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._is_counting:
            return
        if event == "call":
            code = frame.f_code
            self._calls[code] = self._calls.get(code, 0) + 1
            if code.co_name in _ASKS_DISK and "path" in code.co_filename and _is_ours(frame.f_back):
                self._disk += 1
        elif event == "c_call" and getattr(argument, "__module__", "") == "posix" and argument.__name__ in _ASKS_DISK:
            self._disk += _is_ours(frame)

    def begin(self) -> None:
        """Count from now on."""
        self._calls, self._disk, self._is_counting = {}, 0, True
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def end(self) -> Numbers:
        """Count no more."""
        self._is_counting = False
        sys.setprofile(None)
        threading.setprofile(None)
        return self._numbers()

    @contextmanager
    def counting(self, into: dict[str, Numbers], name: str) -> Iterator[None]:
        """Count a part of a path, and keep its numbers under a name."""
        self.begin()
        try:
            yield
        finally:
            into[name] = self.end()

    def _numbers(self) -> Numbers:
        functions = {code: _module_of(code) for code in list(self._calls) if _is_function(code)}
        upper = {code: module for code, module in functions.items() if _package_of(module) in UPPER}
        return Numbers(
            len(functions),
            len(set(functions.values())),
            len(upper),
            len(set(upper.values())),
            sum(self._calls[code] for code, module in functions.items() if _package_of(module) not in PAINTED),
            self._count_of(functions, "policy", "judge"),
            self._count_of(functions, "policy", "read_line"),
            self._disk,
        )

    def _count_of(self, functions: dict[CodeType, str], package: str, name: str) -> int:
        return sum(
            self._calls[code]
            for code, module in functions.items()
            if code.co_name == name and _package_of(module) == package
        )


def _is_ours(frame: FrameType | None) -> bool:
    return frame is not None and _IN_SOURCE in frame.f_code.co_filename


def _is_function(code: CodeType) -> bool:
    """Whether this is a function of ours; a comprehension belongs to the function that it stands in."""
    is_code = bool(code.co_flags & _IS_FUNCTION) and not code.co_name.endswith(("comp>", "genexpr>"))
    return is_code and _IN_SOURCE in code.co_filename


def _module_of(code: CodeType) -> str:
    return code.co_filename.rpartition(_IN_SOURCE)[2]


def _package_of(module: str) -> str:
    return module.partition("/")[0].removesuffix(".py")


# The paths


def run_exec(counter: Counter) -> dict[str, Numbers]:
    """Path a."""
    from tests.cli.exec_kit import Place

    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.environment["DRAGOMAN_HOST"] = "off"
        return {"a exec": _count_program(place, "exec", "-a", "scripted", "hello")}


def run_hosted_exec(counter: Counter) -> dict[str, Numbers]:
    """Path b."""
    from tests.host.local.kit import local_place

    with tempfile.TemporaryDirectory() as folder, local_place(Path(folder)) as place:
        done = place.run("--session", "s", "-a", "scripted", "hello")
        assert done.code == 0, done.err
        return {
            "b text": _count_program(place, "exec", "--session", "s", "hello"),
            "b json": _count_program(place, "exec", "--session", "s", "--output", "json", "hello"),
        }


def _count_program(place: Any, *words: str) -> Numbers:
    """The numbers of `dragoman` with these words, in a process of its own; the programs it starts do not count."""
    out = place.temporary / "numbers"
    done = subprocess.run(
        [sys.executable, __file__, "--program", str(out), *words],
        cwd=place.project,
        env={**place.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return Numbers(*json.loads(out.read_text()))


def count_main(out: str, words: Sequence[str]) -> int:
    """Be `dragoman` with these words, and write the numbers of `main` to a file."""
    from dragoman.cli.main import main

    counter = Counter()
    counter.begin()
    code = main(words)
    Path(out).write_text(json.dumps(counter.end()))
    return code


async def show_question(counter: Counter) -> dict[str, Numbers]:
    """Path c."""
    from dragoman.tui.screen import app as screen
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.screen.questions.card import QuestionCard

    numbers: dict[str, Numbers] = {}
    # What the screen looks at every few seconds would be counted on a busy machine, and not on another.
    vars(screen).update(_LIST_SECONDS=1e6, _BRANCH_SECONDS=1e6)
    async with _host() as (source, folder):
        app = TerminalApp(_Folder(folder))
        async with app.run_test() as pilot:

            async def until(is_true: Callable[[], object]) -> None:
                async with asyncio.timeout(SECONDS):
                    while not is_true():
                        await pilot.pause(0.001)

            await until(lambda: app.conversation.phase == "ready")
            await pilot.press("h", "i", "enter")
            agent = await source.started(1)
            prompt = await agent.prompted()
            await until(lambda: app.conversation.is_running)  # the start of the turn is another path
            await pilot.pause()
            app.prompt_input._keeper.flush()  # what was typed is kept a moment later: no part of this path
            now = 1000.0
            app.cards.clock = lambda: now
            with counter.counting(numbers, "c question"):
                call = {"toolCallId": "t", "title": "work", "kind": "execute", "rawInput": {"command": COMMAND}}
                asked = agent.call("session/request_permission", toolCall=call, options=OPTIONS)
                await until(lambda: app.query(QuestionCard) and app.query_one(QuestionCard)._painted_at is not None)
                now += 1.0  # keys that were typed before the card could be read do not count
                await pilot.press("alt+1")
                answer = await agent.answer(asked)
            assert answer["outcome"]["optionId"] == "yes", answer
            agent.reply(prompt, {"stopReason": "end_turn"})
            await until(lambda: not app.conversation.is_running)
            await app.conversation.leave()
    return numbers


async def write_file(counter: Counter) -> dict[str, Numbers]:
    """Path d."""
    from tests.builtin.http_service import Service

    numbers: dict[str, Numbers] = {}
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        async with service.session("allow_once") as session:
            await session.prompt("say hello")
            with counter.counting(numbers, "d write"):
                async for _ in session.prompt("write a.txt hello"):
                    pass
        assert (service.project / "a.txt").exists()
    return numbers


async def pass_update(counter: Counter) -> dict[str, Numbers]:
    """Path e."""
    from dragoman.client import connect
    from dragoman.host.local.place import find_places

    numbers: dict[str, Numbers] = {}
    async with _host() as (source, folder), connect(f"unix:{find_places().first.socket}") as remote:
        session = await remote.new_session(folder)
        agent = await source.started(1)

        async def play() -> None:
            prompt = await agent.prompted()
            agent.say("hello")
            agent.reply(prompt, {"stopReason": "end_turn"})

        playing = asyncio.create_task(play())
        with counter.counting(numbers, "e update"):
            async for _ in session.prompt("hi"):
                pass
        await playing
    return numbers


async def relay(counter: Counter) -> dict[str, Numbers]:
    """Path f."""
    from tests.proxy.kit import ALL, guarded, permission, selected

    numbers: dict[str, Numbers] = {}
    params = {"sessionId": "s", **permission(kind="execute", title="work", rawInput={"command": COMMAND})}
    question = {"id": 1, "method": "session/request_permission", "params": params}
    with tempfile.TemporaryDirectory() as folder:
        async with guarded(Path(folder)) as guard:
            await guard.open(ALL)
            with counter.counting(numbers, "f guarded update"):
                guard.update(**UPDATE)
            await guard.for_editor()
            with counter.counting(numbers, "f guard question"):
                guard.from_agent(question)
                shown = await guard.for_editor()
            with counter.counting(numbers, "f guard answer"):
                guard.from_editor({"id": shown["id"], "result": selected("yes")})
                await guard.for_agent()
    # Only a rule about files makes the judge look whether a word of the command names a file that has another name.
    with tempfile.TemporaryDirectory() as folder:
        async with guarded(Path(folder), deny=["read:**/.env"]) as guard:
            await guard.open(ALL)
            with counter.counting(numbers, "f with a file rule"):
                guard.from_agent(question)
                await guard.for_editor()
    return numbers | _translate_update(counter)


def _translate_update(counter: Counter) -> dict[str, Numbers]:
    """One update of an agent of version 1 for a client of version 2, in the middle of a message."""
    from dragoman.transports.translated import LineTranslation
    from dragoman.versions import translator

    def feed(side: Any, **frame: object) -> None:
        lines.feed(side, json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    numbers: dict[str, Numbers] = {}
    delivered: list[bytes] = []
    lines = LineTranslation(translator("2", "1"), lambda side, line: delivered.append(line), print, print)
    feed("client", id=1, method="initialize", params={"protocolVersion": 2, "clientCapabilities": {}})
    feed("agent", id=1, result={"protocolVersion": 1, "agentCapabilities": {}})
    feed("client", id=2, method="session/new", params={"cwd": "/tmp", "mcpServers": []})
    feed("agent", id=2, result={"sessionId": "s"})
    feed("client", id=3, method="session/prompt", params={"sessionId": "s", "prompt": [UPDATE["content"]]})
    feed("agent", method="session/update", params={"sessionId": "s", "update": UPDATE})
    with counter.counting(numbers, "f translated update"):
        feed("agent", method="session/update", params={"sessionId": "s", "update": UPDATE})
    assert b"hello" in delivered[-1], delivered
    return numbers


class _Folder:
    """How the full screen opens a session."""

    worktree = ""
    is_temporary = False
    mode = ""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd

    def choose(self, agent: str, model: str) -> None:
        """Nothing is chosen here."""

    def new(self, agent: str | None) -> dict[str, Any]:
        return {"cwd": self.cwd, "mcp_servers": [], "meta": {"dragoman": {"agent": "test"}}}


@asynccontextmanager
async def _host() -> AsyncIterator[tuple[OnTheWire, str]]:
    """A host in this process, at the place where clients look for it; its log is a file, as it is for users."""
    from dragoman.host.host import Visitor
    from dragoman.host.local.place import find_places
    from dragoman.store.sqlite_log import SqliteLog
    from dragoman.transports.unix import UnixServer, bind_unix
    from tests.host.kit import OnTheWire, hosted

    with tempfile.TemporaryDirectory(prefix="dgp-", dir="/tmp") as folder:
        os.environ |= {"DRAGOMAN_HOME": f"{folder}/home", "XDG_RUNTIME_DIR": folder}
        place = find_places().first
        place.make()
        source = OnTheWire()
        log = SqliteLog(Path(folder, "log", "hosted.db"))
        serving: list[asyncio.Task[None]] = []
        try:
            async with hosted(source, log=log) as host:
                server = UnixServer(
                    bind_unix(place.socket),
                    lambda transport: serving.append(asyncio.create_task(host.host.serve(transport, Visitor()))),
                )
                yield source, folder
                server.close()
            await asyncio.gather(*serving)
        finally:
            closing: object = log.close()
            if isawaitable(closing):  # not in every tree that this counts
                await closing


PATHS: dict[str, Callable[[Counter], Any]] = {
    "a": run_exec,
    "b": run_hosted_exec,
    "c": show_question,
    "d": write_file,
    "e": pass_update,
    "f": relay,
}


def count_path(name: str) -> dict[str, Numbers]:
    """Run one path in this process."""
    counter = Counter()
    found: dict[str, Numbers] | Awaitable[dict[str, Numbers]] = PATHS[name](counter)
    return found if isinstance(found, dict) else asyncio.run(_wait(found))


async def _wait(path: Awaitable[dict[str, Numbers]]) -> dict[str, Numbers]:
    return await path


def count_paths(names: Sequence[str] = tuple(PATHS), tree: Path = ROOT) -> dict[str, Numbers]:
    """Run paths of a checkout, each in a process of its own. Raises: CalledProcessError."""

    def count(name: str) -> dict[str, list[int]]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("DRAGOMAN", "XDG"))}
        done = subprocess.run(
            [str(tree / ".venv" / "bin" / "python"), __file__, "--one", name],
            cwd=tree,
            env={**environment, "PYTHONPATH": str(tree)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, list[int]] = json.loads(done.stdout)
        return found

    with ThreadPoolExecutor(2) as pool:
        return {key: Numbers(*numbers) for found in pool.map(count, names) for key, numbers in found.items()}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.paths", description="Count the functions on a path.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help=f"{', '.join(PATHS)}; all by default")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to look at; this one by default")
    chosen = parser.parse_args()
    numbers = count_paths(chosen.paths or tuple(PATHS), chosen.tree.absolute())
    print(f"{'path':<20} {'functions/modules':>18} {'upper':>8} {'calls':>7} {'judge':>6} {'shell':>6} {'disk':>5}")
    for name, found in numbers.items():
        whole, upper = f"{found.functions}/{found.modules}", f"{found.upper_functions}/{found.upper_modules}"
        counts = f"{found.calls:>7} {found.judged:>6} {found.lines_read:>6} {found.disk:>5}"
        print(f"{name:<20} {whole:>18} {upper:>8} {counts}")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--program", out, *words]:
            sys.exit(count_main(out, words))
        case ["--one", name]:
            print(json.dumps(count_path(name)))
        case _:
            sys.exit(main())
