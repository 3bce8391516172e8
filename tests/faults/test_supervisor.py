"""Row 3 of the fault matrix, and what else a supervisor promises."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman import AgentExited, ConfigError, ConnectionClosed
from dragoman.client import AuthRequired, CrashLoop, RestartNote, RestartPolicy, supervise
from dragoman.client.supervisor import Restarts
from tests.faults.kit import rough_agent, still_alive
from tests.process.kit import until


class FastClock:
    """Time that passes only while a task sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Notes(list[RestartNote]):
    """Keeps the notes for users, and can be waited on."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, note: RestartNote) -> None:
        self.append(note)
        self._changed.set()

    @property
    def kinds(self) -> list[str]:
        return [note.kind for note in self]

    async def until(self, kind: str) -> RestartNote:
        async with asyncio.timeout(60):
            while kind not in self.kinds:
                self._changed.clear()
                await self._changed.wait()
        return next(note for note in self if note.kind == kind)


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        pytest.param([0.1] * 5, [1, 2, 4, 8, None], id="five losses in a row end it"),
        pytest.param([100] * 8, [1, 2, 4, 8, 16, 30, 30, 30], id="one that takes long to fail is tried for ever"),
        pytest.param([0, 0, 200, 0, 0], [1, 2, 1, 2, 4], id="a long life starts the count anew"),
        pytest.param([0, 0, 0, 0, 179.0], [1, 2, 4, 8, 16], id="a loss three minutes ago counts no more"),
    ],
)
def test_row_03_the_wait_before_a_restart_doubles_until_it_is_a_loop(
    lives: list[float], expected: list[float | None]
) -> None:
    restarts, now = Restarts(RestartPolicy()), 0.0
    waits: list[float | None] = []
    for lived in lives:
        now += lived
        waits.append(restarts.lost(now, lived))
        now += waits[-1] or 0
    assert waits == expected


# Counts its lives in a file; dies when it is told to, or in initialize in every life but its first, until it is cured.
MORTAL = """
with open(sys.argv[1], "a") as lives:
    lives.write("x")
is_first = os.path.getsize(sys.argv[1]) == 1
if sys.argv[2] == "in initialize" and not is_first and not os.path.exists(sys.argv[1] + ".cured"):
    os._exit(2)
until("_die")
os._exit(2)
"""


@pytest.mark.parametrize("when", ["when told", "in initialize"])
async def test_row_03_a_crash_loop_is_ended_with_one_message_and_can_be_tried_by_hand(
    when: str, tmp_path: Path
) -> None:
    file, clock, notes = tmp_path / "lives", FastClock(), Notes()
    async with supervise(*rough_agent(MORTAL, str(file), when), clock=clock, on_note=notes) as supervised:
        with suppress(CrashLoop):
            for _ in range(5):
                agent = await supervised.agent()
                await agent.notify("_die")
                await agent.wait_closed()
        stopped = await notes.until("stopped")
        assert clock.slept == [1, 2, 4, 8]
        assert (notes.kinds.count("stopped"), notes.kinds.count("lost")) == (1, 4)
        assert "lost 5 times within 180 seconds and is not started again" in stopped.text
        assert "exited with code 2" in stopped.text
        with pytest.raises(CrashLoop) as caught:
            await supervised.agent()
        assert isinstance(caught.value.last, AgentExited)
        assert len(file.read_text()) == 5
        assert not supervised.is_up

        (tmp_path / "lives.cured").touch()
        agent = await supervised.restart()
        await agent.new_session("/")
        assert await supervised.agent() is agent
        assert supervised.is_up


async def test_the_first_start_is_not_tried_again() -> None:
    notes = Notes()
    with pytest.raises(AgentExited, match="code 9"):
        async with supervise(*rough_agent("os._exit(9)"), clock=FastClock(), on_note=notes):
            pytest.fail("there is no agent")
    assert notes == []


# A history of its own in a file: what was said to it, a line each. In a turn it dies if its prompt is "die".
REMEMBERS = """
import base64
file, ways, replay = sys.argv[1:4]
CAPABILITIES = {"loadSession": "load" in ways, "sessionCapabilities": {"resume": {}} if "resume" in ways else {}}

def tell_again():
    update("user_message_chunk", content={"type": "text", "text": "again: the user"})
    say("again: the agent")
    update("tool_call", toolCallId="again", title="Again")
    update("available_commands_update", availableCommands=[{"name": "fresh", "description": "New"}])

while True:
    message = read()
    method = message.get("method")
    if method == "initialize":
        answer(message, protocolVersion=1, agentCapabilities=CAPABILITIES)
    elif method == "session/resume" and "broken resume" in ways:
        refuse(message, -32601, "Method not found")
    elif method in ("session/new", "session/resume", "session/load"):
        if method == "session/load" and replay == "before":
            tell_again()
        with open(file, "a") as log:
            log.write(method + " " + message["params"]["cwd"] + "\\n")
        if method != "session/new" and os.path.exists(file + ".locked"):
            refuse(message, -32000, "Log in first")
            continue
        answer(message, sessionId="s")
        if method == "session/load" and replay == "after":
            tell_again()
    elif method == "session/prompt":
        with open(file, "a") as log:
            log.write(prompt_text(message) + "\\n")
        update("tool_call", toolCallId="t", title="Work", status="in_progress")
        say("you said " + prompt_text(message))
        if prompt_text(message) == "die":
            os._exit(7)
        answer(message, stopReason="end_turn")
"""


@pytest.mark.rule(110, 112)
@pytest.mark.parametrize(
    ("ways", "way", "replay"),
    [
        ("resume and load", "session/resume", "before"),
        ("load", "session/load", "before"),
        ("load", "session/load", "after"),
        ("load and broken resume", "session/load", "before"),
    ],
)
async def test_a_session_goes_on_after_a_restart_and_its_prompt_is_not_run_again(
    ways: str, way: str, replay: str, tmp_path: Path
) -> None:
    log, notes = tmp_path / "log", Notes()
    command = rough_agent(REMEMBERS, str(log), ways, replay)
    async with supervise(*command, clock=FastClock(), on_note=notes) as supervised:
        session = await (await supervised.agent()).new_session("/tmp")
        await session.prompt("hello")
        with pytest.raises(AgentExited, match="code 7") as caught:
            await session.prompt("die")
        assert str(session.lost_by) == str(caught.value)
        await supervised.agent()
        assert notes.kinds == ["lost", "reopened", "restarted"]
        assert notes[1].session is session
        assert session.lost_by is None
        if way == "session/load":
            await until(lambda: session.state.commands)  # the end of the replay, which no answer tells
        await session.prompt("on we go")
        assert log.read_text().splitlines() == ["session/new /tmp", "hello", "die", f"{way} /tmp", "on we go"]
        said = [message.text for message in session.state.messages if message.role == "agent"]
        assert said == ["you said hello", "you said die", "you said on we go"], "history is not told twice"
        assert "again" not in session.state.tool_calls
        assert [turn.is_lost for turn in session.state.turns] == [False, True, False]
        if way == "session/load":
            assert [command.name for command in session.state.commands] == ["fresh"]


async def test_a_session_the_agent_cannot_open_again_is_reported_and_stays_lost(tmp_path: Path) -> None:
    notes = Notes()
    command = rough_agent(REMEMBERS, str(tmp_path / "log"), "neither", "")
    async with supervise(*command, clock=FastClock(), on_note=notes) as supervised:
        session = await (await supervised.agent()).new_session("/tmp")
        with pytest.raises(AgentExited):
            await session.prompt("die")
        agent = await supervised.agent()
        note = await notes.until("not_reopened")
        assert "can neither resume nor load" in note.text
        assert note.session is session
        with pytest.raises(AgentExited):
            await session.prompt("are you there?")
        other = await agent.new_session("/tmp")
        await other.prompt("hello")


async def test_a_session_behind_a_login_is_opened_after_it(tmp_path: Path) -> None:
    notes, lock = Notes(), tmp_path / "log.locked"
    command = rough_agent(REMEMBERS, str(tmp_path / "log"), "resume", "")
    async with supervise(*command, clock=FastClock(), on_note=notes) as supervised:
        session = await (await supervised.agent()).new_session("/tmp")
        lock.touch()
        with pytest.raises(AgentExited):
            await session.prompt("die")
        note = await notes.until("not_reopened")
        assert isinstance(note.error, AuthRequired)
        lock.unlink()
        await supervised.restart()
        assert (await session.prompt("hello")).stop_reason == "end_turn"


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until("session/prompt")
say(str(os.getpid()))
raw(b"noise\\n" * 101)
sleep_for_ever()
"""


async def test_a_restart_does_not_wait_for_the_old_process_to_end_well() -> None:
    notes = Notes()
    async with supervise(*rough_agent(STUBBORN), clock=FastClock(), on_note=notes) as supervised:
        session = await (await supervised.agent()).new_session("/tmp")
        with pytest.raises(ConnectionClosed, match="does not speak the protocol"):
            await session.prompt("go")
        agent = await supervised.agent()
        old = int(session.state.text)
        assert still_alive(old) == [old], "it ignores all that is asked of it, and the new one did not wait for its end"
        await agent.new_session("/tmp")
    assert still_alive(old) == []


async def test_a_program_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    program, notes = tmp_path / "agent", Notes()
    python, *rest = rough_agent("until('_die'); os._exit(2)")
    program.symlink_to(python)
    async with supervise(program, *rest, clock=FastClock(), on_note=notes) as supervised:
        agent = await supervised.agent()
        program.unlink()
        await agent.notify("_die")
        note = await notes.until("stopped")
        assert "cannot be started again" in note.text
        with pytest.raises(CrashLoop) as caught:
            await supervised.agent()
        assert isinstance(caught.value.last, ConfigError)


async def test_an_agent_this_program_closed_stays_closed() -> None:
    notes = Notes()
    async with supervise(*rough_agent("until('nothing')"), clock=FastClock(), on_note=notes) as supervised:
        agent = await supervised.agent()
        await agent.close()
        await notes.until("stopped")
        with pytest.raises(ConnectionClosed, match="the client closed the connection"):
            await supervised.agent()
        assert notes.kinds == ["stopped"]
        assert (await supervised.restart()).is_open


async def test_leaving_while_a_restart_is_waited_for_leaves_nothing_behind() -> None:
    notes = Notes()
    policy = RestartPolicy(first_seconds=1000.0)
    async with supervise(*rough_agent("until('_die'); os._exit(2)"), policy=policy, on_note=notes) as supervised:
        await (await supervised.agent()).notify("_die")
        await notes.until("lost")
        assert not supervised.is_up


async def test_a_listener_that_fails_stops_nothing() -> None:
    heard = asyncio.Event()

    def on_note(note: RestartNote) -> None:
        if note.kind == "restarted":
            heard.set()
        raise RuntimeError("the face is broken")

    code = "until('_die'); os._exit(2)"
    async with supervise(*rough_agent(code), clock=FastClock(), on_note=on_note) as supervised:
        await (await supervised.agent()).notify("_die")
        await heard.wait()
        assert (await supervised.agent()).is_open
