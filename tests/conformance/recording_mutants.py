"""Wrong recordings: a fixed list of changes to a conversation that conforms, each with the rule it breaks.

A change is applied to the messages, not to the checks' idea of them, so it shows what a checker of recordings misses.
The lists grow with everything that was missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dragoman.trace.entry import End, Entry, Exit
from tests.conformance.recording_tape import (
    PAGE,
    Body,
    Change,
    Tape,
    all_of,
    at,
    conforming,
    dropped,
    envelope,
    followed,
    moved,
    notice,
    refused,
    request,
    twice,
    updated,
)
from tests.trace.talk import OPTIONS, text


class RecordingMutant(NamedTuple):
    """What is changed, and the finding it must bring."""

    name: str
    rule: int
    side: str
    change: Change
    level: str = "fail"


CHUNK = {"sessionUpdate": "agent_message_chunk", "content": text("late")}


def _agent_leaves_in(turn: int) -> Change:
    """The agent's process ends before the answer to this prompt."""

    def change(tape: Tape) -> None:
        place = tape.find("session/prompt", "result", turn)
        t = tape.time(place)
        tape.entries[place:] = [End(t + 0.1, "a2c"), Exit(t + 0.2, 1)]

    return change


def _gate(path: str, *, of_client: bool) -> Change:
    """A capability that the other side uses is not advertised."""
    head = "clientCapabilities" if of_client else "agentCapabilities"
    return at("initialize", f"{head}.{path}", ..., "params" if of_client else "result")


def _without(name: str) -> Callable[[Body], Body]:
    return lambda body: {key: value for key, value in body.items() if key != name}


OPTION_TWICE = [OPTIONS[0], OPTIONS[0]]

AGENT: list[RecordingMutant] = [
    RecordingMutant(name, rule, "agent", change, level)
    for name, rule, change, level in [
        ("not UTF-8", 1, followed("session/new", "result", "a2c", b'{"jsonrpc":"2.0","method":"_x\xff"}'), "fail"),
        ("a log line on stdout", 6, followed("session/new", "result", "a2c", b"Loading..."), "fail"),
        ("a message on two lines", 6, followed("session/new", "result", "a2c", b'{"jsonrpc":"2.0",'), "fail"),
        ("a batch", 10, followed("session/new", "result", "a2c", b"[]"), "fail"),
        ("an update with an id", 10, envelope("plan", "params", lambda body: {**body, "id": 77}), "fail"),
        ("another jsonrpc", 19, envelope("session/new", "result", lambda body: {**body, "jsonrpc": "1.0"}), "fail"),
        ("an id of another type", 20, envelope("session/new", "result", lambda b: {**b, "id": str(b["id"])}), "fail"),
        ("a result and an error", 22, envelope("session/new", "result", lambda b: {**b, "error": {}}), "fail"),
        ("an error without a message", 23, at("_vendor/unknown", "message", ..., "error"), "fail"),
        (
            "an answer nothing asked for",
            24,
            followed("session/cancel", "params", "a2c", {"jsonrpc": "2.0", "id": 900, "result": {}}),
            "fail",
        ),
        ("answered twice", 25, twice("session/prompt", "result"), "fail"),
        ("a prompt never answered", 25, dropped("session/prompt", "result"), "fail"),
        ("a mode never answered", 25, dropped("session/set_mode", "result"), "fail"),
        ("an option never answered", 25, dropped("session/set_config_option", "result"), "fail"),
        ("session/new never answered", 25, dropped("session/new", "result", 1), "fail"),
        ("session/list never answered", 25, dropped("session/list", "result"), "fail"),
        ("the agent ends in a turn", 25, _agent_leaves_in(1), "fail"),
        ("a key in snake_case", 26, at("agent_message_chunk", "update.message_id", "m"), "fail"),
        ("the version is a string", 37, at("initialize", "protocolVersion", "1", "result"), "fail"),
        ("no version", 37, at("initialize", "protocolVersion", ..., "result"), "fail"),
        ("agentInfo without a version", 46, at("initialize", "agentInfo.version", ..., "result"), "fail"),
        ("no session/new", 53, refused("session/new", -32601), "fail"),
        ("no session/prompt", 53, refused("session/prompt", -32601), "fail"),
        (
            "a marker that is true",
            57,
            at("initialize", "agentCapabilities.sessionCapabilities.list", True, "result"),
            "fail",
        ),
        ("a flag that is a text", 58, at("initialize", "agentCapabilities.loadSession", "yes", "result"), "fail"),
        ("a notice without the capability", 62, _gate("session.notices", of_client=True), "fail"),
        ("a compaction without the capability", 63, _gate("session.compaction", of_client=True), "fail"),
        ("a login without a name", 64, at("initialize", "authMethods.0.name", ..., "result"), "fail"),
        ("a terminal login without the capability", 69, _gate("auth.terminal", of_client=True), "fail"),
        (
            "authenticate answers with a list",
            76,
            envelope("authenticate", "result", lambda b: {**b, "result": []}),
            "fail",
        ),
        ("a session id twice", 85, at("session/new", "sessionId", "s", "result", 1), "fail"),
        (
            "an update before session/new is answered",
            102,
            moved("available_commands_update", "params", "session/new", "params"),
            "warn",
        ),
        ("history after session/load", 107, moved("session/load", "result", "session/load", "params"), "fail"),
        (
            "history on session/resume",
            112,
            followed("session/resume", "params", "a2c", updated("older", **CHUNK)),
            "fail",
        ),
        ("close does not cancel", 116, at("session/prompt", "stopReason", "end_turn", "result", 5), "fail"),
        ("close leaves the prompt open", 116, dropped("session/prompt", "result", 5), "fail"),
        (
            "close answers with a text",
            117,
            envelope("session/close", "result", lambda b: {**b, "result": "ok"}),
            "fail",
        ),
        ("session/list without sessions", 126, at("session/list", "sessions", ..., "result"), "fail"),
        ("a relative cwd is listed", 127, at("session/list", "sessions.0.cwd", "p", "result"), "fail"),
        (
            "delete answers with a text",
            136,
            envelope("session/delete", "result", lambda b: {**b, "result": "ok"}),
            "fail",
        ),
        ("an option without a name", 147, at("session/new", "configOptions.0.name", ..., "result"), "fail"),
        ("a value without a name", 148, at("session/new", "configOptions.0.options.0.name", ..., "result"), "fail"),
        (
            "a current value that is not offered",
            149,
            at("session/new", "configOptions.0.currentValue", "huge", "result"),
            "fail",
        ),
        ("a boolean option without the capability", 150, _gate("session.configOptions", of_client=True), "fail"),
        ("a boolean option with options", 151, at("session/new", "configOptions.1.options", [], "result"), "fail"),
        ("an option without a value", 152, at("session/new", "configOptions.0.currentValue", ..., "result"), "fail"),
        (
            "an incomplete answer to an option",
            163,
            at("session/set_config_option", "configOptions", 5, "result"),
            "fail",
        ),
        ("the current mode is not offered", 170, at("session/new", "modes.currentModeId", "fly", "result"), "fail"),
        (
            "set_mode answers with a list",
            173,
            envelope("session/set_mode", "result", lambda b: {**b, "result": []}),
            "fail",
        ),
        ("modeId instead of currentModeId", 174, at("current_mode_update", "update.currentModeId", ...), "fail"),
        ("an unknown stop reason", 181, at("session/prompt", "stopReason", "done", "result"), "fail"),
        ("a cancelled turn ends as end_turn", 196, at("session/prompt", "stopReason", "end_turn", "result", 3), "fail"),
        (
            "a cancelled turn is never answered",
            196,
            all_of(
                dropped("session/prompt", "result", 3),
                dropped("session/prompt", "params", 4),
                dropped("session/prompt", "error"),
            ),
            "fail",
        ),
        ("a cancelled turn ends with an error", 197, refused("session/prompt", -32603, 3), "fail"),
        (
            "a chunk after a cancelled turn",
            198,
            followed("session/prompt", "result", "a2c", updated("s", **CHUNK), nth=3, seconds=0.03),
            "fail",
        ),
        (
            "a tool call after a cancelled turn",
            198,
            followed(
                "session/prompt",
                "result",
                "a2c",
                updated("s", sessionUpdate="tool_call", toolCallId="t9", title="x"),
                nth=3,
            ),
            "fail",
        ),
        ("$/cancel_request without an id", 201, at("$/cancel_request", "requestId", {}), "fail"),
        ("a cancelled request fails", 204, at("session/prompt", "code", -32603, "error"), "fail"),
        ("a cancelled request is never answered", 204, dropped("session/prompt", "error"), "fail"),
        ("an update without a session", 210, at("plan", "sessionId", ...), "fail"),
        ("an unknown kind of update", 210, at("plan", "update.sessionUpdate", "dance"), "fail"),
        ("an update of a session that never existed", 210, at("agent_thought_chunk", "sessionId", "ghost"), "fail"),
        ("a chunk with a list", 211, at("agent_message_chunk", "update.content", [text()]), "fail"),
        ("negative usage", 215, at("usage_update", "update.used", -1), "fail"),
        ("a currency in words", 216, at("usage_update", "update.cost.currency", "euros"), "fail"),
        ("a title that is a number", 217, at("session_info_update", "update.title", 5), "fail"),
        ("session info with a cwd", 218, at("session_info_update", "update.cwd", "/"), "fail"),
        ("a notice without a title", 219, at("notice", "update.title", ...), "fail"),
        ("a compaction without an id", 222, at("compaction_update", "update.compactionId", ...), "fail"),
        (
            "a compaction begins again",
            223,
            followed(
                "compaction_update",
                "params",
                "a2c",
                updated("s", sessionUpdate="compaction_update", compactionId="c1", status="in_progress"),
                nth=1,
            ),
            "fail",
        ),
        (
            "a summary after its compaction",
            224,
            moved("compaction_summary_chunk", "params", "compaction_update", "params", 0, 1),
            "fail",
        ),
        ("an unknown block", 228, at("agent_message_chunk", "update.content.type", "hologram"), "fail"),
        ("a text block without text", 230, at("agent_message_chunk", "update.content.text", ...), "fail"),
        ("an image that is not base64", 231, at("agent_message_chunk", "update.content.data", "%%", nth=2), "fail"),
        ("audio that is not base64", 232, at("agent_message_chunk", "update.content.data", "%%", nth=3), "fail"),
        (
            "a resource without content",
            233,
            at("agent_message_chunk", "update.content.resource.text", ..., nth=4),
            "fail",
        ),
        ("a link without a name", 234, at("agent_message_chunk", "update.content.name", ..., nth=5), "fail"),
        (
            "an audience of robots",
            235,
            at("agent_message_chunk", "update.content.annotations", {"audience": ["robots"]}),
            "fail",
        ),
        ("a tool call without a title", 239, at("tool_call", "update.title", ...), "fail"),
        (
            "a tool call id again",
            239,
            all_of(
                at("tool_call", "update.toolCallId", "t1", nth=2),
                at("session/request_permission", "toolCall.toolCallId", "t1", nth=1),
            ),
            "fail",
        ),
        ("an unknown kind of tool", 240, at("tool_call", "update.kind", "dance"), "fail"),
        ("an unknown status", 241, at("tool_call_update", "update.status", "cancelled"), "fail"),
        ("a tool update without an id", 242, at("tool_call_update", "update.toolCallId", ...), "fail"),
        ("a tool update before its call", 243, dropped("tool_call", "params", 1), "warn"),
        ("content that is not wrapped", 245, at("tool_call_update", "update.content", [text()], nth=1), "fail"),
        ("a relative path in a diff", 246, at("tool_call_update", "update.content.0.path", "a", nth=1), "fail"),
        ("a relative location", 248, at("tool_call", "update.locations.0.path", "a"), "fail"),
        ("line 0", 248, at("tool_call", "update.locations.0.line", 0), "fail"),
        ("a permission without a tool call", 253, at("session/request_permission", "toolCall", ...), "fail"),
        ("an option id twice", 254, at("session/request_permission", "options", OPTION_TWICE), "fail"),
        ("an option of an unknown kind", 254, at("session/request_permission", "options.0.kind", "maybe"), "fail"),
        ("a plan entry without a priority", 263, at("plan", "update.entries.0.priority", ...), "fail"),
        (
            "a command without a description",
            269,
            at("available_commands_update", "update.availableCommands.0.description", ...),
            "fail",
        ),
        ("reads without the capability", 272, _gate("fs.readTextFile", of_client=True), "fail"),
        ("writes without the capability", 272, _gate("fs.writeTextFile", of_client=True), "fail"),
        ("a relative path to read", 273, at("fs/read_text_file", "path", "a"), "fail"),
        ("line 0 to read", 274, at("fs/read_text_file", "line", 0), "fail"),
        ("a limit in words", 275, at("fs/read_text_file", "limit", "all"), "fail"),
        ("a terminal without the capability", 282, _gate("terminal", of_client=True), "fail"),
        ("env as an object", 283, at("terminal/create", "env", {"A": "b"}), "fail"),
        (
            "the agent leaves a terminal behind",
            292,
            all_of(dropped("terminal/release", "result"), dropped("terminal/release"), _agent_leaves_in(2)),
            "fail",
        ),
        ("a form without the capability", 298, _gate("elicitation.form", of_client=True), "fail"),
        ("a question with two scopes", 302, at("elicitation/create", "requestId", 1), "fail"),
        ("a form with a deep schema", 303, at("elicitation/create", "requestedSchema.properties", 5), "fail"),
        ("a page without an address", 304, at("elicitation/create", "url", ..., nth=1), "fail"),
        (
            "a page id twice",
            316,
            followed("elicitation/create", "params", "a2c", request("elicitation/create", PAGE), nth=1),
            "fail",
        ),
        ("complete without an id", 318, at("elicitation/complete", "elicitationId", ...), "fail"),
        ("a password in the address", 320, at("elicitation/create", "url", "https://a:b@example.org/", nth=1), "fail"),
        ("_meta that is a number", 327, at("agent_message_chunk", "update._meta", 5), "fail"),
        ("a member of its own", 329, at("agent_message_chunk", "update.colour", "red"), "warn"),
        ("a member of its own with _", 329, at("agent_message_chunk", "update._colour", "red"), "fail"),
        (
            "a method of its own without _",
            331,
            followed("session/prompt", "params", "a2c", notice("vendor/progress", {})),
            "fail",
        ),
        (
            "a request of its own without _",
            331,
            followed("session/prompt", "params", "a2c", request("craft/ask", {})),
            "fail",
        ),
        ("-32700 for a request that was read", 337, at("_vendor/unknown", "code", -32700, "error"), "fail"),
        (
            "-32603 for params that do not fit",
            337,
            all_of(at("session/set_mode", "modeId", 5), refused("session/set_mode", -32603)),
            "warn",
        ),
        ("a code of its own in the reserved range", 340, at("_vendor/unknown", "code", -32050, "error"), "warn"),
    ]
]

CLIENT: list[RecordingMutant] = [
    RecordingMutant(name, rule, "client", change, level)
    for name, rule, change, level in [
        ("a log line to the agent", 7, followed("session/new", "params", "c2a", b"hello"), "fail"),
        ("a batch", 10, followed("session/new", "result", "c2a", b"[]"), "fail"),
        ("another jsonrpc", 19, envelope("session/list", "params", lambda b: {**b, "jsonrpc": "1.0"}), "fail"),
        (
            "an id of another type",
            20,
            envelope("fs/read_text_file", "result", lambda b: {**b, "id": str(b["id"])}),
            "fail",
        ),
        ("neither result nor error", 22, envelope("fs/read_text_file", "result", _without("result")), "fail"),
        (
            "an error that is a text",
            23,
            envelope("fs/read_text_file", "result", lambda b: {"jsonrpc": "2.0", "id": b["id"], "error": "no"}),
            "fail",
        ),
        (
            "an answer to an update",
            24,
            followed("plan", "params", "c2a", {"jsonrpc": "2.0", "id": 901, "result": {}}),
            "fail",
        ),
        ("answered twice", 25, twice("fs/read_text_file", "result"), "fail"),
        ("a read never answered", 25, dropped("fs/read_text_file", "result"), "fail"),
        ("a terminal never answered", 25, dropped("terminal/kill", "result"), "fail"),
        ("a permission never answered", 25, dropped("session/request_permission", "result"), "fail"),
        ("session/new before initialize", 33, moved("initialize", "params", "session/new", "result"), "fail"),
        (
            "authenticate before initialize is answered",
            34,
            followed("initialize", "params", "c2a", request("authenticate", {"methodId": "key"})),
            "fail",
        ),
        ("the version is a text", 37, at("initialize", "protocolVersion", "1"), "fail"),
        ("a flag that is a text", 58, at("initialize", "clientCapabilities.terminal", "yes"), "fail"),
        ("an unknown login", 67, at("authenticate", "methodId", "magic"), "fail"),
        ("a terminal login by authenticate", 68, at("authenticate", "methodId", "tty"), "fail"),
        ("logout without the capability", 79, _gate("auth.logout", of_client=False), "fail"),
        ("session/new without servers", 84, at("session/new", "mcpServers", ...), "fail"),
        ("a prompt in a session that is not open", 86, at("session/prompt", "sessionId", "none", nth=1), "fail"),
        ("a relative cwd", 87, at("session/new", "cwd", "p"), "fail"),
        (
            "an HTTP server without the capability",
            96,
            all_of(
                _gate("mcpCapabilities.http", of_client=False),
                at("session/new", "mcpServers", [{"type": "http", "name": "x", "url": "http://x", "headers": []}]),
            ),
            "fail",
        ),
        (
            "a server with env as an object",
            98,
            at("session/new", "mcpServers", [{"name": "x", "command": "/x", "args": [], "env": {}}]),
            "fail",
        ),
        (
            "an HTTP server without headers",
            99,
            at("session/new", "mcpServers", [{"type": "http", "name": "x", "url": "http://x"}]),
            "fail",
        ),
        ("load without the capability", 104, _gate("loadSession", of_client=False), "fail"),
        ("load without a cwd", 105, at("session/load", "cwd", ...), "fail"),
        ("resume without the capability", 110, _gate("sessionCapabilities.resume", of_client=False), "fail"),
        ("resume without a cwd", 111, at("session/resume", "cwd", ...), "fail"),
        ("close without the capability", 114, _gate("sessionCapabilities.close", of_client=False), "fail"),
        ("close without a session", 115, at("session/close", "sessionId", ...), "fail"),
        ("list without the capability", 122, _gate("sessionCapabilities.list", of_client=False), "fail"),
        ("a relative filter", 124, at("session/list", "cwd", "p"), "fail"),
        ("a cursor of its own", 129, at("session/list", "cursor", "mine", nth=1), "fail"),
        ("delete without the capability", 135, _gate("sessionCapabilities.delete", of_client=False), "fail"),
        (
            "directories without the capability",
            140,
            all_of(
                _gate("sessionCapabilities.additionalDirectories", of_client=False),
                at("session/new", "additionalDirectories", ["/q"]),
            ),
            "fail",
        ),
        ("a relative directory", 141, at("session/new", "additionalDirectories", ["q"]), "fail"),
        ("an option without its id", 162, at("session/set_config_option", "configId", ...), "fail"),
        ("a mode that is not offered", 171, at("session/set_mode", "modeId", "fly"), "fail"),
        (
            "an image without the capability",
            177,
            all_of(
                _gate("promptCapabilities.image", of_client=False),
                at("session/prompt", "prompt", [{"type": "image", "data": "AA", "mimeType": "image/png"}]),
            ),
            "fail",
        ),
        ("a prompt that is a text", 178, at("session/prompt", "prompt", "hi"), "fail"),
        (
            "a prompt before the last one is answered",
            187,
            moved("session/prompt", "result", "session/prompt", "params", 0, 1),
            "warn",
        ),
        (
            "a permission after a cancel",
            194,
            envelope(
                "session/request_permission",
                "result",
                lambda b: {**b, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}},
                1,
            ),
            "fail",
        ),
        (
            "an outcome that is not nested",
            255,
            envelope(
                "session/request_permission",
                "result",
                lambda b: {**b, "result": {"outcome": "selected", "optionId": "y"}},
            ),
            "fail",
        ),
        (
            "an option that was not offered",
            256,
            at("session/request_permission", "outcome.optionId", "z", "result"),
            "fail",
        ),
        ("no permission requests", 259, refused("session/request_permission", -32601), "warn"),
        ("a file without content", 277, at("fs/read_text_file", "content", ..., "result"), "fail"),
        ("output without truncated", 288, at("terminal/output", "truncated", ..., "result"), "fail"),
        ("an exit code in words", 289, at("terminal/wait_for_exit", "exitCode", "zero", "result"), "fail"),
        ("content with a decline", 312, all_of(at("elicitation/create", "action", "decline", "result")), "fail"),
        ("a member of its own", 329, at("session/prompt", "colour", "red"), "warn"),
        (
            "a method of its own without _",
            331,
            followed("session/new", "result", "c2a", request("vendor/hello", {})),
            "fail",
        ),
    ]
]

MUTANTS = AGENT + CLIENT


def mutated(mutant: RecordingMutant) -> list[Entry]:
    """The conversation with this change."""
    tape = Tape(conforming().entries)
    mutant.change(tape)
    return tape.entries
