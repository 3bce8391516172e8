"""The scripted model does what prompts ask for, in every dialect, with whatever tools it is offered."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dragoman.conformance.agent.prompts import GENERIC, PRESETS, preset
from tests.interop.model_server.answer import reply_to
from tests.interop.model_server.dialects import chat, gemini, messages, responses
from tests.interop.model_server.intents import Intent, read_intent
from tests.interop.model_server.question import Question, Speech, Tool, ToolUse
from tests.interop.model_server.server import ModelServer
from tests.interop.support import ROOT


def schema(*required: str, **optional: dict[str, Any]) -> dict[str, Any]:
    properties = {**{name: {"type": "string"} for name in required}, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


READ = Tool("read_file", schema("file_path", limit={"type": "integer"}))
WRITE = Tool("Write", schema("file_path", "content"))
EDIT = Tool("replace", schema("file_path", "old_string", "new_string", "instruction"))
SHELL = Tool("bash", schema("command", "description"))
PATCH = Tool("apply_patch", {}, is_free_text=True)
TODOS = Tool("update_plan", schema(plan={"type": "array", "items": schema("step", "status")}))


@pytest.mark.parametrize(
    ("prompt", "intent"),
    [
        ("READ /a/b", Intent("read", path="/a/b")),
        ("<context>\nREAD /old\n</context>\nWRITE /a one two", Intent("write", path="/a", text="one two\n")),
        ("EDIT /a old new", Intent("edit", path="/a", old="old", text="new")),
        ("RUN echo hi > x", Intent("run", command="echo hi > x")),
        ("SLOW", Intent("slow")),
        ("COUNT 7", Intent("count", number=7)),
        ("ERROR", Intent("error", number=400)),
        ("ERROR 503", Intent("error", number=503)),
        ("please READ /a", Intent("say", text="Hello from the scripted model.")),
    ],
)
def test_keyword_at_the_beginning_of_a_line_is_an_intent_and_the_last_one_counts(prompt: str, intent: Intent) -> None:
    assert read_intent(prompt) == intent


ACTIONS = {"long": "count", "tool": "list", "ask": "write", "wait": "run"}


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("scripted", "dragoman")])
def test_everything_the_judge_may_ask_of_a_real_model_is_understood(name: str) -> None:
    for action in GENERIC:
        text = preset(name).text(action, file="/f.txt", cwd="/", command="echo dragoman")
        assert text is not None
        intent = read_intent(f"<reminder>be nice</reminder>\n{text}")
        assert intent.verb == ("run" if (name, action) == ("gemini", "ask") else ACTIONS.get(action, action))
        if intent.verb in ("read", "write", "edit"):
            assert intent.path == "/f.txt"
        if action == "run":
            assert intent.command == "echo dragoman"
    assert read_intent(preset("gemini").text("write", file="/f") or "").tool == "write_file"


def use(prompt: str, *tools: Tool, results: tuple[str, ...] = ()) -> ToolUse:
    [found] = [part for part in reply_to(Question(prompt, tools, results)).parts if isinstance(part, ToolUse)]
    return found


def text_of_reply(prompt: str, *tools: Tool, results: tuple[str, ...] = ()) -> str:
    reply = reply_to(Question(prompt, tools, results))
    assert not reply.uses_tools
    return "".join(part.text for part in reply.parts if isinstance(part, Speech))


def test_tool_is_chosen_among_those_offered_and_its_parameters_are_filled_by_name() -> None:
    assert use("READ /a", SHELL, READ) == ToolUse(READ, {"file_path": "/a"})
    read = use("READ /it's", SHELL)
    assert isinstance(read.arguments, dict)
    assert read.arguments["command"] == "cat '/it'\"'\"'s'"
    assert use("WRITE /a one two", WRITE, SHELL) == ToolUse(WRITE, {"file_path": "/a", "content": "one two\n"})
    assert use("RUN echo hi", READ, SHELL).tool is SHELL


def test_patch_is_written_where_nothing_else_can_change_a_file() -> None:
    written = use("WRITE /a one", SHELL, PATCH)
    assert written == ToolUse(PATCH, "*** Begin Patch\n*** Add File: /a\n+one\n*** End Patch\n")
    changed = use("EDIT /a old new", SHELL, PATCH)
    assert changed == ToolUse(PATCH, "*** Begin Patch\n*** Update File: /a\n@@\n-old\n+new\n*** End Patch\n")


def test_file_is_read_before_it_is_edited() -> None:
    prompt = "EDIT /a old new"
    assert use(prompt, READ, EDIT).tool is READ
    edit = use(prompt, READ, EDIT, results=("old",))
    assert edit.tool is EDIT
    assert isinstance(edit.arguments, dict)
    assert {"file_path": "/a", "old_string": "old", "new_string": "new"}.items() <= edit.arguments.items()
    assert text_of_reply(prompt, READ, EDIT, results=("old", "done it")) == "The tool said: done it"


def test_plan_makes_progress() -> None:
    first, second = (use("PLAN", TODOS, results=results).arguments for results in ((), ("ok",)))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert [step["status"] for step in first["plan"]] == ["completed", "in_progress", "pending"]
    assert [step["status"] for step in second["plan"]] == ["completed", "completed", "in_progress"]


def test_question_outside_the_conversation_is_answered_at_once() -> None:
    assert text_of_reply("Write a title for: SLOW") == "A scripted title"
    wanted = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    [part] = reply_to(Question("SLOW", (), (), wanted)).parts
    assert isinstance(part, Speech)
    assert json.loads(part.text) == {"title": "scripted"}


def test_without_a_fitting_tool_it_says_so() -> None:
    assert text_of_reply("WRITE /a b", READ) == "No tool is offered to write."


# What the agents send, as short as it can be: a prompt after an older turn, then one with the result of a tool.
CHAT_TOOL = {"type": "function", "function": {"name": "read_file", "parameters": READ.schema}}
DIALECTS: dict[str, Any] = {
    "chat": (
        chat,
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "READ /a"}], "tools": [CHAT_TOOL]},
        [{"role": "assistant", "tool_calls": []}, {"role": "tool", "tool_call_id": "1", "content": "alpha"}],
        "messages",
    ),
    "responses": (
        responses,
        "/v1/responses",
        {
            "model": "m",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "READ /a"}]}],
            "tools": [{"type": "function", "name": "read_file", "parameters": READ.schema}],
        },
        [{"type": "function_call"}, {"type": "function_call_output", "call_id": "1", "output": "alpha"}],
        "input",
    ),
    "messages": (
        messages,
        "/v1/messages",
        {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "READ /a"}]}],
            "tools": [{"name": "read_file", "input_schema": READ.schema}],
        },
        [
            {"role": "assistant", "content": []},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "alpha"},
                    {"type": "text", "text": "<system-reminder>be nice</system-reminder>"},
                ],
            },
        ],
        "messages",
    ),
    "gemini": (
        gemini,
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "contents": [{"role": "user", "parts": [{"text": "READ /a"}]}],
            "tools": [{"functionDeclarations": [{"name": "read_file", "parametersJsonSchema": READ.schema}]}],
        },
        [
            {"role": "model", "parts": []},
            {"role": "user", "parts": [{"functionResponse": {"id": "1", "response": {"output": "alpha"}}}]},
        ],
        "contents",
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_request_is_read_as_the_same_question_in_every_dialect(name: str) -> None:
    dialect, _, body, after, turns = DIALECTS[name]
    question: Question = dialect.read(body)
    assert (question.prompt, question.tools, question.results) == ("READ /a", (READ,), ())
    later: Question = dialect.read({**body, turns: [*body[turns], *after]})
    assert later.prompt == "READ /a"
    assert [("alpha" in result) for result in later.results] == [True]


def test_prompt_that_rides_with_the_result_of_a_cancelled_turn_begins_a_new_one() -> None:
    _, _, body, after, turns = DIALECTS["messages"]
    result, _ = after[1]["content"]
    content = [result, {"type": "text", "text": "WRITE /b two"}]
    question = messages.read({**body, turns: [*body[turns], after[0], {"role": "user", "content": content}]})
    assert (question.prompt, question.results) == ("WRITE /b two", ())


def post(server: ModelServer, path: str, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("name", DIALECTS)
def test_answer_is_streamed_in_every_dialect(name: str) -> None:
    _, path, body, _, _ = DIALECTS[name]
    with ModelServer() as server:
        status, text = post(server, path, {**body, "stream": True})
        assert status == 200
        assert text.count("data: ") > 3
        assert "I will use " in text
        assert "read_file" in text
        [exchange] = server.exchanges
        assert exchange.tool_names == ["read_file"]
        assert exchange.question is not None
        assert exchange.question.model == "m"


@pytest.mark.parametrize("name", DIALECTS)
def test_answer_is_given_whole_in_every_dialect(name: str) -> None:
    _, path, body, _, _ = DIALECTS[name]
    with ModelServer() as server:
        path = path.replace(":streamGenerateContent", ":generateContent")
        assert json.loads(post(server, path, body)[1])
        assert post(server, path, json.loads(json.dumps(body).replace("READ /a", "ERROR 429")))[0] == 429


def test_agent_that_hangs_up_is_seen() -> None:
    with ModelServer() as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        body = {"model": "m", "messages": [{"role": "user", "content": "SLOW"}], "tools": [CHAT_TOOL], "stream": True}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        response = connection.getresponse()
        assert b"chat.completion.chunk" in response.readline()
        response.close()
        connection.close()
        assert server.wait_for(lambda exchange: exchange.is_over, 60).has_hung_up


def test_unknown_address_is_refused_and_logged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with ModelServer(log=log) as server:
        assert post(server, "/v1/embeddings", {})[0] == 404
        server.wait_for(lambda exchange: exchange.is_over)
    assert json.loads(log.read_text())["request"] == "POST /v1/embeddings"


def test_server_runs_by_itself_and_says_where() -> None:
    command = [sys.executable, "-m", "tests.interop.model_server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = urlsplit(process.stdout.readline().strip())
            connection = http.client.HTTPConnection(address.netloc, timeout=60)
            connection.request("GET", "/v1/models")
            assert json.loads(connection.getresponse().read())["data"]
            connection.close()
        finally:
            process.terminate()
