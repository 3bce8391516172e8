"""Every recording of the real codex projects to valid updates that say what the recording itself says.

What is expected is read from another part of the recording: finished items where chunks came from deltas, the answers
that the recorded client gave, the ends of turns.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.adapters.codex.choices import Choices, choices_of, models_of, settings_of, turn_params
from dragoman.adapters.codex.events import CodexEvents
from dragoman.adapters.codex.history import messages_of
from dragoman.adapters.codex.items import unwrapped
from dragoman.adapters.codex.messages import CodexQuestion
from dragoman.adapters.codex.notes import ThreadNotes
from dragoman.adapters.codex.questions import command_offers, mcp_offers
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart, ToolPart
from dragoman.uistream.unfold import replay
from dragoman.uistream.updates import Projector
from tests.adapters.fixtures import RECORDINGS
from tests.adapters.stories import Story, story_of

FILES = {"/home/user/project/a.txt": "one\nalpha\nthree\n"}
OUTCOMES = {"completed": "completed", "failed": "failed", "declined": "failed"}


class RecordedTurn(Struct):
    """One turn: what the program sent in it, and the answers that it got."""

    thread: str
    id: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)

    def items(self, kind: str, method: str = "item/completed") -> list[dict[str, Any]]:
        found = [each["params"]["item"] for each in self.messages if each.get("method") == method]
        return [item for item in found if item["type"] == kind]

    @property
    def status(self) -> str | None:
        ends = [each for each in self.messages if each.get("method") == "turn/completed"]
        return ends[0]["params"]["turn"]["status"] if ends else None


def recordings(*names: str) -> list[Any]:
    files = sorted((RECORDINGS / "codex").glob("*.jsonl"))
    files = [path for path in files if not names or path.stem in names or any(path.match(name) for name in names)]
    if not files:
        reason = f"no recordings in {RECORDINGS}"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no recordings")]
    return [pytest.param(path, id=path.stem) for path in files]


APP_SERVER = ("main", "patch-model", "known-model", "code-mode", "mcp", "resume")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def turns_of(path: Path) -> list[RecordedTurn]:
    turns: dict[str, RecordedTurn] = {}
    asked: dict[int, str] = {}
    for line in lines(path):
        message = line.get("msg") or {}
        params = message.get("params") or {}
        turn_id = params.get("turnId") or (params.get("turn") or {}).get("id")
        if line["dir"] == "in" and "result" in message and message["id"] in asked:
            turns[asked[message["id"]]].answers[message["id"]] = message["result"]
        if line["dir"] != "out" or turn_id is None or "method" not in message:
            continue
        turn = turns.setdefault(turn_id, RecordedTurn(params["threadId"], turn_id))
        turn.messages.append(message)
        if "id" in message:
            asked[message["id"]] = turn_id
    return [turn for turn in turns.values() if any(each["method"] == "turn/started" for each in turn.messages)]


def chunks_of(turn: RecordedTurn, notes: ThreadNotes) -> Iterator[c.Chunk]:
    """The chunks of a turn, with the answers that the recorded client gave."""
    events = CodexEvents(notes, read=FILES.get)
    for message in turn.messages:
        if "id" not in message:
            yield from events.feed(message["method"], message["params"])
            continue
        question = CodexQuestion(message["id"], message["method"], message["params"])
        call = question.params.get("itemId") or events.call_of(
            question.params["serverName"], question.params["_meta"]["tool_params"]
        )
        assert call is not None
        assert events.item(call) is not None, "a question is about a call that runs"
        yield c.ToolApprovalRequest(f"q{question.id}", call)
        answer = turn.answers.get(message["id"])
        if answer is not None:
            given = answer.get("decision") or answer.get("action")
            yield c.ToolApprovalResponse(f"q{question.id}", given not in ("decline", "cancel"))
    yield from events.close()
    events.end()


@pytest.mark.parametrize("path", recordings(*APP_SERVER))
def test_a_recorded_turn_shows_what_its_items_say(path: Path) -> None:
    notes = ThreadNotes()
    turns = turns_of(path)
    assert turns
    for turn in turns:
        projector = Projector()
        shown = story_of(chunks_of(turn, notes), projector)
        finished = "".join(item["text"] for item in turn.items("agentMessage"))
        begun = turn.items("agentMessage", "item/started")
        if len(begun) == len(turn.items("agentMessage")):
            assert shown.text == finished
        else:  # a message broke off, because the turn was steered or interrupted
            assert finished in shown.text
            deltas = [each for each in turn.messages if each["method"] == "item/agentMessage/delta"]
            assert shown.text == "".join(each["params"]["delta"] for each in deltas)
        thoughts = "".join(text for item in turn.items("reasoning") for text in item["summary"])
        assert thoughts in shown.thoughts
        _check_calls(turn, shown)
        usages = [each for each in turn.messages if each["method"] == "thread/tokenUsage/updated"]
        if usages:
            assert notes.used == usages[-1]["params"]["tokenUsage"]["last"]["totalTokens"]


def _check_calls(turn: RecordedTurn, shown: Story) -> None:
    begun = {
        item["id"]: item
        for kind in ("commandExecution", "fileChange", "mcpToolCall")
        for method in ("item/started", "item/completed")
        for item in turn.items(kind, method)
    }
    compactions = {item["id"] for item in turn.items("contextCompaction")}
    assert set(shown.calls) - compactions == set(begun)
    for item_id, item in begun.items():
        title, given, statuses = shown.calls[item_id]
        assert statuses[0] == "pending"
        assert statuses.count("in_progress") <= 1
        if item["status"] in OUTCOMES:
            assert statuses[-1] == OUTCOMES[item["status"]]
        if item["type"] == "commandExecution":
            assert given["command"] == unwrapped(item["command"])
            assert given["command"] in item["commandActions"][0]["command"] or title.startswith("Read ")
        if item["type"] == "fileChange":
            assert title.split()[-1] == Path(item["changes"][0]["path"]).name


@pytest.mark.parametrize("path", recordings("patch-model", "code-mode"))
def test_a_recorded_change_is_a_diff_of_the_whole_file(path: Path) -> None:
    seen = 0
    for turn in turns_of(path):
        projector = Projector()
        for chunk in chunks_of(turn, ThreadNotes()):
            projector.project(chunk)
        for item in turn.items("fileChange", "item/started"):
            [diff] = [each for each in projector.calls.patch(item["id"]).content or () if isinstance(each, v1.Diff)]
            if item["changes"][0]["kind"]["type"] == "add":
                assert (diff.old_text, diff.new_text) == (None, item["changes"][0]["diff"])
            else:
                assert (diff.old_text, diff.new_text) == (FILES[diff.path], "one\nomega\nthree\n")
            seen += 1
    assert seen


@pytest.mark.parametrize("path", recordings("main"))
def test_a_steered_text_and_a_second_prompt_are_messages_of_the_user(path: Path) -> None:
    steered = []
    for turn in turns_of(path):
        sent = [item["content"][0]["text"] for item in turn.items("userMessage")]
        chunks = list(chunks_of(turn, ThreadNotes()))
        steered += [each.parts[0]["text"] for each in chunks if isinstance(each, c.SteeringMessage)]
        assert len(sent) - 1 <= len([each for each in chunks if isinstance(each, c.SteeringMessage)])
    assert steered == ["Hello steered", "Hello queued"]


@pytest.mark.parametrize("path", recordings("main", "patch-model", "code-mode", "mcp"))
def test_the_options_are_those_that_codex_offered_and_every_recorded_answer_is_one(path: Path) -> None:
    for turn in turns_of(path):
        for message in turn.messages:
            if "id" not in message:
                continue
            params, answer = message["params"], turn.answers.get(message["id"])
            if message["method"] == "mcpServer/elicitation/request":
                kinds = [each.option.id for each in mcp_offers(params["_meta"]["persist"])]
                assert kinds == ["accept", "accept_for_session", "accept_always", "decline", "cancel"]
                continue
            offers = command_offers(params)
            answers = [offer.answer for offer in offers]
            for decision in params.get("availableDecisions", ()):
                assert decision in answers
            assert "decline" in answers
            if answer is not None and answer["decision"] != "acceptForSession":
                assert answer["decision"] in answers


@pytest.mark.parametrize("path", recordings("resume"))
def test_a_recorded_history_is_shown_as_it_was_live(path: Path) -> None:
    [result] = [
        line["msg"]["result"]
        for line in lines(path)
        if line["dir"] == "out" and (line["msg"].get("result") or {}).get("thread", {}).get("turns")
    ]
    live = {turn.id: turn for turn in turns_of(path.with_name("main.jsonl"))}
    compared = 0
    for turn in result["thread"]["turns"]:
        messages = list(messages_of(turn))
        answer = next((each for each in messages if each.role == "assistant"), None)
        texts = [] if answer is None else [part.text for part in answer.parts if isinstance(part, TextPart)]
        if turn["status"] == "completed" and turn["id"] in live:
            assert "".join(texts) == "".join(item["text"] for item in live[turn["id"]].items("agentMessage"))
            compared += 1
        calls = {} if answer is None else {each.tool_call_id for each in answer.parts if isinstance(each, ToolPart)}
        recorded = {item["id"] for item in turn["items"] if item["type"] in ("commandExecution", "contextCompaction")}
        assert set(calls) == recorded
        if answer is not None:
            assert not {"pending", "in_progress"} & set(story_of(replay(answer)).outcomes.values())
        if turn["status"] == "failed":
            assert answer is not None
            assert "mock failure" in str(answer.metadata) or "429" in str(answer.metadata)
    assert compared > 15


@pytest.mark.parametrize("path", recordings("main"))
def test_the_recorded_models_and_settings_are_offered(path: Path) -> None:
    results = [line["msg"]["result"] for line in lines(path) if line["dir"] == "out" and "result" in line["msg"]]
    models = models_of(next(each for each in results if isinstance(each.get("data"), list) and each["data"]))
    assert "gpt-6.1-sol" in [model.id for model in models]
    known = choices_of(next(each for each in results if "approvalPolicy" in each))
    offered = {each.id: each for each in settings_of(known, models)}
    assert (offered["mode"].current, offered["model"].current) == ("read-only", "mock-model")
    wanted = Choices("mock-model-2", "low", "never", {"type": "dangerFullAccess"})
    sent = next(
        line["msg"]["params"]
        for line in lines(path)
        if line["dir"] == "in" and "effort" in line["msg"].get("params", {})
    )
    assert turn_params(wanted, known) == {
        key: sent[key] for key in ("model", "effort", "approvalPolicy", "sandboxPolicy")
    }


def test_a_change_of_model_or_effort_is_stated_again_while_codex_plans() -> None:
    """A turn that plans takes both from its collaboration mode."""
    now = Choices("a", "low", "on-request", {"type": "readOnly"}, is_planning=True)
    for wanted, changed in (
        (replace(now, model="b"), {"model": "b"}),
        (replace(now, effort="high"), {"effort": "high"}),
        (replace(now, asking="never"), {"approvalPolicy": "never"}),
    ):
        settings = {"model": wanted.model, "reasoning_effort": wanted.effort, "developer_instructions": None}
        mode = {} if wanted.asking != now.asking else {"collaborationMode": {"mode": "plan", "settings": settings}}
        assert turn_params(wanted, now) == changed | mode


KINDS = {"agent_message": "agentMessage", "command_execution": "commandExecution", "file_change": "fileChange"}


@pytest.mark.parametrize("path", recordings("exec*.jsonl"))
def test_a_run_of_codex_exec_says_the_same(path: Path) -> None:
    """`codex exec` prints the same items in other words; it is not what the adapter speaks."""
    events = CodexEvents()
    chunks: list[c.Chunk] = []
    recorded = lines(path)
    for line in recorded:
        item = line.get("item")
        if item is None or item["type"] not in KINDS:
            continue
        same = {"aggregatedOutput": item.get("aggregated_output"), "exitCode": item.get("exit_code")}
        status = str(item.get("status")).replace("in_progress", "inProgress")
        item = {**item, **same, "type": KINDS[item["type"]], "status": status}
        chunks += events.feed("item/started" if line["type"] == "item.started" else "item/completed", {"item": item})
    shown = story_of([*chunks, *events.close()])
    done = [line["item"] for line in recorded if line["type"] == "item.completed"]
    assert shown.text == "".join(item["text"] for item in done if item["type"] == "agent_message")
    ended = {item["id"]: item["status"] for item in done if item["type"] in ("command_execution", "file_change")}
    assert shown.outcomes == {item_id: OUTCOMES[status] for item_id, status in ended.items()}
