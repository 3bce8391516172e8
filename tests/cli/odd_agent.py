"""An agent with one odd habit, named by its first argument: what `dragoman exec` has to cope with.

Plain Python without the library, so that it starts fast and can break every rule.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HABIT = sys.argv[1] if len(sys.argv) > 1 else "plain"
TEXT = os.environ.get("ODD_TEXT", "")  # what "writes-text-everywhere" writes
NEXT_ID = 100
LATE = ("replays-late", "replays-much-late")
LONG = 20_000_000  # of a message that is accepted
TOO_LONG = 34_000_000  # of one that is not
RESUMED: list[str] = []
PROMPT: list[str] = []
MODE: list[str] = [HABIT.removeprefix("starts-in-").removeprefix("comes-back-in-")]
OPTIONS: dict[str, Any] = {
    "allow_all": "on",
    "auto_approve": True,
    "mode": "https://acp.example/modes#autopilot" if "allow_all" in HABIT else "act",
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        while HABIT == "lingers":
            signal.pause()
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def update(variant: str, **members: Any) -> None:
    send(
        {
            "method": "session/update",
            "params": {"sessionId": RESUMED[0] if RESUMED else "s", "update": {"sessionUpdate": variant, **members}},
        }
    )


def say(text: str, **members: Any) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text}, **members)


def ask(method: str, **params: Any) -> dict[str, Any]:
    global NEXT_ID
    NEXT_ID += 1
    send({"id": NEXT_ID, "method": method, "params": {"sessionId": "s", **params}})
    while True:
        message = receive()
        if message.get("id") == NEXT_ID and "method" not in message:
            return message


def wait_for(method: str) -> None:
    while receive().get("method") != method:
        pass


class Refused(Exception):
    """The answer is an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


def talk_while_working() -> None:
    say("Let me look.")
    update("tool_call", toolCallId="t1", title="Reading", kind="read", status="completed")
    update("agent_thought_chunk", content={"type": "text", "text": "Aha."})
    say("It is ")
    update("agent_thought_chunk", content={"type": "text", "text": "Sure."})
    say("done.")


def listen_to_nothing() -> None:
    say("working")
    while True:
        receive()


def be_done_anyway() -> None:
    say("working")
    wait_for("session/cancel")
    say(" done")


def fail_when_cancelled() -> None:
    say("working")
    wait_for("session/cancel")
    raise Refused(-32603, "'NoneType' object has no attribute 'startswith'")


def leave_children() -> None:
    subprocess.Popen(["sleep", "1000"])
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    say("started")


def show_diffs() -> None:
    for number, (name, old, status) in enumerate(
        [("a.txt", {"oldText": "a\n"}, "completed"), ("b.txt", {}, "completed"), ("c.txt", {}, "failed")]
    ):
        diff = {"type": "diff", "path": f"{os.getcwd()}/{name}", "newText": "b\n", **old}
        update("tool_call", toolCallId=f"t{number}", title=name, kind="edit", status=status, content=[diff])


def write_unasked() -> None:
    answer = ask("fs/write_text_file", path=f"{os.getcwd()}/new.txt", content="made\n")
    say(answer.get("error", {}).get("message", "written"))


def ask_then_fail() -> None:
    call = {"toolCallId": "t1", "title": "Edit x", "kind": "edit"}
    ask("session/request_permission", toolCall=call, options=[{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    raise Refused(-32603, "gave up")


def print_noise() -> None:
    sys.stdout.write("Loading model weights...\n")
    say("clean")


def print_prompt() -> None:
    sys.stdout.write(f"Read: {PROMPT[0]}\n")
    say("clean")


def act_unasked() -> None:
    call = {"toolCallId": "t1", "title": "git push", "kind": "execute", "rawInput": {"command": "git push origin"}}
    update("tool_call", status="in_progress", **call)
    update("tool_call_update", toolCallId="t1", status="completed")
    if HABIT == "acts-until-cancelled":
        wait_for("session/cancel")
        update("agent_message_chunk", content={"type": "text", "text": "stopped"})


def act_like_hermes() -> None:
    """Runs the prompt as Hermes 0.19 shows it: in the title, cut, and as a content that the output replaces."""
    line = PROMPT[0]
    title = f"terminal: {line if len(line) <= 80 else line[:77] + '...'}"
    content = [{"type": "content", "content": {"type": "text", "text": f"$ {line}"}}]
    update("tool_call", toolCallId="tc-1", title=title, kind="execute", status="pending", content=content)
    finish_quietly("tc-1")


def act_by_title() -> None:
    """Runs something that only the title tells of."""
    update("tool_call", toolCallId="t1", title=PROMPT[0], kind="execute", status="in_progress")
    finish_quietly("t1")


def finish_quietly(call: str) -> None:
    output = [{"type": "content", "content": {"type": "text", "text": "done"}}]
    update("tool_call_update", toolCallId=call, kind="execute", status="completed", content=output)
    if HABIT.endswith("until-cancelled"):
        wait_for("session/cancel")
        say("stopped")


def keep_todos() -> None:
    """Keeps a list of steps, which is neither a file nor a command."""
    steps = [{"content": "git push", "status": "pending", "id": "1"}]
    update("tool_call", toolCallId="t1", title="todos", kind="other", status="completed", rawInput={"todos": steps})


def ask_then_act() -> None:
    """Ask, and report the call as completed whatever the answer is: its result is the refusal."""
    call = {"toolCallId": "t1", "title": "git push", "kind": "execute", "rawInput": {"command": "git push origin"}}
    options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
    ask("session/request_permission", toolCall=call, options=options)
    update("tool_call", status="completed", **call)


def ask_for_a_tool() -> None:
    """Ask as agents of frameworks do: by the name of a tool that is neither a file nor a command."""
    call = {"toolCallId": "t1", "title": "Refund 20 EUR", "name": PROMPT[0], "rawInput": {"order": 7}}
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", toolCall=call, options=options)
    say(str(answer["result"]["outcome"].get("optionId")))


def show_other() -> None:
    """Ask for one thing, then have the client do another: as a shell, and as a file."""
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    ask(
        "session/request_permission",
        toolCall={"toolCallId": "1", "kind": "execute", "title": "npm test"},
        options=options,
    )
    ask("terminal/create", command="touch $(echo ran)")
    path = os.path.join(os.getcwd(), "a.txt")
    change = {"type": "diff", "path": path, "oldText": None, "newText": "safe"}
    call = {"toolCallId": "2", "kind": "edit", "title": "Write a.txt", "content": [change]}
    ask("session/request_permission", toolCall=call, options=options)
    ask("fs/write_text_file", path=path, content="evil")
    say("done")


def patch_quietly() -> None:
    """Ask for a patch and for a command as Cline and OpenHands do, which name neither a kind nor an input."""
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    patch = "*** Begin Patch\n*** Add File: .git/hooks/pre-commit\n+id\n*** End Patch\n"
    call = {"toolCallId": "1", "kind": "other", "title": "apply_patch", "rawInput": {"input": patch}}
    first = ask("session/request_permission", toolCall=call, options=options)
    update("tool_call", toolCallId="2", title="Run", kind="execute", rawInput={"command": "rm -r /"})
    confirm = {"toolCallId": "confirm", "kind": "other", "title": "Confirm Agent Actions"}
    second = ask("session/request_permission", toolCall=confirm, options=options)
    say(" ".join(answer["result"]["outcome"].get("optionId", "cancelled") for answer in (first, second)))


def run_prompt() -> None:
    """Runs each line of the prompt in a terminal of the client, and says what came of it."""
    for line in PROMPT[0].splitlines():
        created = ask("terminal/create", command="sh", args=["-c", line])
        if "error" in created:
            say(created["error"]["message"] + "\n")
            continue
        terminal = {"terminalId": created["result"]["terminalId"]}
        ended = ask("terminal/wait_for_exit", **terminal)["result"]
        output = ask("terminal/output", **terminal)["result"]
        ask("terminal/release", **terminal)
        say(json.dumps([ended["exitCode"], output["output"], output["_meta"]["dragoman"]["sandbox"]]) + "\n")


def touch_prompt() -> None:
    """Writes into each file that the prompt names, by itself."""
    for path in PROMPT[0].splitlines():
        try:
            with open(path, "a") as file:
                file.write("changed\n")
            say(f"wrote {path}\n")
        except OSError as error:
            say(f"{error.strerror}: {path}\n")


def remember_always() -> None:
    """Asks for permission, and then writes its settings in the project."""
    call = {"toolCallId": "t1", "title": "npm test", "kind": "execute", "rawInput": {"command": "npm test"}}
    kinds = ("allow_once", "allow_always", "reject_once")
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    ask("session/request_permission", toolCall=call, options=options)
    PROMPT[:] = [os.path.join(os.getcwd(), ".claude", "settings.local.json")]
    touch_prompt()


def touch_and_die() -> None:
    touch_prompt()
    os._exit(3)


def read_like_cline() -> None:
    """Asks for permission to read the file that the prompt names, in the form of a recorded request of cline."""
    files = {"files": [{"path": PROMPT[0]}]}
    call = {"toolCallId": "t1", "title": "read_files: ...", "kind": "read", "status": "pending", "rawInput": files}
    kinds = ("allow_once", "allow_always", "reject_once")
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    answer = ask("session/request_permission", toolCall=call, options=options)
    say(answer["result"]["outcome"].get("optionId", "cancelled"))


def ask_then_touch() -> None:
    """Asks for permission to edit the file that the prompt names, and writes it if that is given."""
    call = {"toolCallId": "t1", "title": "Edit", "kind": "edit", "rawInput": {"path": PROMPT[0]}}
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", toolCall=call, options=options)
    if answer["result"]["outcome"].get("optionId") == "y":
        touch_prompt()


def die_with_open_tools() -> None:
    update("tool_call", toolCallId="t1", title="Compiling\x1b[31m", kind="execute", status="in_progress")
    sys.stderr.write("Traceback: \x1b]0;owned\x07boom\nreally\n")
    sys.stderr.flush()
    os._exit(7)


def write_everywhere() -> None:
    """The text wherever an agent can put one in a turn."""
    say(TEXT)
    update("agent_thought_chunk", content={"type": "text", "text": TEXT})
    update("plan", entries=[{"content": TEXT, "priority": "high", "status": "pending"}])
    update("current_mode_update", currentModeId=TEXT)
    update("session_info_update", title=TEXT)
    update(TEXT)
    send({"method": TEXT, "params": {}})
    send({"id": TEXT, "result": {}})
    update("tool_call", toolCallId=TEXT, title=TEXT, kind="execute", status="failed", rawInput={TEXT: TEXT})
    call = {"toolCallId": "t2", "title": TEXT, "kind": "other"}
    ask("session/request_permission", toolCall=call, options=[{"optionId": TEXT, "name": TEXT, "kind": "allow_once"}])
    update("tool_call", toolCallId="t3", title=TEXT, kind="execute", status="in_progress")
    sys.stderr.write(f"{TEXT}\n{TEXT}\n")
    sys.stderr.flush()
    raise Refused(-32603, TEXT, TEXT)


def write_letters() -> None:
    """The text letter by letter, as models write it, wherever text comes in pieces."""
    for letter in f"{TEXT} {TEXT[:20]}\n":
        update("agent_thought_chunk", content={"type": "text", "text": letter})
    for letter in f"{TEXT} {TEXT[:20]}":
        say(letter)
    update("tool_call", toolCallId="t", title="Run", kind="execute", status="in_progress")
    for letter in f"{TEXT} {TEXT}\n":
        output = {"terminal_output_delta": {"terminal_id": "term", "data": letter}}
        update("tool_call_update", toolCallId="t", _meta=output)
        sys.stderr.write(letter)
        sys.stderr.flush()


def refuse(code: int, message: str, data: Any = None) -> Callable[[], None]:
    def habit() -> None:
        raise Refused(code, message, data)

    return habit


HABITS: dict[str, Callable[[], None]] = {
    "says-auth-later": refuse(-32000, "Token expired"),
    "answers-with-http": refuse(400, "Bad Request", {"status": 400}),
    "talks-while-working": talk_while_working,
    "never-listens": listen_to_nothing,
    "is-done-anyway": be_done_anyway,
    "fails-when-cancelled": fail_when_cancelled,
    "leaves-children": leave_children,
    "shows-diffs": show_diffs,
    "writes-unasked": write_unasked,
    "acts-unasked": act_unasked,
    "acts-until-cancelled": act_unasked,
    "acts-like-hermes": act_like_hermes,
    "acts-by-title": act_by_title,
    "acts-by-title-until-cancelled": act_by_title,
    "keeps-todos": keep_todos,
    "reports-refusals-as-completed": ask_then_act,
    "shows-other": show_other,
    "asks-for-a-tool": ask_for_a_tool,
    "patches-quietly": patch_quietly,
    "writes-in-mode-full": write_unasked,
    "asks-then-fails": ask_then_fail,
    "prints-noise": print_noise,
    "prints-the-prompt": print_prompt,
    "dies-with-open-tools": die_with_open_tools,
    "writes-text-everywhere": write_everywhere,
    "runs-the-prompt": run_prompt,
    "touches-the-prompt": touch_prompt,
    "remembers-always": remember_always,
    "touches-and-dies": touch_and_die,
    "reads-like-cline": read_like_cline,
    "asks-then-touches": ask_then_touch,
    "prints-environment": lambda: say(json.dumps(dict(os.environ))),
    "writes-letters": write_letters,
    "says-much": lambda: say("x" * LONG),
    "says-too-much": lambda: say("x" * TOO_LONG),
    "asks-too-much": lambda: say(str(ask("_odd/ask", text="x" * TOO_LONG)["error"]["message"])),
    "is-killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def work(prompt: list[dict[str, Any]]) -> dict[str, Any]:
    """One turn."""
    PROMPT[:] = ["".join(block.get("text", "") for block in prompt)]
    if HABIT in HABITS:
        HABITS[HABIT]()
    elif HABIT.startswith(("starts-in-", "comes-back-in-")):
        if PROMPT[0] == "die":
            os._exit(3)
        say(f"in mode {MODE[0]}")
    elif HABIT.startswith("has-option-"):
        name = HABIT.removeprefix("has-option-").partition("=")[0]
        say(f"{name}={OPTIONS[name]}; in mode {OPTIONS['mode']}")
    elif RESUMED:
        say(f"resumed {RESUMED[0]}")
    else:
        say("".join(block.get("text", f"[{block['type']}]") for block in prompt))
    if HABIT == "says-too-much":
        return {"stopReason": "end_turn"}
    if HABIT == "answers-too-much":
        return {"stopReason": "end_turn", "_meta": {"text": "x" * TOO_LONG}}
    reason = "_something_new" if HABIT == "stops-oddly" else "end_turn"
    return {"stopReason": reason, "usage": {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}}


def initialize() -> dict[str, Any]:
    if HABIT == "dies-in-initialize":
        sys.stderr.write("no API key\n")
        sys.stderr.flush()
        os._exit(9)
    if HABIT == "never-initializes":
        listen_to_nothing()
    sessions: dict[str, Any] = {}
    if HABIT in ("remembers", "lists-a-folder") or TEXT:
        sessions = {"list": {}, "resume": {}, "delete": {}}
    elif HABIT == "resumes-badly" or HABIT.startswith("comes-back-in-"):
        sessions = {"resume": {}}
    capabilities = {
        "loadSession": HABIT in ("resumes-badly", "only-loads", *LATE),
        "sessionCapabilities": sessions,
    }
    login: list[dict[str, Any]] = [{"id": "key", "name": "API key"}, {"id": "web", "name": "Browser"}]
    if HABIT == "logs-in-on-terminals":
        login = [{"type": "terminal", "id": "tty", "name": "Here", "args": ["--login"], "env": {"WHO": "me"}}]
    elif HABIT == "wants-a-variable":
        login = [{"type": "env_var", "id": "env", "name": "API key", "vars": [{"name": "ODD_KEY"}]}]
    elif HABIT == "takes-a-key":
        key = {"id": "typed", "name": "API key", "_meta": {"api-key": {"provider": "anthropic"}}}
        login = [key, {"id": "gateway", "name": "Gateway", "_meta": {"gateway": {}}}, {"type": "pigeon", "id": "coo"}]
    elif HABIT == "has-no-login":
        login = []
    elif TEXT:
        login = [{"id": TEXT, "name": TEXT, "description": TEXT}]
        info = {"name": TEXT, "title": TEXT, "version": TEXT}
        return {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info, "authMethods": login}
    return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": login}


def new_session() -> dict[str, Any]:
    if HABIT == "wants-login":
        raise Refused(-32000, "Authentication required")
    if HABIT == "writes-in-mode-full":
        modes = {"currentModeId": "full", "availableModes": [{"id": "full", "name": "Full"}]}
        return {"sessionId": "s", "modes": modes}
    if HABIT.startswith(("starts-in-", "comes-back-in-")):
        return {"sessionId": "s", "modes": own_modes()}
    if HABIT.startswith("has-option-"):
        return {"sessionId": "s", "configOptions": permission_options()}
    if HABIT != "has-legacy-models":
        return {"sessionId": "s"}
    models = [{"modelId": "small", "name": "Small"}, {"modelId": "large-2", "name": "Large"}]
    return {"sessionId": "s", "models": {"currentModelId": "small", "availableModels": models}}


def own_modes() -> dict[str, Any]:
    """The modes of an agent; each of its processes begins in the same one."""
    names = ["ask", "accept-edits", "default", "dont_ask", "full-access", "auto-approve"]
    return {"currentModeId": MODE[0], "availableModes": [{"id": name, "name": name} for name in names]}


def permission_options() -> list[dict[str, Any]]:
    """The modes of Copilot or Cline, and the option with which it does not ask."""
    name = HABIT.removeprefix("has-option-").partition("=")[0]
    option: dict[str, Any] = {"id": name, "name": name, "currentValue": OPTIONS[name]}
    prefix = "https://acp.example/modes#" if name == "allow_all" else ""
    if name == "allow_all":
        values = [{"value": value, "name": value} for value in ("on", "off")]
        option |= {"type": "select", "category": "permissions", "options": values}
    else:
        option["type"] = "boolean"
    modes = [{"value": f"{prefix}{id}", "name": id} for id in ("agent", "act", "plan", "autopilot")]
    mode = {"type": "select", "id": "mode", "name": "Mode", "category": "mode", "options": modes}
    return [mode | {"currentValue": OPTIONS["mode"]}, option]


def set_option(params: dict[str, Any]) -> dict[str, Any]:
    OPTIONS[params["configId"]] = params["value"]
    return {"configOptions": permission_options()}


def listed() -> list[dict[str, Any]]:
    """Everything, whatever folder is asked for, and not in the order of time."""
    if TEXT:
        return [{"sessionId": TEXT, "cwd": f"/{TEXT}", "updatedAt": TEXT, "title": TEXT}]
    rows = [("old", "2024-01-01"), ("newest", "2026-01-01"), ("new", "2025-01-01")]
    here = [{"sessionId": name, "cwd": os.getcwd(), "updatedAt": f"{day}T00:00:00Z"} for name, day in rows]
    return [{"sessionId": "elsewhere", "cwd": "/", "updatedAt": "2027-01-01T00:00:00Z", "title": "Other"}, *here]


def set_model(params: dict[str, Any]) -> dict[str, Any]:
    say(f"model {params['modelId']}; ")
    return {}


def authenticate(params: dict[str, Any]) -> dict[str, Any]:
    if TEXT:
        raise Refused(-32603, TEXT)
    if params["methodId"] == "web":
        raise Refused(-32603, "No browser")
    if HABIT == "takes-a-key":
        key = params.get("_meta", {}).get("api-key", {}).get("apiKey", "")
        raise Refused(-32000, f"not a key: {key}")
    return {}


def load(params: dict[str, Any]) -> dict[str, Any]:
    if HABIT not in LATE:
        say("old text")
    return {}


def replay_late() -> None:
    """After the answer to session/load; in real life that takes a while."""
    update("user_message_chunk", content={"type": "text", "text": "old prompt"})
    time.sleep(0.2)
    say("old text" if HABIT == "replays-late" else "x" * LONG)
    update("available_commands_update", availableCommands=[{"name": "help", "description": "Helps"}])


def resume(params: dict[str, Any]) -> dict[str, Any]:
    if HABIT == "resumes-badly":
        raise Refused(-32601, "Method not found")
    RESUMED.append(params["sessionId"])
    return {"modes": own_modes()} if HABIT.startswith("comes-back-in-") else {}


def delete(params: dict[str, Any]) -> dict[str, Any]:
    if TEXT:
        raise Refused(-32603, TEXT)
    return {}


def set_mode(params: dict[str, Any]) -> dict[str, Any]:
    MODE[:] = [params["modeId"]]
    return {}


ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "initialize": lambda params: initialize(),
    "authenticate": authenticate,
    "session/new": lambda params: new_session(),
    "session/set_model": set_model,
    "session/set_mode": set_mode,
    "session/set_config_option": set_option,
    "session/load": load,
    "session/resume": resume,
    "session/list": lambda params: {"sessions": listed() if HABIT != "lists-a-folder" or params.get("cwd") else []},
    "session/delete": delete,
    "session/prompt": lambda params: work(params["prompt"]),
}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    if message["method"] not in ANSWERS:
        raise Refused(-32601, "Method not found")
    return ANSWERS[message["method"]](message["params"])


def log_in() -> None:
    name = input("who are you? ")
    sys.exit(0 if name == os.environ["WHO"] else 3)


def main() -> None:
    if sys.argv[-1] == "--login":
        log_in()
    if HABIT == "dies-at-once":
        sys.stderr.write("cannot find module 'x'\n")
        sys.exit(1)
    if HABIT == "lingers":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        message = receive()
        if "id" not in message or "method" not in message:
            continue
        try:
            send({"id": message["id"], "result": answer(message)})
            if HABIT in LATE and message["method"] == "session/load":
                replay_late()
        except Refused as refused:
            send({"id": message["id"], "error": refused.error})


if __name__ == "__main__":
    main()
