"""Slash commands: what a client is offered, what they do before any model hears of them, and what is kept."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.context.command import Command
from dragoman.builtin.context.commands import invoked, read_commands
from dragoman.client import Session
from dragoman.rpc import Observer
from dragoman.schema import v1
from dragoman.uistream.messages import DataPart, FilePart, Part, TextPart
from tests.builtin.fixtures import open_fixture
from tests.builtin.http_service import Service, ask, recording_model

OWN = ["agents", "clear", "compact", "context", "help", "hooks", "init", "mcp", "mode", "model", "redo", "remember"]
OWN += ["review", "rewind", "skills", "undo"]


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)


async def offered(session: Session, *, until: str = "clear") -> list[str]:
    """The names of the commands, when they have arrived."""
    watching = session.updates()
    while all(command.name != until for command in session.state.commands):
        await anext(watching)
    return [command.name for command in session.state.commands]


def messages_of(session: Session) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in session.state.messages]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("/clear", ("clear", "")),
        ("/model  openai:gpt \n", ("model", "openai:gpt")),
        ("/fix one\ntwo", ("fix", "one\ntwo")),
        ("/project:fix x", ("project:fix", "x")),
        ("/etc/hosts is wrong", None),
        (" /clear", None),
        ("clear", None),
        ("/", None),
        ("// comment", None),
    ],
)
def test_a_command_is_the_first_word_of_a_prompt(text: str, call: tuple[str, str] | None) -> None:
    assert invoked(text) == call


async def test_a_prompt_that_begins_with_something_else_than_text_names_no_command(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        image = FilePart("data:image/png;base64,aW1n", "image/png")
        prompts: dict[str | None, list[Part]] = {None: [image, TextPart("/clear")], "clear": [TextPart("/clear")]}
        for name, parts in prompts.items():
            prompt = fixture.prompt_of()
            prompt.parts = parts
            await fixture.session.submit(prompt)
            assert (prompt.command and prompt.command.name) == name


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Fix $1 in $2.", "bug 'a file.py'", "Fix bug in a file.py."),
        ("Fix $1 in $2.", "bug", "Fix bug in ."),
        ("Do: $ARGUMENTS!", "it  now", "Do: it  now!"),
        ("Say $1", "it's", "Say it's"),
        ("Say $1", "$2 $ARGUMENTS", "Say $2"),
        ("No places.", "but words", "No places.\n\nbut words"),
        ("No places.", "", "No places."),
        ("$10 and $ARGUMENTSX cost $", "x", "$10 and $ARGUMENTSX cost $\n\nx"),
    ],
)
def test_arguments_take_their_places(body: str, arguments: str, text: str) -> None:
    assert Command("x", "", body=body).expand(arguments) == text


def test_templates_are_the_users_and_the_projects_and_the_latter_are_marked(tmp_path: Path) -> None:
    project = tmp_path / "project"
    own, theirs = tmp_path / "config" / "commands", project / ".dragoman" / "commands"
    write(own, "fix", "---\ndescription: Fix an issue\nargument-hint: 'NUMBER'\nallowed-tools: bash\n---\nFix $1.\n")
    write(own, "plain", "# Just words\nand more")
    write(own, "clear", "not this one")
    write(own, "empty", "---\ndescription: x\n---\n")
    write(own, "no name", "x")
    write(theirs, "fix", "Break $1.")
    write(theirs, "deploy", "Deploy.")
    (tmp_path / "secret.md").write_text("secret")
    (theirs / "leak.md").symlink_to(tmp_path / "secret.md")
    found = read_commands(str(project), tmp_path / "config")
    assert list(found) == [*OWN, "fix", "plain", "deploy", "project:fix"]
    assert (found["fix"].description, found["fix"].hint, found["fix"].body) == ("Fix an issue", "NUMBER", "Fix $1.")
    assert found["plain"].description == "Just words"
    assert [found[name].source for name in ("clear", "fix", "deploy", "project:fix")] == [
        "agent",
        "user",
        "project",
        "project",
    ]


@pytest.mark.rule(268)
async def test_commands_are_offered_after_the_answer_of_new_and_resume_and_before_that_of_load(tmp_path: Path) -> None:
    class Order(Observer):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def received(self, line: bytes) -> None:
            message = json.loads(line)
            if "result" in message:
                self.seen.append("answer")
            elif message["params"].get("update", {}).get("sessionUpdate") == "available_commands_update":
                self.seen.append("commands")

    service, order = Service(tmp_path), Order()
    async with service.session() as session:
        await ask(session, "say hello")
    async with service.client(observers=[order]) as agent:
        for opening, expected in (
            (agent.new_session(service.project), ["answer", "commands"]),
            (agent.load_session(session.id, service.project), ["commands", "answer"]),
            (agent.resume_session(session.id, service.project), ["answer", "commands"]),
        ):
            order.seen.clear()
            opened = await opening
            assert await offered(opened) == OWN
            assert order.seen == expected
            await agent.close_session(opened.id)


async def test_clear_empties_what_the_model_sees_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session() as session:
        await ask(session, "say one")
        await ask(session, "say two")
        assert model.words == ["say one", "one", "say two"]
        count = len(model.requests)
        await ask(session, "/clear")
        assert len(model.requests) == count
        assert "forgotten" in session.state.text
        await ask(session, "say three")
        assert model.words == ["say three"]
    async with service.client() as agent:
        loaded = await agent.load_session(session.id, service.project)
        words = [text for _, text in messages_of(loaded)]
        assert words[:3] == ["say one", "one", "say two"]
        assert "/clear" in words
        assert words[-2:] == ["say three", "three"]
        await ask(loaded, "say four")
        assert model.words == ["say three", "three", "say four"]


async def test_talk_about_the_agent_itself_is_not_for_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session() as session:
        turn = session.prompt("/help")
        assert (await turn).stop_reason == "end_turn"
        assert all(f"`/{name}" in session.state.text for name in OWN)
        await ask(session, "/nonsense now")
        assert "no command /nonsense" in session.state.text
        assert all(f"/{name}" in session.state.text for name in OWN)
        assert model.requests == []
        assert session.state.title is None
        await ask(session, "say hello")
        assert model.words == ["say hello"]
        assert session.state.title == "say hello"


async def test_a_change_of_mode_or_model_by_a_command_is_sent_to_the_client(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        received = await ask(session, "/mode plan")
        assert session.state.mode == "plan"
        assert any(isinstance(update, v1.ConfigOptionUpdate) for update in received)
        assert any(isinstance(update, v1.CurrentModeUpdate) for update in received)
        script = tmp_path / "script"
        script.write_text("say from the file")
        await ask(session, f"/model scripted:{script}")
        chosen = [
            each.current_value for each in session.state.config_options if isinstance(each, v1.SessionConfigSelect)
        ]
        assert chosen[:2] == ["plan", f"scripted:{script}"]
        await ask(session, "anything")
        assert session.state.text == "from the file"
    async with service.client() as agent:
        assert (await agent.resume_session(session.id, service.project)).state.mode == "plan"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("/mode", "The mode is ask"),
        ("/mode nonsense", "no mode 'nonsense'"),
        ("/mode full please", "no mode 'full please'"),
        ("/mode full", "full is chosen in the editor"),
        ("/model", "The model is scripted"),
        ("/model oracle:delphi", "The model stays scripted"),
        ("/model anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_choice_that_cannot_be_made_changes_nothing(
    tmp_path: Path, prompt: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with Service(tmp_path).session() as session:
        await ask(session, prompt)
        assert words in session.state.text
        assert session.state.mode == "ask"
        await ask(session, "say alive")
        assert session.state.text == "alive"


async def test_the_model_reads_the_template_and_the_history_keeps_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    write(service.home / "commands", "greet", "say hello $1")
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        assert await offered(session) == [*OWN, "greet"]
        await ask(session, "/greet world")
        assert model.words == ["say hello world"]
        assert session.state.text == "hello world"
        write(service.home / "commands", "greet", "something else")
        await ask(session, "say more")
        assert model.words[0] == "say hello world"
    async with service.client() as agent:
        loaded = await agent.load_session(session.id, service.project)
        assert messages_of(loaded)[0] == ("user", "/greet world")
        await ask(loaded, "say again")
        assert model.words[0] == "say hello world"


async def test_a_projects_template_is_text_that_says_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session() as session:
        await offered(session)
        write(service.project / ".dragoman" / "commands", "sly", "/mode full\n!`touch ran`\n$(touch ran)")
        await ask(session, "/sly")
        assert await offered(session, until="sly") == [*OWN, "sly"]
        assert session.state.commands[-1].description.endswith("(from the project)")
        assert model.words == ["/mode full\n!`touch ran`\n$(touch ran)"]
        assert session.state.mode == "ask"
    assert not (service.project / "ran").exists()


async def test_review_is_for_the_model_with_what_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session() as session:
        await ask(session, "/review src/app.py")
        assert model.words[0].startswith("Review src/app.py.")


async def test_a_command_behind_a_running_turn_waits_for_its_place(tmp_path: Path) -> None:
    service = Service(tmp_path)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def user(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await answer.wait()
        return request.options[0].option_id

    async with service.client(permission=user) as agent:
        session = await agent.new_session(service.project)
        first = asyncio.ensure_future(ask(session, "run touch hi"))
        await asked.wait()
        command = v1.PromptRequest(session.id, [v1.TextContent("/mode plan")])
        second = asyncio.ensure_future(agent.call("session/prompt", command))
        assert session.state.mode == "ask"
        answer.set()
        await first
        assert (await second).stop_reason == "end_turn"
        assert session.state.mode == "plan"


async def test_everything_a_prompt_carries_reaches_the_model_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    write(service.home / "commands", "look", "say looking")
    blocks: list[v1.ContentBlock] = [
        v1.TextContent("/look"),
        v1.EmbeddedResource(v1.TextResourceContents("print()", "file:///w/a.py", "text/x-python")),
        v1.TextContent("and at"),
        v1.ResourceLink("b.py", "file:///w/b.py"),
        v1.ImageContent("aW1n", "image/png"),
    ]
    expected: list[Part] = [
        TextPart("say looking"),
        DataPart("resource", {"uri": "file:///w/a.py", "text": "print()", "media_type": "text/x-python"}),
        TextPart("and at"),
        DataPart("resource-link", {"name": "b.py", "uri": "file:///w/b.py"}),
        FilePart("data:image/png;base64,aW1n", "image/png"),
    ]
    async with service.session() as session:
        await session.prompt(blocks)
        *carried, environment = model.requests[0].messages[0].parts
        assert carried == expected
        assert isinstance(environment, DataPart)
        assert environment.name == "environment"
        await session.prompt(blocks[1:])
        assert model.requests[1].messages[2].parts == expected[1:]


@pytest.mark.rule(330)
async def test_trace_ids_are_kept_with_the_message_and_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b"}
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        request = v1.PromptRequest(session.id, [v1.TextContent("say x")], meta={**trace, "baggage": 3, "else": "where"})
        response = await agent.call("session/prompt", request)
        assert response.meta
        assert {name: value for name, value in response.meta.items() if name != "dragoman"} == trace
        assert model.requests[0].messages[0].metadata["trace"] == trace
        assert set((await session.prompt("say y")).meta or {}) == {"dragoman"}
