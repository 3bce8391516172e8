"""Rules about sessions and their settings: each finding has talk that causes it and talk that does not."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.trace.entry import Header
from tests.trace.cases import Case, assert_found, lacks, name_of, nothing
from tests.trace.talk import MODES, SELECT, Step, Talk, brief, findings, started, text

NEW = {"cwd": "/p", "mcpServers": []}


def opened(**more: Any) -> Step:
    """A second session with these params."""
    return lambda t: t.answer(t.ask("session/new", {**NEW, **more}), {"sessionId": "two"})


STDIO = {"name": "m", "command": "/bin/m", "args": [], "env": []}
HTTP = {"type": "http", "name": "m", "url": "http://127.0.0.1/", "headers": []}


def listed(**more: Any) -> Step:
    return lambda t: t.answer(t.ask("session/list"), {"sessions": [{"sessionId": "s", "cwd": "/p", **more}]})


def load(talk: Talk) -> Any:
    return talk.ask("session/load", {"sessionId": "old", **NEW})


def resume(talk: Talk) -> Any:
    return talk.ask("session/resume", {"sessionId": "old", **NEW})


def user_text(talk: Talk) -> Talk:
    return talk.update("user_message_chunk", "old", content=text("before"))


def closed(talk: Talk) -> Talk:
    return talk.answer(talk.ask("session/close", {"sessionId": "s"}))


def deleted(talk: Talk) -> Talk:
    return talk.answer(talk.ask("session/delete", {"sessionId": "s"}))


SESSIONS = [
    Case(85, "MUST", "a2c", lambda t: t.open("s"), lambda t: t.open("two")),
    Case(86, "MUST", "c2a", lambda t: t.fail(t.prompt("no"), -32002, data={"sessionId": "no"}), lambda t: t.turn("s")),
    Case(210, "SCHEMA", "a2c", lambda t: t.say(session="no"), lambda t: t.update("session_info_update", title="x")),
    Case(
        86,
        "NOTE",
        "a2c",
        lambda t: [(t.say(session="no"), t.end(id)) for id in [t.prompt("no")]],
        lambda t: t.say(session="s"),
    ),
    Case(119, "SHOULD", "a2c", lambda t: t.fail(t.prompt("no"), -32603), lambda t: t.turn("s")),
    Case(
        342,
        "SHOULD",
        "a2c",
        lambda t: t.fail(t.prompt("no"), -32002),
        lambda t: t.fail(t.prompt("no"), -32002, data={"sessionId": "no"}),
    ),
    Case(120, "NOTE", "c2a", lambda t: (closed(t), t.fail(t.prompt(), -32002)), lambda t: (t.turn(), closed(t))),
    Case(87, "MUST", "c2a", opened(cwd="relative"), opened(cwd="C:\\Users\\me")),
    Case(141, "MUST", "c2a", opened(additionalDirectories=["x"]), opened(additionalDirectories=["/x"])),
    Case(
        140,
        "MUST",
        "c2a",
        opened(additionalDirectories=["/x"]),
        opened(additionalDirectories=[]),
        lacks("agent", "sessionCapabilities", "additionalDirectories"),
    ),
    Case(96, "MUST", "c2a", opened(mcpServers=[HTTP]), opened(mcpServers=[STDIO]), lacks("agent", "mcpCapabilities")),
    Case(
        96,
        "MUST",
        "c2a",
        opened(mcpServers=[{**HTTP, "type": "sse"}]),
        opened(mcpServers=[HTTP]),
        lacks("agent", "mcpCapabilities", "sse"),
    ),
    Case(
        49,
        "MUST",
        "c2a",
        opened(mcpServers=[{"type": "acp", "name": "m", "serverId": "1"}]),
        opened(mcpServers=[HTTP]),
        lacks("agent", "mcpCapabilities", "acp"),
    ),
    Case(98, "NOTE", "c2a", opened(mcpServers=[{**STDIO, "command": "npx"}]), opened(mcpServers=[STDIO])),
    Case(
        102,
        "SDK",
        "a2c",
        lambda t: [(t.say(session="two"), t.answer(id, {"sessionId": "two"})) for id in [t.ask("session/new", NEW)]],
        lambda t: (t.open("two"), t.update("session_info_update", "two", title="x")),
    ),
    Case(
        107,
        "MUST",
        "a2c",
        lambda t: (t.answer(load(t)), user_text(t)),
        lambda t: [(user_text(t), t.answer(id), t.turn("old")) for id in [load(t)]],
    ),
    Case(
        112,
        "MUST NOT",
        "a2c",
        lambda t: [(user_text(t), t.answer(id)) for id in [resume(t)]],
        lambda t: [
            (t.update("available_commands_update", "old", availableCommands=[]), t.answer(id)) for id in [resume(t)]
        ],
    ),
    Case(
        116,
        "MUST",
        "a2c",
        lambda t: [(closed(t), t.wait(2), t.end(id)) for id in [t.prompt()]],
        lambda t: [(closed(t), t.wait(2), t.end(id, "cancelled")) for id in [t.prompt()]],
    ),
    Case(116, "NOTE", "a2c", lambda t: [(closed(t), t.end(id)) for id in [t.prompt()]], nothing),
    Case(
        124,
        "MUST",
        "c2a",
        lambda t: t.answer(t.ask("session/list", {"cwd": "p"}), {"sessions": []}),
        lambda t: t.answer(t.ask("session/list", {"cwd": "/p"}), {"sessions": []}),
    ),
    Case(
        125,
        "lc",
        "a2c",
        lambda t: t.answer(t.ask("session/list", {"cwd": "/q"}), {"sessions": [{"sessionId": "s", "cwd": "/p"}]}),
        lambda t: t.answer(t.ask("session/list", {"cwd": "/p"}), {"sessions": [{"sessionId": "s", "cwd": "/p"}]}),
    ),
    Case(127, "SCHEMA", "a2c", listed(cwd="p"), listed()),
    Case(127, "SCHEMA", "a2c", listed(updatedAt="yesterday"), listed(updatedAt="2026-11-15T20:13:11.122780+01:00")),
    Case(
        129,
        "MUST",
        "c2a",
        lambda t: t.answer(t.ask("session/list", {"cursor": "mine"}), {"sessions": []}),
        lambda t: (
            t.answer(t.ask("session/list"), {"sessions": [], "nextCursor": "p2"}),
            t.answer(t.ask("session/list", {"cursor": "p2"}), {"sessions": []}),
        ),
    ),
    Case(137, "lc", "a2c", lambda t: (deleted(t), listed()(t)), lambda t: (listed()(t), deleted(t))),
]


def offered(*options: Any, **more: Any) -> Step:
    """A second session whose answer offers these options."""
    return lambda t: t.open("two", configOptions=list(options), **more)


def set_mode(mode: str) -> Any:
    return lambda t: t.ask("session/set_mode", {"sessionId": "s", "modeId": mode})


def set_option(value: Any, answer: Any, id: str = "model") -> Step:
    def step(talk: Talk) -> None:
        asked = talk.ask("session/set_config_option", {"sessionId": "s", "configId": id, "value": value})
        talk.answer(asked, {"configOptions": answer})

    return step


def with_settings() -> Talk:
    return started(modes=MODES, configOptions=[SELECT, {**SELECT, "id": "voice"}])


BOTH = [SELECT, {**SELECT, "id": "voice"}]
BOOLEAN = {"type": "boolean", "id": "b", "name": "B", "currentValue": True}
MODE_OPTION = {
    **SELECT,
    "id": "mode",
    "category": "mode",
    "currentValue": "code",
    "options": [{"value": "ask", "name": "A"}, {"value": "code", "name": "C"}],
}

SETTINGS = [
    Case(149, "SCHEMA", "a2c", offered({**SELECT, "currentValue": "huge"}), offered(SELECT)),
    Case(
        149,
        "SCHEMA",
        "a2c",
        offered({**SELECT, "options": [{"group": "g", "name": "G", "options": []}]}),
        offered({**SELECT, "options": [{"group": "g", "name": "G", "options": SELECT["options"]}]}),
    ),
    Case(150, "MUST NOT", "a2c", offered(BOOLEAN), offered(SELECT), lacks("client", "session", "configOptions")),
    Case(157, "lc", "a2c", offered({**SELECT, "category": "mine"}), offered({**SELECT, "category": "_mine"})),
    Case(
        167,
        "SHOULD",
        "a2c",
        offered(MODE_OPTION, modes=MODES),
        offered({**MODE_OPTION, "currentValue": "ask"}, modes=MODES),
    ),
    Case(
        170,
        "SCHEMA",
        "a2c",
        lambda t: t.open("two", modes={**MODES, "currentModeId": "no"}),
        lambda t: t.open("two", modes=MODES),
    ),
    Case(
        170,
        "SCHEMA",
        "a2c",
        lambda t: t.update("current_mode_update", currentModeId="no"),
        lambda t: t.update("current_mode_update", currentModeId="code"),
        with_settings,
    ),
    Case(
        171,
        "MUST",
        "c2a",
        lambda t: t.fail(set_mode("no")(t), -32602),
        lambda t: t.answer(set_mode("code")(t)),
        with_settings,
    ),
    Case(
        172,
        "lc",
        "a2c",
        lambda t: t.answer(set_mode("no")(t)),
        lambda t: t.fail(set_mode("no")(t), -32602),
        with_settings,
    ),
    Case(166, "lc", "a2c", set_option("huge", BOTH), set_option("large", BOTH), with_settings),
    Case(166, "lc", "a2c", set_option("x", BOTH, id="none"), set_option("large", BOTH), with_settings),
    Case(163, "MUST", "a2c", set_option("large", BOTH[1:]), set_option("large", BOTH), with_settings),
    Case(163, "NOTE", "a2c", set_option("large", BOTH[:1]), set_option("large", BOTH), with_settings),
    Case(
        164,
        "NOTE",
        "a2c",
        lambda t: t.update("config_option_update", configOptions=BOTH[:1]),
        lambda t: t.update("config_option_update", configOptions=BOTH),
        with_settings,
    ),
]

CASES = [*SESSIONS, *SETTINGS]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_broken_rule_is_found_where_it_is_broken_and_nowhere_else(case: Case) -> None:
    assert_found(case)


def test_talk_in_order_breaks_nothing() -> None:
    talk = with_settings()
    for step in (
        lambda t: t.turn(),
        lambda t: t.answer(set_mode("code")(t)),
        set_option("large", BOTH),
        listed(),
        closed,
    ):
        step(talk)
    assert findings(talk) == []


def test_redacted_recording_is_not_judged_by_its_placeholders() -> None:
    talk = started()
    opened(cwd="xxxx")(talk)
    assert findings(talk, Header(started="x", redacted=True)) == []
    assert brief(findings(talk)) == [(87, "MUST", "c2a")]
