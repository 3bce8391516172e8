"""`dragoman conduct` with real programs: links of ours and of others, hostile ones, and every party killed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.versions.line_client import DRAGOMAN, LineClient, program

HERE = Path(__file__).parent
AGENT = (sys.executable, "-m", "dragoman.testing.scripted_agent")
SECONDS = 60.0
INFO = {"name": "test", "version": "1"}


def raw(behaviour: str, *more: str) -> str:
    return shlex.join([sys.executable, "-S", str(HERE / "raw_link.py"), behaviour, *more])


def ours(word: str = "") -> str:
    return shlex.join([sys.executable, str(HERE / "our_link.py"), *([word] if word else [])])


class Conducted(LineClient):
    """A client of a chain."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        super().__init__(process)
        self._folder = folder

    def pids(self) -> list[int]:
        """The links that were started so far."""
        return [int(line) for line in _lines(self._folder / "pids")]

    def seen_by(self, link: str) -> list[dict[str, Any]]:
        """The messages that a link got."""
        lines = _lines(self._folder / "log")
        return [each["message"] for each in map(json.loads, lines) if each["link"] == link]

    async def open(self) -> str:
        result = await self.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO})
        assert result.get("protocolVersion") == 1, result
        made = await self.ask("session/new", {"cwd": "/tmp", "mcpServers": []})
        session: str = made["sessionId"]
        return session

    async def prompt(self, session: str, words: str) -> Any:
        return await self.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": words}]})

    def text(self) -> str:
        updates = [frame.get("params", {}).get("update", {}) for frame in self.seen]
        return "".join(
            each["content"]["text"] for each in updates if each.get("sessionUpdate") == "agent_message_chunk"
        )


@asynccontextmanager
async def chain(folder: Path, *links: str, agent: tuple[str, ...] = AGENT) -> AsyncIterator[Conducted]:
    variables = {"LINK_PIDS": str(folder / "pids"), "LINK_LOG": str(folder / "log")}
    async with program(*DRAGOMAN, "conduct", *links, "--", *agent, cwd=folder, env=variables) as line:
        client = Conducted(line.process, folder)
        yield client
        if client.process.returncode is None:
            await client.finish()
    await all_gone(client.pids())


async def all_gone(pids: list[int]) -> None:
    """Return when no such process runs any more."""
    loop = asyncio.get_running_loop()
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            async with asyncio.timeout(SECONDS):
                await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def children_of(pid: int) -> list[int]:
    """The programs below this one, at any depth."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children_of(child)]
    return found


@pytest.mark.parametrize(
    "links",
    [
        (),
        (ours("one"),),
        (raw("plain"), ours("two"), raw("old", "UNDERSCORE")),
        (ours("a"), shlex.join([*DRAGOMAN, "conduct", ours("b"), raw("old", "UNDERSCORE")]), ours("c")),
    ],
    ids=["none", "one", "three", "nested"],
)
async def test_a_turn_with_a_question_through_links_of_every_kind(tmp_path: Path, links: tuple[str, ...]) -> None:
    async with chain(tmp_path, *links) as client:
        session = await client.open()
        assert (await client.prompt(session, "say hello"))["stopReason"] == "end_turn"
        words = [link.split()[-1] for link in links if "our_link" in link and "conduct" not in link]
        if len(links) == 3 and "conduct" in links[1]:
            words.insert(1, "b")
        assert client.text() == "".join(f"{word} " for word in reversed(words)) + "hello "
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "permission"}]}
        client.send({"id": "p", "method": "session/prompt", "params": prompt})
        asked = await client.until(lambda frame: frame.get("method") == "session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        client.send({"id": asked["id"], "result": outcome})
        ended = await client.until(lambda frame: frame.get("id") == "p")
        assert ended["result"]["stopReason"] == "end_turn"
        assert "allowed" in client.text()
        code, log = await client.finish()
        assert (code, log) == (0, "")


async def test_a_chain_of_version_2(tmp_path: Path) -> None:
    async with chain(tmp_path, raw("plain"), ours("two")) as client:
        ready = await client.ask("initialize", {"protocolVersion": 2, "info": INFO, "capabilities": {}})
        assert ready["protocolVersion"] == 2
        session = (await client.ask("session/new", {"cwd": "/tmp"}))["sessionId"]
        assert "messageId" in await client.prompt(session, "say hello")
        await client.until(lambda frame: frame.get("params", {}).get("update", {}).get("state") == "idle")
        assert client.text() == "two hello "


async def test_a_cancel_of_a_request_and_of_a_turn_reach_the_agent_through_three_links(tmp_path: Path) -> None:
    async with chain(tmp_path, raw("plain"), ours(), raw("old", "UNDERSCORE")) as client:
        session = await client.open()
        for number, cancel in enumerate(
            (
                {"method": "session/cancel", "params": {"sessionId": session}},
                {"method": "$/cancel_request", "params": {"requestId": "p1"}},
            )
        ):
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "slow"}]}
            client.send({"id": f"p{number}", "method": "session/prompt", "params": prompt})
            await client.until(lambda frame: frame.get("method") == "session/update")
            client.send(cancel)
            ended = await client.until(lambda frame, id=f"p{number}": frame.get("id") == id)
            assert ended.get("result", {}).get("stopReason") == "cancelled" or ended["error"]["code"] == -32800


async def test_a_guard_sees_everything_that_hostile_links_around_it_send(tmp_path: Path) -> None:
    async with chain(tmp_path, raw("attack"), raw("guard"), raw("attack", "UNDERSCORE")) as client:
        session = await client.open()
        assert (await client.prompt(session, "say a secret"))["message"] == "refused by the guard"
        assert (await client.prompt(session, "say public"))["stopReason"] == "end_turn"
        assert client.text() == "public "
        assert "forged" not in json.dumps(client.seen)
        seen = client.seen_by("guard")
        # It was shown no message that says it comes from the other side than it does.
        inner = [each["params"]["method"] for each in seen if each.get("method") == "proxy/successor"]
        assert not any("proxy/" in name for name in inner)
        assert "forged" not in json.dumps(seen)
        # And everything between the editor and the agent passed it.
        assert [each["method"] for each in seen if each.get("method") == "session/prompt"] == ["session/prompt"] * 2
        assert "session/update" in inner


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("early", "answered initialize before link 3"),
        ("version", "changed the version of the protocol in initialize"),
        ("answer version", "changed the version of the protocol in the answer"),
        ("no link", "is not a link of a chain"),
    ],
)
async def test_a_link_that_breaks_the_rules_at_the_start_ends_the_chain(
    tmp_path: Path, behaviour: str, why: str
) -> None:
    async with chain(tmp_path, raw("plain"), raw(behaviour), raw("plain")) as client:
        answer = await client.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO})
        assert why in answer["message"]
        code, log = await client.finish()
        assert code == 4
        assert "dragoman conduct: link 2 (python" in log


async def test_an_agent_in_the_place_of_a_link_is_named(tmp_path: Path) -> None:
    async with chain(tmp_path, shlex.join(AGENT)) as client:
        answer = await client.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO})
        assert "is not a link of a chain" in answer["message"]


async def test_a_link_of_ours_says_that_it_is_not_an_agent(tmp_path: Path) -> None:
    async with chain(tmp_path, agent=tuple(shlex.split(ours()))) as client:
        answer = await client.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO})
        assert "dragoman conduct" in answer["message"]


@pytest.mark.parametrize(
    ("behaviour", "ended"), [("die", "code 7; its last words on stderr: out of order"), ("kill", "signal 9")]
)
async def test_a_link_that_ends_in_a_turn_ends_the_chain(tmp_path: Path, behaviour: str, ended: str) -> None:
    async with chain(tmp_path, raw("plain"), raw(behaviour), raw("plain")) as client:
        session = await client.open()
        answer = await client.prompt(session, "say never")
        assert answer["message"] == f"link 2 ({os.path.basename(sys.executable)}) ended with {ended}"
        code, _ = await client.finish()
        assert code == 4


@pytest.mark.parametrize("victim", ["first link", "last link", "agent", "conductor"])
async def test_kill_9_of_any_party_leaves_nothing_running(tmp_path: Path, victim: str) -> None:
    async with chain(tmp_path, ours(), raw("plain")) as client:
        session = await client.open()
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "slow"}]}
        client.send({"id": "p", "method": "session/prompt", "params": prompt})
        await client.until(lambda frame: frame.get("method") == "session/update")
        everyone = children_of(client.process.pid)
        links = client.pids()
        [agent] = [pid for pid in everyone if "scripted_agent" in command_of(pid)]
        assert len(links) == 2
        assert set(links) < set(everyone)
        first = next(pid for pid in links if "our_link" in command_of(pid))
        last = next(pid for pid in links if pid != first)
        pids = {"first link": first, "last link": last, "agent": agent, "conductor": client.process.pid}
        os.kill(pids[victim], 9)
        if victim != "conductor":
            ended = await client.until(lambda frame: frame.get("id") == "p")
            assert "ended with signal 9" in ended["error"]["message"]
        code, _ = await client.finish()
        assert code == {"agent": 137, "conductor": -9}.get(victim, 4)
        await all_gone(everyone)


async def test_a_signal_ends_the_chain(tmp_path: Path) -> None:
    async with chain(tmp_path, ours(), raw("plain")) as client:
        await client.open()
        everyone = children_of(client.process.pid)
        client.process.terminate()
        await all_gone([client.process.pid, *everyone])
        code, _ = await client.finish()
        assert code == 143


async def test_a_client_that_leaves_ends_the_chain(tmp_path: Path) -> None:
    async with chain(tmp_path, ours(), raw("plain")) as client:
        session = await client.open()
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "say goodbye"}]}
        client.send({"id": "p", "method": "session/prompt", "params": prompt})
        everyone = children_of(client.process.pid)
        assert client.process.stdin is not None
        client.process.stdin.close()  # what it asked before is still answered
        assert (await client.until(lambda frame: frame.get("id") == "p"))["result"]["stopReason"] == "end_turn"
        async with asyncio.timeout(SECONDS):
            assert await client.process.wait() == 0
        await all_gone(everyone)


async def test_a_link_that_floods_a_client_that_does_not_read_ends_the_chain(tmp_path: Path) -> None:
    async with chain(tmp_path, raw("flood"), raw("plain")) as client:
        session = await client.open()
        everyone = children_of(client.process.pid)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "slow"}]}
        client.send({"id": "p", "method": "session/prompt", "params": prompt})
        await all_gone([*everyone, client.process.pid])
        assert client.process.stdout is not None
        rest = await client.process.stdout.read()
        assert len(rest) < 1 << 26
        code, log = await client.finish()
        assert code == 4
        assert "the client does not read" in log


async def test_a_link_that_does_not_pass_initialize_on_is_ended(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from dragoman.proxy.conduct import run_chain; "
        "sys.exit(asyncio.run(run_chain([sys.argv[1:]], ['sleep', '1000'], initialize_seconds=0.2)))"
    )
    variables = {"LINK_PIDS": str(tmp_path / "pids")}
    link = shlex.split(raw("hang"))
    async with program(sys.executable, "-c", code, *link, cwd=tmp_path, env=variables) as client:
        answer = await client.ask("initialize", {"protocolVersion": 1, "clientInfo": INFO})
        assert "did not pass initialize on within 0.2 seconds" in answer["message"]


async def test_a_command_that_cannot_be_started_starts_nothing(tmp_path: Path) -> None:
    async with chain(tmp_path, ours(), "there-is-no-such-program") as client:
        code, log = await client.finish()
        assert code == 4
        assert "there-is-no-such-program" in log


async def test_wrong_command_lines_are_explained(tmp_path: Path) -> None:
    for words, expected in (
        ((), "conduct needs links"),
        (("a", "--"), "there is no command after --"),
        (("", "--", "true"), "a link is empty"),
        (("'open", "--", "true"), "is not a command"),
    ):
        async with program(*DRAGOMAN, "conduct", *words, cwd=tmp_path) as client:
            code, log = await client.finish()
            assert (code, expected in log) == (2, True), log


async def test_settings_for_an_editor_are_printed(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "conduct", "a link", "--print-settings", "--", "agent", "x", cwd=tmp_path) as client:
        assert client.process.stdout is not None
        printed = json.loads(await client.process.stdout.read())
        assert printed["agent_servers"]["agent"]["args"] == ["conduct", "a link", "--", "agent", "x"]
        await client.finish()
