"""Clients written on the official SDKs drive our agent: handshake, sessions, login, settings, errors."""

import subprocess

import pytest

from tests.interop.support import OUR_AGENT, SDKS, Walks

both = pytest.mark.parametrize("sdk", SDKS)


@both
@pytest.mark.rule(2, 6, 15, 35, 37, 38, 39, 42, 45, 46, 48, 52, 53, 56, 64)
def test_initialize_is_answered_with_what_the_agent_can_do(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "initialize")
    assert seen.error("early")[0] == -32600
    answer = seen.result("initialize")
    assert answer["protocolVersion"] == 1
    assert answer["agentInfo"] == {"name": "our-agent", "title": "Ours", "version": "1.0"}
    capabilities = answer["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert {name: capabilities["promptCapabilities"][name] for name in ("image", "audio", "embeddedContext")} == {
        "image": True,
        "audio": True,
        "embeddedContext": True,
    }
    assert capabilities["mcpCapabilities"]["http"] is True
    assert capabilities["mcpCapabilities"].get("sse", False) is False
    assert set(capabilities["sessionCapabilities"]) == {"list", "resume", "close", "delete", "additionalDirectories"}
    assert [method["id"] for method in answer["authMethods"]] == ["key"]
    assert seen.result("again")["protocolVersion"] == 1


@both
@pytest.mark.rule(85, 101, 102, 106, 107, 112, 117, 119, 120, 125, 126, 130, 131, 342)
def test_sessions_are_made_listed_loaded_resumed_and_closed(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "sessions")
    new = seen.result("new")
    assert new["modes"]["currentModeId"] == "ask"
    assert [option["id"] for option in new["configOptions"]] == ["model", "fast"]
    # The handler sent its update first; on the wire it follows the answer that names its session.
    sent = seen.frames.outgoing
    answered = next(n for n, frame in enumerate(sent) if frame.get("result", {}).get("sessionId") == new["sessionId"])
    told = next(n for n, frame in enumerate(sent) if frame.get("method") == "session/update")
    assert answered < told
    assert seen.updates()[0]["sessionUpdate"] == "available_commands_update"
    first, second = seen.result("list"), seen.result("list next")
    assert [info["sessionId"] for info in first["sessions"]] == ["old-1", "old-2"]
    assert first["nextCursor"] == "2"
    assert [info["sessionId"] for info in second["sessions"]] == ["old-3"]
    assert second.get("nextCursor") is None
    assert [info["sessionId"] for info in seen.result("list cwd")["sessions"]] == ["old-3"]
    assert seen.error("list junk")[0] == -32602
    replayed = [update["sessionUpdate"] for update in seen.updates("load")]
    assert replayed == ["user_message_chunk", "agent_message_chunk", "tool_call"]
    assert seen.result("load")["modes"]["currentModeId"] == "ask"
    assert seen.error("load missing") == (-32002, {"sessionId": "nobody"})
    assert seen.updates("resume") == []
    assert seen.result("after resume")["stopReason"] == "end_turn"
    assert seen.result("close") == {}
    assert seen.error("after close") == (-32002, {"sessionId": new["sessionId"]})


@pytest.mark.rule(136, 137, 138)
def test_deleted_sessions_vanish_and_can_be_deleted_twice(walks: Walks) -> None:
    seen = walks.report("ts", "sessions")
    assert seen.result("delete") == {}
    assert seen.result("delete again") == {}
    assert [info["sessionId"] for info in seen.result("list after delete")["sessions"]] == ["old-1", "old-2"]


@both
@pytest.mark.rule(76, 77, 78, 80)
def test_login_opens_what_was_locked(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "auth")
    assert seen.error("locked") == (-32000, {"methods": ["key"]})
    assert seen.error("wrong key")[0] == -32602
    assert seen.result("authenticate") == {}
    assert seen.result("unlocked")["sessionId"]
    if sdk == "ts":
        assert seen.result("logout") == {}
        assert seen.error("locked again")[0] == -32000


@both
@pytest.mark.rule(151, 163, 166, 172, 173)
def test_modes_and_options_are_set_and_junk_is_refused(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "settings")
    assert seen.result("mode") == {}
    assert seen.error("mode junk")[0] == -32602
    assert [option["currentValue"] for option in seen.result("model")["configOptions"]] == ["large", False]
    assert [option["currentValue"] for option in seen.result("fast")["configOptions"]] == ["large", True]
    assert seen.error("model junk")[0] == -32602
    assert seen.error("junk")[0] == -32602


@both
@pytest.mark.rule(22, 23, 25, 28, 119, 187, 333, 337, 338, 340, 342)
def test_errors_carry_code_and_data_and_no_exception_text(walks: Walks, sdk: str) -> None:
    seen = walks.report(sdk, "errors")
    assert seen.error("hello") == (-32002, {"sessionId": "nobody"})
    assert seen.error("error -32050") == (-32050, {"asked": -32050})
    assert seen.error("error 1234") == (1234, {"asked": 1234})
    assert seen.error("crash")[0] == -32603
    assert "secret text" not in str(seen.frames.outgoing)
    assert seen.error("none")[0] == -32601
    assert seen.error("second")[0] == -32600
    assert seen.result("wait")["stopReason"] == "cancelled"
    assert seen.result("still here")["stopReason"] == "end_turn"


@pytest.mark.rule(28, 84, 87, 178, 337)
def test_bad_params_are_refused_with_the_path_of_the_fault(walks: Walks) -> None:
    """The Python SDK's client cannot send them: its models check first."""
    seen = walks.report("ts", "errors")
    assert seen.error("no method")[0] == -32601
    assert seen.error("no prompt")[0] == -32602
    code, where = seen.error("wrong type")
    assert code == -32602
    assert "prompt[0].text" in str(where)
    assert seen.error("no cwd")[0] == -32602
    assert seen.error("relative cwd")[0] == -32602


@both
def test_our_agent_complains_only_of_what_went_wrong_on_purpose(walks: Walks, sdk: str) -> None:
    said = walks.of(sdk).stderr
    assert said.count("the handler of") == 1
    assert "ValueError: secret text" in said
    assert "Warning" not in said
    assert "never" not in said


def test_run_serves_stdio_until_its_end() -> None:
    """`agent.run()` itself, as an editor starts it; the walks record and therefore serve by hand."""
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    done = subprocess.run(OUR_AGENT, input=hello, capture_output=True, text=True, timeout=60, check=True)
    assert '"our-agent"' in done.stdout
    assert done.stdout.count("\n") == 1
