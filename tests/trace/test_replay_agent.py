"""A recording played as an agent: it answers as recorded, and says what was not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.client import RemoteAgent
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.testing import scripted_agent
from dragoman.trace import Difference, End, Exit, Frame, Recorder, Redactor, Replay, Trace
from tests.trace.replay_kit import (
    HELLO,
    everything,
    fake_agent,
    kinds_of,
    perform,
    prompts,
    record,
    replay_agent,
    script,
)


async def test_the_same_client_sees_the_same_agent_and_no_difference() -> None:
    trace = await record(scripted_agent(), everything)
    assert await replay_agent(trace, everything) == []


async def test_a_client_gets_from_the_replay_what_it_got_from_the_agent() -> None:
    states = []

    async def conversation(agent: RemoteAgent) -> None:
        session = await agent.new_session("/project")
        for text in ("think", "tool", "plan", "diff", "content", "usage"):
            await session.prompt(text)
        states.append([repr(item) for item in session.state.timeline])

    trace = await record(scripted_agent(), conversation)
    await replay_agent(trace, conversation)
    assert states[0] == states[1]


async def test_a_replay_can_be_recorded_again(tmp_path: Any) -> None:
    trace = await record(scripted_agent(), prompts("tool", "permission"))
    path = tmp_path / "again.jsonl"
    await perform(Replay(trace).serve, prompts("tool", "permission"), Recorder(path))
    again = Replay(path).trace
    assert [frame.data for frame in again.frames if frame.dir == "a2c"] == [
        frame.data for frame in trace.frames if frame.dir == "a2c"
    ]


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return asyncio.run(record(scripted_agent(), prompts("say one", "permission", "fs", "say two")))


async def test_a_changed_prompt_is_the_one_difference(recorded: Trace) -> None:
    [difference] = await replay_agent(recorded, prompts("say one", "permission", "fs", "say three"))
    assert (difference.what, difference.dir, difference.kind) == ("changed", "c2a", "request")
    assert (difference.method, difference.path) == ("session/prompt", "params.prompt[0].text")
    assert (difference.recorded, difference.came) == ("say two", "say three")
    assert recorded.entries[(difference.number or 0) - 1].data.endswith(b'"say two"}]}}')  # type: ignore[union-attr]
    assert str(difference) == (
        f"changed: request session/prompt (#{difference.number}): params.prompt[0].text: "
        'recorded "say two", came "say three"'
    )


async def test_a_prompt_left_out_is_the_one_difference(recorded: Trace) -> None:
    differences = await replay_agent(recorded, prompts("say one", "fs", "say two"))
    assert kinds_of(differences) == [("missing", "session/prompt", "")]


async def test_a_prompt_too_many_is_refused_and_the_one_difference(recorded: Trace) -> None:
    async def conversation(agent: RemoteAgent) -> None:
        await prompts("say one", "permission", "fs", "say two")(agent)
        [link] = agent._connection.links.values()
        with pytest.raises(RequestError, match="the recording has no further session/prompt"):
            await link.session.prompt("and another")

    differences = await replay_agent(recorded, conversation)
    assert kinds_of(differences) == [("unexpected", "session/prompt", "")]
    assert differences[0].came["params"]["prompt"][0]["text"] == "and another"


async def test_another_answer_to_the_agent_is_the_one_difference(recorded: Trace) -> None:
    async def refuse(request: v1.RequestPermissionRequest, session: object) -> str:
        return "reject"

    async def serve(transport: Any) -> list[Difference]:
        return await Replay(recorded).serve(transport)

    conversation = prompts("say one", "permission", "fs", "say two")
    [difference] = await perform(serve, conversation, permission=refuse)
    assert (difference.kind, difference.method) == ("response", "session/request_permission")
    assert (difference.path, difference.came) == ("result.outcome.optionId", "reject")


async def test_what_may_differ_can_be_named(recorded: Trace) -> None:
    async def elsewhere(agent: RemoteAgent) -> None:
        session = await agent.new_session("/elsewhere")
        for text in ("say one", "permission", "fs", "say two"):
            await session.prompt(text)

    assert kinds_of(await replay_agent(recorded, elsewhere)) == [("changed", "session/new", "params.cwd")]
    assert await replay_agent(recorded, elsewhere, ignore=["session/new params.cwd"]) == []
    assert await replay_agent(recorded, elsewhere, ignore=["* params.cwd"]) == []
    assert len(await replay_agent(recorded, elsewhere, ignore=["session/load params.cwd", "params.cwd"])) == 1


async def test_another_version_of_the_client_is_not_a_difference(recorded: Trace) -> None:
    text = b'"clientInfo":{"name":"dragoman-scripted-client","version":"'
    frames = [Frame(frame.t, frame.dir, frame.data.replace(text, text + b"0.0.")) for frame in recorded.frames]
    older = Trace(recorded.header, [*frames])
    assert older.frames != recorded.frames
    assert await replay_agent(older, prompts("say one", "permission", "fs", "say two")) == []


async def test_ids_of_requests_are_the_clients_own() -> None:
    async with fake_agent(script(*HELLO)) as (wire, differences):
        wire.send(id="mine", method="initialize", params={})
        assert await wire.receive() == {"jsonrpc": "2.0", "id": "mine", "result": {"protocolVersion": 1}}
    assert differences == []


async def test_an_unknown_request_is_refused_at_once() -> None:
    async with fake_agent(script(*HELLO)) as (wire, differences):
        wire.send(id=1, method="no/such_thing", params={"a": 1})
        assert (await wire.receive())["error"] == {
            "code": -32601,
            "message": "the recording has no no/such_thing",
            "data": {"method": "no/such_thing"},
        }
        wire.send(id=2, method="initialize", params={})
        await wire.receive()
    assert kinds_of(differences) == [("unexpected", "no/such_thing", "")]


async def test_a_request_that_was_never_answered_is_answered_with_an_error() -> None:
    async with fake_agent(script('> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}')) as (wire, _):
        wire.send(id=1, method="session/prompt", params={"sessionId": "s"})
        assert "no answer to this session/prompt" in (await wire.receive())["error"]["message"]


async def test_lines_that_are_not_messages_are_sent_and_expected_as_they_were() -> None:
    trace = script("< Loading...", "> what?", '< {"id":null,"error":{"code":-32700,"message":"no"}}')
    async with fake_agent(trace) as (wire, differences):
        assert await wire.receive() == b"Loading..."
        wire.transport.write(b"what?\n")
        assert (await wire.receive())["error"]["code"] == -32700
        wire.transport.write(b"noise\n")
    assert [str(each) for each in differences] == ['unexpected: a line that is not a message: "noise"']


async def test_a_malformed_request_with_an_id_is_refused() -> None:
    async with fake_agent(script(*HELLO)) as (wire, _):
        wire.transport.write(b'{"id":5,"method":"initialize"}\n')
        assert (await wire.receive())["error"]["code"] == -32600


async def test_a_session_the_client_calls_otherwise_is_called_so_in_everything() -> None:
    trace = script(
        '> {"id":1,"method":"session/load","params":{"sessionId":"old","cwd":"/"}}',
        '< {"method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"x","toolCallId":"t"}}}',
        '< {"id":9,"method":"fs/read_text_file","params":{"sessionId":"old","path":"/a"}}',
        '> {"id":9,"result":{"content":""}}',
        '< {"id":1,"result":{}}',
        '> {"method":"session/cancel","params":{"sessionId":"old"}}',
    )
    async with fake_agent(trace) as (wire, differences):
        wire.send(id=1, method="session/load", params={"sessionId": "new", "cwd": "/"})
        assert (await wire.receive())["params"] == {
            "sessionId": "new",
            "update": {"sessionUpdate": "x", "toolCallId": "t"},
        }
        asked = await wire.receive()
        assert asked["params"]["sessionId"] == "new"
        wire.send(id=asked["id"], result={"content": ""})
        assert (await wire.receive())["result"] == {}
        wire.send(method="session/cancel", params={"sessionId": "new"})
    assert differences == []


async def test_ids_the_client_makes_up_are_used_towards_it() -> None:
    trace = script(
        '> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}',
        '< {"id":5,"method":"terminal/create","params":{"sessionId":"s","command":"x"}}',
        '> {"id":5,"result":{"terminalId":"recorded"}}',
        '< {"id":6,"method":"terminal/release","params":{"sessionId":"s","terminalId":"recorded"}}',
        '> {"id":6,"result":{}}',
        '< {"id":1,"result":{"stopReason":"end_turn"}}',
    )
    async with fake_agent(trace) as (wire, differences):
        wire.send(id=1, method="session/prompt", params={"sessionId": "s"})
        assert (await wire.receive())["method"] == "terminal/create"
        wire.send(id=5, result={"terminalId": "live"})
        assert (await wire.receive())["params"]["terminalId"] == "live"
        wire.send(id=6, result={})
        assert (await wire.receive())["result"] == {"stopReason": "end_turn"}
    assert differences == []


async def test_a_line_is_not_sent_before_the_lines_it_followed_have_arrived() -> None:
    trace = script(
        *HELLO,
        '> {"id":2,"method":"session/prompt","params":{"sessionId":"s"}}',
        '< {"id":7,"method":"session/request_permission","params":{"sessionId":"s"}}',
        '> {"id":7,"result":{}}',
        '< {"method":"after","params":{"sessionId":"s"}}',
        '> {"method":"session/cancel","params":{"sessionId":"s"}}',
        '< {"id":2,"result":{"stopReason":"cancelled"}}',
    )
    async with fake_agent(trace) as (wire, differences):
        wire.send(id=1, method="initialize", params={})
        await wire.receive()
        await settle(wire)
        wire.send(id=2, method="session/prompt", params={"sessionId": "s"})
        assert (await wire.receive())["method"] == "session/request_permission"
        await settle(wire)
        wire.send(id=7, result={})
        assert (await wire.receive())["method"] == "after"
        await settle(wire)
        wire.send(method="session/cancel", params={"sessionId": "s"})
        assert (await wire.receive())["result"]["stopReason"] == "cancelled"
    assert differences == []


async def settle(wire: Any) -> None:
    """No further line follows from the lines so far."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert wire.lines == []


async def test_a_cancel_that_does_not_come_is_given_up_after_a_while() -> None:
    trace = script(
        '> {"id":2,"method":"session/prompt","params":{"sessionId":"s"}}',
        '> {"method":"session/cancel","params":{"sessionId":"s"}}',
        '< {"id":2,"result":{"stopReason":"cancelled"}}',
    )
    async with fake_agent(trace, patience_seconds=0.05) as (wire, differences):
        wire.send(id=2, method="session/prompt", params={"sessionId": "s"})
        assert (await wire.receive())["result"]["stopReason"] == "cancelled"
    assert kinds_of(differences) == [("missing", "session/cancel", "")]


TWO_SESSIONS = script(
    '> {"id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":"A"}}',
    '< {"method":"session/update","params":{"sessionId":"a","update":{"text":"of a"}}}',
    '< {"id":1,"result":{"stopReason":"a"}}',
    '> {"id":2,"method":"session/prompt","params":{"sessionId":"b","prompt":"B"}}',
    '< {"method":"session/update","params":{"sessionId":"b","update":{"text":"of b"}}}',
    '< {"id":2,"result":{"stopReason":"b"}}',
)


async def test_sessions_are_played_independently_of_each_other() -> None:
    async with fake_agent(TWO_SESSIONS) as (wire, differences):
        for session, id in (("b", 1), ("a", 2)):
            wire.send(id=id, method="session/prompt", params={"sessionId": session, "prompt": session.upper()})
            assert (await wire.receive())["params"]["update"] == {"text": f"of {session}"}
            assert await wire.receive() == {"jsonrpc": "2.0", "id": id, "result": {"stopReason": session}}
    assert differences == []


async def test_a_request_that_comes_later_than_recorded_gets_all_that_belongs_to_it() -> None:
    trace = script(
        '> {"id":1,"method":"session/prompt","params":{"sessionId":"s"}}',
        '< {"method":"session/update","params":{"sessionId":"s","update":{}}}',
        '< {"id":1,"result":{"stopReason":"end_turn"}}',
        '> {"id":2,"method":"session/set_mode","params":{"sessionId":"s"}}',
        '< {"id":2,"result":{}}',
    )
    async with fake_agent(trace) as (wire, differences):
        wire.send(id=1, method="session/set_mode", params={"sessionId": "s"})
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        wire.send(id=2, method="session/prompt", params={"sessionId": "s"})
        assert (await wire.receive())["method"] == "session/update"
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}
    assert kinds_of(differences) == [("order", "session/prompt", "")]


async def test_what_was_asked_before_the_client_left_is_still_answered() -> None:
    ours = script(*HELLO, '> {"id":2,"method":"session/list","params":{}}', '< {"id":2,"result":{"sessions":[]}}')
    async with fake_agent(ours) as (wire, differences):
        received: list[bytes] = []
        # What still leaves, though nobody reads it.
        wire.transport._other.write = received.append  # type: ignore[attr-defined]
        wire.send(id=1, method="initialize", params={})
        wire.send(id=2, method="session/list", params={})
        wire.transport.close()
    assert differences == []
    assert len(received) == 2


async def test_an_agent_that_went_first_goes_again() -> None:
    trace = script(*HELLO, '> {"id":2,"method":"session/new","params":{}}', "< Traceback", "! 3")
    replay = Replay(trace)
    async with fake_agent(replay) as (wire, differences):
        wire.send(id=1, method="initialize", params={})
        wire.send(id=2, method="session/new", params={})
        assert (await wire.receive())["id"] == 1
        assert await wire.receive() == b"Traceback"
        await wire.wait_end()
    assert differences == []
    assert replay.exit_code == 3


async def test_an_agent_whose_client_went_first_does_not_go_by_itself() -> None:
    trace = script(*HELLO)
    ended = Trace(trace.header, [*trace.entries, End(8.0, "c2a"), End(8.0, "a2c"), Exit(9.0, 0)])
    replay = Replay(ended)
    async with fake_agent(replay) as (wire, _):
        wire.send(id=1, method="initialize", params={})
        await wire.receive()
        await settle(wire)
        assert not wire.has_ended
    assert replay.exit_code is None


@pytest.mark.parametrize(
    ("timing", "recorded", "least"), [("none", 1000.0, 0.0), ("recorded", 0.2, 0.19), (0.5, 0.2, 0.09)]
)
async def test_time_passes_as_recorded_or_scaled(timing: Any, recorded: float, least: float) -> None:
    trace = script((0.0, '> {"id":1,"method":"x","params":{}}'), (recorded, '< {"id":1,"result":{}}'))
    loop = asyncio.get_running_loop()
    async with fake_agent(trace, timing=timing) as (wire, _):
        began = loop.time()
        wire.send(id=1, method="x", params={})
        await wire.receive()
        assert loop.time() - began >= least


@pytest.mark.parametrize("timing", ["slow", -1, float("nan")])
def test_a_timing_that_means_nothing_is_refused(timing: Any) -> None:
    with pytest.raises(ValueError, match="timing"):
        Replay(script(*HELLO), timing=timing)


async def test_a_redacted_recording_is_compared_by_its_shape() -> None:
    trace = await record(scripted_agent(), prompts("say one", "permission"))
    redactor = Redactor()
    redacted = Trace(redactor.entry(trace.header), [redactor.entry(entry) for entry in trace.entries])  # type: ignore[arg-type]
    assert b"say one" not in b"".join(frame.data for frame in redacted.frames)
    differences = await replay_agent(redacted, prompts("say something else entirely", "permission"))
    assert differences == []


async def test_one_replay_serves_many_clients() -> None:
    trace = await record(scripted_agent(), prompts("think"))
    replay = Replay(trace)
    results = await asyncio.gather(*(perform(replay.serve, prompts("think")) for _ in range(3)))
    assert results == [[], [], []]
