"""Wrong agents for the rules that are watched in all traffic: which case to play, and what is wrong while it runs.

One row per rule that is watched according to the coverage table. The case only brings the traffic about; it may well
fail too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.conformance.mutants_session import BY_AREA as SESSION
from tests.conformance.mutants_session import drop, ignores_capabilities, put
from tests.conformance.mutants_turn import BY_AREA as TURN
from tests.conformance.mutants_wire import BY_AREA as WIRE
from tests.conformance.tamper import Body, Mutation, Wire, asked, code, reply, response, result, update


class Played(NamedTuple):
    """A mutation, and the case that makes it show."""

    case: str
    mutation: Mutation


def _raw(line: bytes) -> Mutation:
    """Writes a line of its own before the answer to session/new."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") == "session/new":
            wire.send(line)
        return None

    return Mutation(sent=sent)


def _envelope(change: Any) -> Mutation:
    """Changes the whole answer to session/new."""
    return response("session/new", change)


def _without_version(body: Body) -> None:
    body["jsonrpc"] = "1.0"


def _both(body: Body) -> None:
    body["error"] = {"code": -32603, "message": "and a result"}


def _error_without_message(body: Body) -> Body:
    return {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32603}}


def _null_ids() -> Mutation:
    """Asks with the id null, and takes the answer for its own."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if "method" not in body or "id" not in body:
            return None
        wire.notes["id"] = body["id"]
        return [{**body, "id": None}]

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body or body.get("id") is not None or "id" not in wire.notes:
            return None
        return [{**body, "id": wire.notes["id"]}]

    return Mutation(sent=sent, came=came)


def _init(**members: Any) -> Mutation:
    return result("initialize", put(**members))


def _new(change: Any) -> Mutation:
    return result("session/new", lambda value: change(value) and None)


def _block(kind: str, **members: Any) -> Mutation:
    def change(each: Body) -> None:
        if each["content"]["type"] == kind:
            each["content"].update(members)

    return update("agent_message_chunk", change)


def _tool(**members: Any) -> Mutation:
    return update("tool_call", put(**members))


def _cancel_request(params: Body) -> None:
    params["requestId"] = {"id": params["requestId"]}


def _summary_after_end() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        if each.get("sessionUpdate") != "compaction_update" or each.get("status") != "completed":
            return None
        chunk = {"type": "text", "text": "late"}
        summary = {"sessionUpdate": "compaction_summary_chunk", "compactionId": each["compactionId"], "content": chunk}
        return [body, {**body, "params": {**body["params"], "update": summary}}]

    return Mutation(sent=sent)


def _piece_of_ended_message() -> Mutation:
    """The last piece of a message comes after the answer, with the id of the message."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        if each.get("sessionUpdate") == "agent_message_chunk":
            wire.notes["last"] = body
        if wire.request_of(body).get("method") == "session/prompt" and "last" in wire.notes:
            return [body, wire.notes["last"]]
        return None

    return Mutation(sent=sent)


def _tool_of_ended_turn() -> Mutation:
    """The tool call of a cancelled turn is reported after its answer."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        if each.get("sessionUpdate") == "tool_call_update":
            wire.notes["last"] = body
        if wire.request_of(body).get("method") == "session/prompt" and "last" in wire.notes:
            return [body, wire.notes["last"]]
        return None

    return Mutation(sent=sent)


def _goodbye(wire: Wire) -> bool:
    wire.send(b"Goodbye.")
    return True


def _speaks_after_cancel() -> Mutation:
    """A piece of text without an id comes after the answer to a cancelled turn."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("result", {}) and body["result"].get("stopReason") == "cancelled":
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "late"}}
            session_id = wire.request_of(body)["params"]["sessionId"]
            params = {"sessionId": session_id, "update": chunk}
            return [body, {"jsonrpc": "2.0", "method": "session/update", "params": params}]
        return None

    return Mutation(sent=sent)


def _ghost(params: Body) -> None:
    if params["update"]["sessionUpdate"] == "agent_message_chunk":
        params["sessionId"] = "ghost"


SAY = "agent/prompt/stop-reason"
NEW = "agent/session/new"
TOOL = "agent/tool-calls/reported"
CONTENT = "agent/updates/content"
ASK = "agent/permission/shape"
FORM = "agent/elicitation/form"
PAGE = "agent/elicitation/page"
RUN = "agent/terminals/create"
HELLO = "agent/initialize/capability-types"

PASSIVE: dict[int, Played] = {
    1: Played(NEW, _raw(b'{"jsonrpc":"2.0","method":"_x","params":{"text":"\xff"}}')),
    6: Played(NEW, _raw(b"Loading model weights...")),
    10: Played(NEW, _raw(b"[]")),
    19: Played(NEW, _envelope(_without_version)),
    20: Played("agent/envelope/id-number", WIRE["envelope"]["id-number"]),
    21: Played(ASK, _null_ids()),
    22: Played(NEW, _envelope(_both)),
    23: Played(NEW, _envelope(_error_without_message)),
    24: Played(NEW, _raw(b'{"jsonrpc":"2.0","id":"unknown","result":{}}')),
    25: Played("agent/cancel/twice", TURN["cancel"]["twice"]),
    26: Played(SAY, update("agent_message_chunk", lambda each: each.update(message_id="m"))),
    28: Played("agent/envelope/unknown-method", code(-32601, -32603)),
    35: Played("agent/initialize/first", SESSION["initialize"]["first"]),
    37: Played("agent/initialize/version-type", _init(protocolVersion="1")),
    40: Played(RUN, asked("terminal/wait_for_exit", put(terminalId=5))),
    42: Played("agent/initialize/answers", result("initialize", lambda value: [])),
    45: Played("agent/initialize/agent-info", SESSION["initialize"]["agent-info"]),
    46: Played(HELLO, result("initialize", lambda value: value["agentInfo"].pop("version") and None)),
    53: Played("agent/capabilities/baseline", SESSION["capabilities"]["baseline"]),
    57: Played(HELLO, SESSION["initialize"]["capability-types"]),
    58: Played(HELLO, result("initialize", lambda value: value["agentCapabilities"].update(loadSession="yes"))),
    61: Played("agent/capabilities/unadvertised-refused", SESSION["capabilities"]["unadvertised-refused"]),
    62: Played("agent/capabilities/without-notices", ignores_capabilities()),
    63: Played("agent/capabilities/without-compaction", ignores_capabilities()),
    64: Played("agent/authentication/method-shape", SESSION["authentication"]["method-shape"]),
    69: Played("agent/authentication/terminal-gated", SESSION["authentication"]["terminal-gated"]),
    74: Played(
        "agent/authentication/terminal-shape",
        result("initialize", lambda value: value["authMethods"][-1].update(env=[{"name": "A", "value": "b"}])),
    ),
    76: Played("agent/authentication/succeeds", result("authenticate", lambda _: [])),
    85: Played("agent/session/unique-ids", SESSION["session"]["unique-ids"]),
    102: Played("agent/session/response-first", SESSION["session"]["response-first"]),
    107: Played("agent/load/response-last", SESSION["load"]["response-last"]),
    109: Played("agent/load/result", SESSION["load"]["result"]),
    112: Played("agent/resume/no-replay", SESSION["resume"]["no-replay"]),
    117: Played("agent/close/result", result("session/close", lambda _: "closed")),
    119: Played("agent/prompt/unknown-session", code(-32002, -32603)),
    125: Played("agent/list/filter", SESSION["list"]["filter"]),
    126: Played("agent/list/empty", SESSION["list"]["empty"]),
    127: Played("agent/list/shape", SESSION["list"]["shape"]),
    136: Played("agent/delete/result", result("session/delete", lambda _: "deleted")),
    137: Played("agent/delete/gone", SESSION["delete"]["gone"]),
    147: Played("agent/options/shape", SESSION["options"]["shape"]),
    148: Played("agent/options/shape", _new(lambda value: value["configOptions"][0]["options"][0].pop("name"))),
    149: Played("agent/options/current-offered", SESSION["options"]["current-offered"]),
    150: Played("agent/capabilities/without-boolean-options", ignores_capabilities()),
    151: Played("agent/options/shape", _new(lambda value: value["configOptions"][2].update(options=[]))),
    152: Played("agent/options/shape", _new(lambda value: value["configOptions"][0].pop("currentValue"))),
    157: Played("agent/options/categories", SESSION["options"]["categories"]),
    163: Played("agent/options/complete-answer", result("session/set_config_option", put(configOptions=[]))),
    164: Played("agent/options/complete-update", update("config_option_update", put(configOptions=5))),
    166: Played(
        "agent/options/unknown-option",
        response("session/set_config_option", lambda body: reply(body, {"configOptions": []})),
    ),
    167: Played("agent/options/mode-in-step", SESSION["options"]["mode-in-step"]),
    170: Played("agent/modes/shape", SESSION["modes"]["shape"]),
    172: Played("agent/modes/unknown-mode", SESSION["modes"]["unknown-mode"]),
    173: Played("agent/modes/set", result("session/set_mode", lambda _: [])),
    174: Played("agent/modes/update", SESSION["modes"]["update"]),
    181: Played(SAY, TURN["prompt"]["stop-reason"]),
    185: Played(SAY, _piece_of_ended_message()),
    196: Played("agent/cancel/permission-open", TURN["cancel"]["permission-open"]),
    197: Played("agent/cancel/permission-open", TURN["cancel"]["in-tool"]),
    198: Played("agent/cancel/streaming", _tool_of_ended_turn()),
    201: Played("agent/cancel/cascades", asked("$/cancel_request", _cancel_request)),
    204: Played("agent/cancel/request", TURN["cancel"]["request"]),
    210: Played(SAY, asked("session/update", drop("sessionId"))),
    211: Played("agent/updates/thought", TURN["updates"]["thought"]),
    215: Played("agent/updates/usage", update("usage_update", put(used=-1))),
    216: Played("agent/updates/usage", TURN["updates"]["usage"]),
    217: Played("agent/updates/session-info", update("session_info_update", put(title=5))),
    218: Played("agent/updates/session-info", TURN["updates"]["session-info"]),
    219: Played("agent/updates/notice", TURN["updates"]["notice"]),
    220: Played("agent/load/no-notices", SESSION["load"]["no-notices"]),
    222: Played("agent/updates/compaction", update("compaction_update", drop("compactionId"))),
    223: Played("agent/updates/compaction", TURN["updates"]["compaction"]),
    224: Played("agent/updates/compaction", _summary_after_end()),
    228: Played(CONTENT, _block("image", type="hologram")),
    230: Played(CONTENT, _block("text", text=5)),
    231: Played(CONTENT, _block("image", data="%%%")),
    232: Played(CONTENT, _block("audio", data="%%%")),
    233: Played(CONTENT, _block("resource", resource={"uri": "file:///x"})),
    234: Played(CONTENT, _block("resource_link", name=5)),
    235: Played(CONTENT, _block("text", annotations={"audience": ["robots"]})),
    239: Played("agent/tool-calls/unique-ids", TURN["tool-calls"]["unique-ids"]),
    240: Played(TOOL, _tool(kind="dance")),
    241: Played(TOOL, _tool(status="cancelled")),
    242: Played(TOOL, update("tool_call_update", drop("toolCallId"))),
    243: Played("agent/tool-calls/announced-once", TURN["tool-calls"]["announced-once"]),
    245: Played(TOOL, _tool(content=[{"type": "text", "text": "not wrapped"}])),
    246: Played("agent/tool-calls/diff", TURN["tool-calls"]["diff"]),
    248: Played("agent/tool-calls/locations", TURN["tool-calls"]["locations"]),
    250: Played(TOOL, _tool(name=5)),
    251: Played("agent/terminals/shown-before-release", TURN["terminals"]["shown-before-release"]),
    253: Played(ASK, asked("session/request_permission", put(toolCall=5))),
    254: Played(
        ASK, asked("session/request_permission", lambda params: params["options"].append(params["options"][0]))
    ),
    263: Played("agent/updates/plan", TURN["updates"]["plan"]),
    269: Played("agent/updates/commands", TURN["updates"]["commands"]),
    272: Played("agent/capabilities/without-files", ignores_capabilities()),
    273: Played("agent/files/write", asked("fs/write_text_file", put(path="notes.txt"))),
    274: Played("agent/files/read", asked("fs/read_text_file", put(line=0))),
    275: Played("agent/files/read", asked("fs/read_text_file", put(limit="all"))),
    282: Played("agent/capabilities/without-terminal", ignores_capabilities()),
    283: Played(RUN, asked("terminal/create", put(args="-c true"))),
    284: Played("agent/terminals/command-is-a-program", TURN["terminals"]["command-is-a-program"]),
    298: Played("agent/capabilities/form-only", ignores_capabilities()),
    302: Played(FORM, asked("elicitation/create", put(requestId=1))),
    303: Played(FORM, asked("elicitation/create", lambda params: params["requestedSchema"].update(properties=5))),
    304: Played(PAGE, asked("elicitation/create", put(url=5))),
    316: Played("agent/elicitation/unique-ids", TURN["elicitation"]["unique-ids"]),
    318: Played("agent/elicitation/completed", asked("elicitation/complete", put(elicitationId=5))),
    320: Played(PAGE, asked("elicitation/create", put(url="https://ada:secret@example.org/"))),
    327: Played(SAY, update("agent_message_chunk", put(_meta=5))),
    329: Played(SAY, update("agent_message_chunk", put(colour="red"))),
    331: Played(NEW, _raw(b'{"jsonrpc":"2.0","method":"craft/progress","params":{}}')),
    337: Played("agent/envelope/unknown-method", code(-32601, -32700)),
    340: Played("agent/envelope/unknown-method", code(-32601, -32099)),
    342: Played("agent/prompt/unknown-session", response("session/prompt", lambda body: drop("data")(body["error"]))),
    343: Played("agent/errors/short-message", WIRE["errors"]["short-message"]),
}

ESCAPES: list[tuple[str, int, Played]] = [
    ("prints when its input ends", 6, Played(NEW, Mutation(at_end=_goodbye))),
    ("prints when its input ends in a turn", 6, Played("agent/transport/exit-in-turn", Mutation(at_end=_goodbye))),
    ("a request without _", 331, Played(NEW, _raw(b'{"jsonrpc":"2.0","id":"q","method":"craft/ask","params":{}}'))),
    ("updates of a session that never existed", 210, Played(SAY, asked("session/update", _ghost))),
    ("speaks after a cancelled turn, without an id", 198, Played("agent/cancel/streaming", _speaks_after_cancel())),
    ("a member of its own with _", 329, Played(SAY, update("agent_message_chunk", put(_colour="red")))),
]
"""Wrong agents that were once missed: what is wrong, the rule it breaks, and the case that makes it show."""
