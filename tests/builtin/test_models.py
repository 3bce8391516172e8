"""Models without a network: the scripted model and the cassette."""

from pathlib import Path

import pytest

from dragoman.builtin.models.cassette import Cassette, fingerprint
from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel, parse_script
from dragoman.errors import ConfigError
from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import Chunk
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import StepStartPart, TextPart, ToolPart, UIMessage


def asked(text: str, *, reply: UIMessage | None = None) -> ModelRequest:
    return ModelRequest((UIMessage("u", "user", [TextPart(text)]), reply or UIMessage("a", "assistant", [])))


async def items_of(model: ScriptedModel | Cassette, request: ModelRequest) -> list[Chunk | StepEnd]:
    return [item async for item in model.stream(request)]


def text_of(items: list[Chunk | StepEnd]) -> str:
    return "".join(item.delta for item in items if isinstance(item, c.TextDelta))


async def test_a_prompt_that_is_not_a_script_is_repeated() -> None:
    items = await items_of(ScriptedModel(), asked("What is this project?"))
    assert text_of(items) == "What is this project?"
    assert isinstance(items[-1], StepEnd)
    assert items[-1].reason == "stop"
    assert ScriptedModel().is_scripted


async def test_arguments_of_a_tool_stream_in_before_they_are_complete() -> None:
    items = await items_of(ScriptedModel(), asked("write a.py one\\ntwo"))
    text = "".join(item.input_text_delta for item in items if isinstance(item, c.ToolInputDelta))
    (call,) = [item for item in items if isinstance(item, c.ToolInputAvailable)]
    assert call.input == {"path": "a.py", "text": "one\ntwo"}
    assert text == '{"path":"a.py","text":"one\\ntwo"}'
    assert len([item for item in items if isinstance(item, c.ToolInputDelta)]) > 2


async def test_the_next_line_is_played_when_the_result_is_there() -> None:
    call = ToolPart("x", "read", "output-available", {}, {"text": "content"})
    reply = UIMessage("a", "assistant", [StepStartPart(), call, StepStartPart()])
    assert (
        text_of(await items_of(ScriptedModel(), asked("read a\nsay it has {result}", reply=reply))) == "it has content"
    )


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("read a b.py", "read", {"path": "a b.py"}),
        ("edit a.py old => new", "edit", {"path": "a.py", "old": "old", "new": "new"}),
        ("grep def main", "grep", {"pattern": "def main"}),
        ("run ls -la | wc", "bash", {"command": "ls -la | wc"}),
        (
            "todo [x] a; [>] b; c",
            "todo",
            {
                "items": [
                    {"content": "a", "status": "completed"},
                    {"content": "b", "status": "in_progress"},
                    {"content": "c", "status": "pending"},
                ]
            },
        ),
        (
            "question Which? | Red | Blue",
            "question",
            {"question": "Which?", "choices": [{"label": "Red"}, {"label": "Blue"}]},
        ),
        ('call web_fetch {"url":"x"}', "web_fetch", {"url": "x"}),
    ],
)
async def test_every_tool_line_makes_the_call_it_names(line: str, name: str, arguments: object) -> None:
    (call,) = [item for item in await items_of(ScriptedModel(), asked(line)) if isinstance(item, c.ToolInputAvailable)]
    assert (call.tool_name, call.input) == (name, arguments)


@pytest.mark.parametrize("line", ["edit a.py without an arrow", "call x {broken"])
async def test_an_incomplete_line_is_an_error_that_quotes_it(line: str) -> None:
    with pytest.raises(ModelError, match="is not understood"):
        await items_of(ScriptedModel(), asked(line))


def test_a_given_script_must_begin_with_an_action() -> None:
    with pytest.raises(ConfigError, match="the actions are"):
        ScriptedModel("hello there")
    steps = parse_script("# a comment\nsay a\nread x\n& read y\nsay b")
    assert steps is not None
    assert [[line.verb for line in step] for step in steps] == [["say", "read", "read"], ["say"]]


def test_the_chunks_of_every_script_can_be_folded() -> None:
    import asyncio

    async def main() -> None:
        for text in ("say a", "think b\nsay c", "write a b\n& read c", "flood 20", "length", "say x\nrefuse"):
            reducer = Reducer(UIMessage("m", "assistant", []))
            for item in await items_of(ScriptedModel(), asked(text)):
                if not isinstance(item, StepEnd):
                    reducer.feed(item)

    asyncio.run(main())


async def test_a_cassette_plays_what_was_recorded_without_the_model(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    recorder = Cassette(path, ScriptedModel())
    first = await items_of(recorder, asked("say one two"))
    second = await items_of(recorder, asked("read a.py"))
    player = Cassette(path)
    assert player.is_scripted
    assert player.name == "cassette:cassette.jsonl"
    assert await items_of(player, asked("read a.py")) == second
    assert await items_of(player, asked("say one two")) == first


async def test_a_repeated_request_plays_the_next_recorded_answer(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    answers = iter("ab")
    recorder = Cassette(path, ScriptedModel(lambda request: [c.TextDelta("t", next(answers)), StepEnd("stop")]))
    for _ in range(2):
        await items_of(recorder, asked("x"))
    player = Cassette(path)
    assert [text_of(await items_of(player, asked("x"))) for _ in range(2)] == ["a", "b"]
    with pytest.raises(ModelError, match="more often than recorded"):
        await items_of(player, asked("x"))
    with pytest.raises(ModelError, match="never recorded"):
        await items_of(player, asked("y"))


def test_the_fingerprint_of_a_request_does_not_depend_on_ids() -> None:
    def with_ids(id: str) -> ModelRequest:
        call = ToolPart(id, "read", "output-available", {"path": "a"}, {"text": "b"})
        return asked("x", reply=UIMessage(id, "assistant", [call]))

    assert fingerprint(with_ids("one")) == fingerprint(with_ids("two"))
    assert fingerprint(with_ids("one")) != fingerprint(asked("x"))


async def test_an_answer_that_broke_off_is_not_recorded(tmp_path: Path) -> None:
    recorder = Cassette(tmp_path / "cassette.jsonl", ScriptedModel())
    with pytest.raises(ModelError):
        await items_of(recorder, asked("say half\nerror gone"))
    assert not (tmp_path / "cassette.jsonl").exists()


@pytest.mark.parametrize("content", ["", "{}", "no json", '{"cassette":"dragoman"}\n{"question":1}'])
def test_a_file_that_is_not_a_cassette_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match="is not a cassette"):
        Cassette(path)


def test_a_missing_cassette_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="record one first"):
        Cassette(tmp_path / "none.jsonl")
