"""Rules about turns, updates and the client's services: each finding has talk that causes it and talk that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trace.cases import WHOLE, Case, assert_found, lacks, name_of, nothing
from tests.trace.talk import OPTIONS, Talk, brief, findings, started, text
from tests.trace.test_inspect_sessions import load

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
SELECTED = {"outcome": {"outcome": "selected", "optionId": "y"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def cancelled_turn(answer: Any, wait: float = 2.0) -> Any:
    """A turn that is cancelled, and answered some time later."""

    def step(talk: Talk) -> None:
        asked = talk.prompt()
        talk.cancel()
        talk.wait(wait)
        answer(talk, asked)

    return step


def asked_while_cancelled(outcome: Any, reason: str = "cancelled") -> Any:
    """A turn that is cancelled while it waits for a permission."""

    def step(talk: Talk) -> None:
        prompt = talk.prompt()
        talk.tool()
        permission = talk.permission()
        talk.cancel()
        talk.reply(permission, outcome)
        talk.end(prompt, reason)

    return step


def asked_after_cancel(outcome: Any) -> Any:
    """A permission request that crosses the cancel on its way."""

    def step(talk: Talk) -> None:
        prompt = talk.prompt()
        talk.tool()
        talk.cancel()
        talk.reply(talk.permission(), outcome)
        talk.end(prompt, "cancelled")

    return step


def left_open(talk: Talk, *, cancel_it: bool = False) -> None:
    """The turn ends while its permission request is open."""
    prompt = talk.prompt()
    talk.tool()
    permission = talk.permission()
    talk.cancel()
    if cancel_it:
        talk.notify("$/cancel_request", {"requestId": permission}, by="a2c")
    talk.end(prompt, "cancelled")
    talk.reply(permission, CANCELLED)


def asked(options: Any = OPTIONS, outcome: Any = SELECTED) -> Any:
    def step(talk: Talk) -> None:
        prompt = talk.prompt()
        talk.tool()
        talk.reply(talk.permission(options=options), outcome)
        talk.end(prompt)

    return step


def in_turn(*steps: Any) -> Any:
    """These updates inside one turn."""

    def step(talk: Talk) -> None:
        prompt = talk.prompt()
        for each in steps:
            each(talk)
        talk.end(prompt)

    return step


def late(kind: str, *, cancel: bool = False, **members: Any) -> Any:
    """Something of the last turn after its answer."""

    def step(talk: Talk) -> None:
        prompt = talk.prompt()
        talk.say(messageId="m")
        talk.tool("t")
        if cancel:
            talk.cancel()
        talk.end(prompt, "cancelled" if cancel else "end_turn")
        talk.update(kind, **members)

    return step


TURNS = [
    Case(
        177,
        "MUST",
        "c2a",
        lambda t: t.end(t.prompt("s", IMAGE)),
        lambda t: t.turn(),
        lacks("agent", "promptCapabilities"),
    ),
    Case(
        177,
        "MUST",
        "c2a",
        lambda t: t.end(t.prompt("s", {"type": "resource", "resource": {"uri": "file:///a", "text": ""}})),
        lambda t: t.end(t.prompt("s", {"type": "resource_link", "uri": "file:///a", "name": "a"})),
        lacks("agent", "promptCapabilities", "embeddedContext"),
    ),
    Case(187, "lc", "c2a", lambda t: [t.end(id) for id in (t.prompt(), t.prompt())], lambda t: (t.turn(), t.turn())),
    Case(194, "MUST", "c2a", asked_while_cancelled(SELECTED), asked_while_cancelled(CANCELLED)),
    Case(
        194,
        "MUST",
        "c2a",
        lambda t: (t.prompt(), t.tool(), t.permission(), t.cancel(), t.wait(20), t.stderr("still here")),
        lambda t: (t.prompt(), t.tool(), t.permission(), t.cancel(), t.stderr("cut here")),
    ),
    Case(258, "MUST", "c2a", asked_after_cancel(SELECTED), asked_after_cancel(CANCELLED)),
    Case(53, "MUST", "a2c", lambda t: t.fail(t.prompt(), -32601), lambda t: t.fail(t.prompt(), -32603)),
    Case(
        53,
        "MUST",
        "a2c",
        lambda t: t.fail(t.ask("session/new", {"cwd": "/p", "mcpServers": []}), -32601),
        lambda t: t.fail(t.ask("session/new", {"cwd": "/p", "mcpServers": []}), -32000),
    ),
    Case(196, "MUST", "a2c", cancelled_turn(Talk.end), cancelled_turn(lambda t, id: t.end(id, "cancelled"))),
    Case(196, "NOTE", "a2c", cancelled_turn(Talk.end, 0), cancelled_turn(lambda t, id: t.end(id, "cancelled"), 0)),
    Case(196, "MUST", "a2c", asked_while_cancelled(CANCELLED, "end_turn"), asked_while_cancelled(CANCELLED)),
    Case(
        197,
        "MUST",
        "a2c",
        cancelled_turn(lambda t, id: t.fail(id, -32603)),
        cancelled_turn(lambda t, id: t.end(id, "cancelled")),
    ),
    Case(197, "MUST", "a2c", cancelled_turn(lambda t, id: t.fail(id, -32800), 0), lambda t: t.fail(t.prompt(), -32603)),
    Case(197, "NOTE", "a2c", cancelled_turn(lambda t, id: t.fail(id, -32603), 0), lambda t: t.turn()),
    Case(
        198,
        "MUST",
        "a2c",
        late("tool_call_update", cancel=True, toolCallId="t", status="failed"),
        late("available_commands_update", cancel=True, availableCommands=[]),
    ),
    Case(
        185,
        "SDK",
        "a2c",
        late("agent_message_chunk", content=text(), messageId="m"),
        late("agent_message_chunk", content=text(), messageId="another"),
    ),
    Case(186, "NOTE", "a2c", late("usage_update", used=1, size=2), late("session_info_update", title="x")),
    Case(
        180,
        "NOTE",
        "a2c",
        lambda t: [(t.tool(), t.permission(), t.end(id)) for id in [t.prompt()]],
        asked(),
    ),
    Case(
        204,
        "MUST",
        "a2c",
        lambda t: [
            (t.notify("$/cancel_request", {"requestId": id}), t.wait(0.2), t.fail(id, -32603)) for id in [t.prompt()]
        ],
        lambda t: [
            (t.notify("$/cancel_request", {"requestId": id}), t.wait(0.2), t.fail(id, -32800)) for id in [t.prompt()]
        ],
    ),
    Case(208, "NOTE", "a2c", left_open, asked_while_cancelled(CANCELLED)),
    Case(208, "NOTE", "a2c", lambda t: left_open(t, cancel_it=True), asked_while_cancelled(CANCELLED)),
    Case(
        201,
        "NOTE",
        "c2a",
        lambda t: t.notify("$/cancel_request", {"requestId": 77}),
        lambda t: [(t.notify("$/cancel_request", {"requestId": id}), t.fail(id, -32800)) for id in [t.ask("_x/y")]],
    ),
    Case(254, "SCHEMA", "a2c", asked(options=[OPTIONS[0], OPTIONS[0]]), asked()),
    Case(256, "SCHEMA", "c2a", asked(outcome={"outcome": {"outcome": "selected", "optionId": "z"}}), asked()),
    Case(
        259,
        "lc",
        "c2a",
        lambda t: [(t.tool(), t.fail(t.permission(), -32601, by="c2a"), t.end(id)) for id in [t.prompt()]],
        asked(),
    ),
]


def compaction(*steps: tuple[str, str]) -> Any:
    """(id, status) makes a compaction_update, (id, "chunk") a piece of its summary."""

    def step(talk: Talk) -> None:
        for id, status in steps:
            if status == "chunk":
                talk.update("compaction_summary_chunk", compactionId=id, content=text())
            else:
                talk.update("compaction_update", compactionId=id, status=status)

    return step


def tool(**members: Any) -> Any:
    return in_turn(lambda t: t.tool(**members))


def diff(path: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "newText": "x"}


def update(kind: str, **members: Any) -> Any:
    return in_turn(lambda t: t.update(kind, **members))


UPDATES = [
    Case(
        62,
        "MUST",
        "a2c",
        update("notice", severity="info", title="x"),
        nothing,
        lacks("client", "session", "notices"),
        None,
    ),
    Case(63, "MUST", "a2c", compaction(("c", "in_progress")), nothing, lacks("client", "session", "compaction")),
    Case(63, "MUST", "a2c", compaction(("c", "chunk")), nothing, lacks("client", "session", "compaction")),
    Case(49, "MUST", "a2c", update("plan_removed", planId="p"), nothing, lacks("client", "plan")),
    Case(
        49,
        "MUST",
        "a2c",
        update("subagent_update", sessionId="child"),
        update("subagent_update", sessionId="child"),
        lacks("client", "subagents"),
        started,
    ),
    Case(
        220,
        "SHOULD NOT",
        "a2c",
        lambda t: [(t.update("notice", "old", severity="info", title="x"), t.answer(id)) for id in [load(t)]],
        update("notice", severity="info", title="x"),
    ),
    Case(
        216,
        "SCHEMA",
        "a2c",
        update("usage_update", used=1, size=2, cost={"amount": 1, "currency": "$"}),
        update("usage_update", used=1, size=2, cost={"amount": 1, "currency": "EUR"}),
    ),
    Case(
        223,
        "SCHEMA",
        "a2c",
        compaction(("c", "completed"), ("c", "failed")),
        compaction(("c", "completed"), ("d", "failed")),
    ),
    Case(
        224,
        "SCHEMA",
        "a2c",
        compaction(("c", "completed"), ("c", "chunk")),
        compaction(("c", "chunk"), ("c", "completed")),
    ),
    Case(
        231,
        "SCHEMA",
        "a2c",
        in_turn(lambda t: t.update("agent_message_chunk", content={**IMAGE, "data": "{}"})),
        nothing,
    ),
    Case(
        232,
        "SCHEMA",
        "a2c",
        tool(content=[{"type": "content", "content": {"type": "audio", "data": "ä", "mimeType": "audio/wav"}}]),
        tool(content=[{"type": "content", "content": {"type": "audio", "data": "aGk=\n", "mimeType": "audio/wav"}}]),
    ),
    Case(
        233,
        "SCHEMA",
        "a2c",
        update("agent_message_chunk", content={"type": "resource", "resource": {"uri": "a:b", "blob": "?"}}),
        update("agent_message_chunk", content={"type": "resource", "resource": {"uri": "a:b", "blob": "aGk="}}),
    ),
    Case(
        239,
        "SCHEMA",
        "a2c",
        lambda t: [tool(status=status)(t) for status in ("completed", "pending")],
        lambda t: [tool(id=id, status="completed")(t) for id in ("a", "b")],
    ),
    Case(243, "SDK", "a2c", in_turn(Talk.tool, Talk.tool), in_turn(Talk.tool, lambda t: t.tool("t2"))),
    Case(
        243,
        "SDK",
        "a2c",
        update("tool_call_update", toolCallId="t1", status="completed"),
        in_turn(Talk.tool, lambda t: t.update("tool_call_update", toolCallId="t1", status="completed")),
    ),
    Case(243, "SDK", "a2c", in_turn(lambda t: t.reply(t.permission("other"), SELECTED)), asked()),
    Case(246, "MUST", "a2c", tool(content=[diff("a.py")]), tool(content=[diff("/p/a.py")])),
    Case(248, "SCHEMA", "a2c", tool(locations=[{"path": "a.py"}]), tool(locations=[{"path": "/a.py", "line": 1}])),
    Case(248, "SCHEMA", "a2c", tool(locations=[{"path": "/a.py", "line": 0}]), tool(locations=[{"path": "/a.py"}])),
    Case(251, "lc", "a2c", tool(content=[{"type": "terminal", "terminalId": "none"}]), nothing),
]


def terminal(talk: Talk, method: str, id: str = "term") -> Any:
    return talk.request(f"terminal/{method}", {"sessionId": "s", "terminalId": id})


def with_terminal() -> Talk:
    talk = started()
    talk.reply(
        talk.request("terminal/create", {"sessionId": "s", "command": "ls", "outputByteLimit": 4}),
        {"terminalId": "term"},
    )
    return talk


def released(talk: Talk) -> Talk:
    return talk.reply(terminal(talk, "release"))


def output(words: str) -> Any:
    return lambda t: (t.reply(terminal(t, "output"), {"output": words, "truncated": False}), released(t))


def run_command(command: str, *args: str) -> Any:
    params = {"sessionId": "s", "command": command, "args": list(args)}
    return lambda t: t.fail(t.request("terminal/create", params), -32603, by="c2a")


def elicit(**more: Any) -> Any:
    url = {"mode": "url", "message": "?", "elicitationId": "e", "url": "https://example.org/", "sessionId": "s"}
    return lambda t: t.request("elicitation/create", {**url, **more})


def show_terminal(talk: Talk) -> None:
    talk.update("tool_call", toolCallId="shown", title="x", content=[{"type": "terminal", "terminalId": "term"}])


FORM = {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}, "sessionId": "s"}

SERVICES = [
    Case(
        273,
        "MUST",
        "a2c",
        lambda t: t.fail(t.request("fs/read_text_file", {"sessionId": "s", "path": "a"}), -32002, by="c2a"),
        lambda t: t.fail(t.request("fs/read_text_file", {"sessionId": "s", "path": "/a"}), -32002, by="c2a"),
    ),
    Case(
        273,
        "MUST",
        "a2c",
        lambda t: t.reply(t.request("fs/write_text_file", {"sessionId": "s", "path": "a", "content": ""})),
        lambda t: t.reply(t.request("fs/write_text_file", {"sessionId": "s", "path": "\\\\host\\a", "content": ""})),
    ),
    Case(
        274,
        "MUST",
        "a2c",
        lambda t: t.reply(t.request("fs/read_text_file", {"sessionId": "s", "path": "/a", "line": 0}), {"content": ""}),
        lambda t: t.reply(t.request("fs/read_text_file", {"sessionId": "s", "path": "/a", "line": 1}), {"content": ""}),
    ),
    Case(
        283,
        "SCHEMA",
        "a2c",
        lambda t: t.fail(
            t.request("terminal/create", {"sessionId": "s", "command": "ls", "cwd": "x"}), -32602, by="c2a"
        ),
        lambda t: t.fail(t.request("terminal/create", {"sessionId": "s", "command": "ls", "cwd": "/x"}), -1, by="c2a"),
    ),
    Case(284, "lc", "a2c", run_command("touch x && echo y"), run_command("/opt/my tools/run")),
    Case(284, "lc", "a2c", run_command("ls | wc"), run_command("sh", "-c", "ls | wc")),
    Case(286, "lc", "c2a", output("12345"), output("1234"), with_terminal),
    Case(292, "NOTE", "a2c", nothing, released, with_terminal),
    Case(292, "MUST", "a2c", lambda t: t.exit(), lambda t: (released(t), t.exit()), with_terminal),
    Case(294, "NOTE", "a2c", lambda t: (released(t), terminal(t, "output")), released, with_terminal),
    Case(
        294,
        "lc",
        "c2a",
        lambda t: (released(t), t.reply(terminal(t, "output"), {"output": "", "truncated": False})),
        released,
        with_terminal,
    ),
    Case(
        251,
        "lc",
        "a2c",
        lambda t: (released(t), in_turn(show_terminal)(t)),
        lambda t: (in_turn(show_terminal)(t), released(t)),
        with_terminal,
    ),
    Case(
        298,
        "MUST NOT",
        "a2c",
        lambda t: t.reply(t.request("elicitation/create", FORM), {"action": "decline"}),
        lambda t: t.reply(elicit()(t), {"action": "decline"}),
        lacks("client", "elicitation", "form"),
    ),
    Case(302, "SCHEMA", "a2c", elicit(requestId=1), elicit()),
    Case(
        316,
        "MUST",
        "a2c",
        lambda t: (elicit()(t), elicit()(t)),
        lambda t: (t.reply(elicit()(t), {"action": "accept"}), elicit()(t)),
    ),
    Case(320, "MUST NOT", "a2c", elicit(url="https://me:secret@example.org/"), elicit(url="https://example.org/a:b@c")),
]

CASES = [*TURNS, *UPDATES, *SERVICES]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_broken_rule_is_found_where_it_is_broken_and_nowhere_else(case: Case) -> None:
    assert_found(case)


def test_rich_turn_breaks_nothing() -> None:
    talk = with_terminal()
    prompt = talk.prompt("s", text(), IMAGE)
    talk.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending"}])
    talk.say(messageId="m")
    talk.tool("t", status="pending", locations=[{"path": "/p/a", "line": 3}])
    talk.reply(talk.permission("t"), SELECTED)
    talk.update("tool_call_update", toolCallId="t", status="completed", content=[diff("/p/a")])
    show_terminal(talk)
    compaction(("c", "in_progress"), ("c", "chunk"), ("c", "completed"))(talk)
    released(talk)
    talk.end(prompt)
    talk.close("c2a")
    talk.close("a2c")
    talk.exit()
    assert findings(talk, WHOLE) == [], brief(findings(talk, WHOLE))


def test_ids_of_a_loaded_history_may_come_again() -> None:
    talk = started("old")
    tool_in_old = {"toolCallId": "t", "title": "x", "status": "completed"}
    prompt = talk.prompt("old")
    talk.update("tool_call", "old", **tool_in_old)
    talk.end(prompt)
    asked = load(talk)
    talk.update("user_message_chunk", "old", content=text())
    talk.update("tool_call", "old", **tool_in_old)
    talk.answer(asked)
    assert findings(talk) == []


def test_finding_about_an_earlier_message_carries_its_number() -> None:
    talk = Talk()
    talk.hello()
    asked = talk.ask("session/new", {"cwd": "/p", "mcpServers": []})
    talk.say(session="s")
    talk.answer(asked, {"sessionId": "s"})
    [finding] = findings(talk)
    assert (finding.rule, finding.index) == (102, 4)
