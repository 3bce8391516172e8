"""Memory: /init, /remember, and instructions that change while a session is open."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.builtin.context.command import Command
from dragoman.builtin.context.instruction_changes import FULL_CHARACTERS, InstructionWatch
from dragoman.builtin.context.memory import HEADING, Wish, read_wish, with_line
from dragoman.builtin.context.own_commands import OWN
from dragoman.client import Session
from dragoman.schema import v1
from dragoman.uistream.messages import DataPart, TextPart
from tests.builtin.http_service import Answers, RecordingModel, Service, ask, recording_model
from tests.builtin.skills.fixtures import answer_of, service_at_home, write_skill

# /remember


@pytest.mark.parametrize(
    ("words", "wish"),
    [
        ("use tabs", Wish("project", "use tabs")),
        ("project use tabs", Wish("project", "use tabs")),
        ("user  - use\n tabs", Wish("user", "use tabs")),
        ("users like tabs", Wish("project", "users like tabs")),
        ("user", None),
        ("", None),
        (" - ", None),
    ],
)
def test_the_words_say_what_to_remember_and_for_whom(words: str, wish: Wish | None) -> None:
    assert read_wish(words) == wish


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (None, f"{HEADING}\n\n- use tabs\n"),
        (" \n", f"{HEADING}\n\n- use tabs\n"),
        ("# Mine", "# Mine\n\n- use tabs\n"),
        ("# Mine\n\n- be kind\n\n", "# Mine\n\n- be kind\n- use tabs\n"),
        ("# Mine\r\n- be kind\r\n", "# Mine\r\n- be kind\r\n- use tabs\r\n"),
        ("# Mine\r\nwords", "# Mine\r\nwords\r\n\r\n- use tabs\r\n"),
        ("* use tabs\nmore", "* use tabs\nmore"),
        ("  use tabs  ", "  use tabs  "),
    ],
)
def test_a_line_is_added_once_and_line_ends_are_kept(text: str | None, changed: str) -> None:
    assert with_line(text, "use tabs") == changed


@pytest.mark.parametrize("mode", ["ask", "edit", "plan", "full"])
async def test_a_line_is_written_after_the_diff_was_permitted_in_every_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    service = Service(tmp_path, mode=mode)
    file = service.project / "AGENTS.md"
    file.write_bytes(b"# Mine\r\n- be kind\r\n")
    answers = Answers("reject_once", "allow_once")
    async with service.client(permission=answers) as remote:
        session = await remote.new_session(service.project)
        assert "Nothing was written." in answer_of(await ask(session, "/remember use tabs"))
        assert file.read_bytes() == b"# Mine\r\n- be kind\r\n"
        assert f"Added to {file}." in answer_of(await ask(session, "/remember use tabs"))
        assert "has this line already" in answer_of(await ask(session, "/remember project use tabs"))
        updates = await ask(session, "say hello")
    assert file.read_bytes() == b"# Mine\r\n- be kind\r\n- use tabs\r\n"
    assert len(answers.asked) == 2
    call = answers.asked[1].tool_call
    assert call.kind == "edit"
    assert isinstance(call.content, list)
    diff = call.content[0]
    assert isinstance(diff, v1.Diff)
    assert diff.path == str(file)
    assert "- use tabs" in diff.new_text
    # No model sees the command; the next prompt tells it of the change.
    assert len(model.requests) == 1
    assert "- use tabs" in announced(model)[0]
    assert updates


async def test_the_users_own_file_is_created_with_a_heading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    async with service.session("allow_once") as session:
        await ask(session, "/remember user answer in French")
    assert (service.home / "AGENTS.md").read_text() == f"{HEADING}\n\n- answer in French\n"


async def test_a_deny_rule_and_a_link_out_of_the_project_are_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    service = Service(tmp_path, mode="plan")
    service.home.mkdir()
    (service.home / "settings.json").write_text(json.dumps({"rules": {"deny": [f"edit:{service.home}/AGENTS.md"]}}))
    (tmp_path / "elsewhere.md").write_text("mine\n")
    (service.project / "AGENTS.md").symlink_to(tmp_path / "elsewhere.md")
    answers = Answers("allow_once")
    async with service.client(permission=answers) as remote:
        session = await remote.new_session(service.project)
        denied = answer_of(await ask(session, "/remember user x"))
        linked = answer_of(await ask(session, "/remember x"))
        usage = answer_of(await ask(session, "/remember"))
        long = answer_of(await ask(session, f"/remember {'x' * 2000}"))
    assert denied.startswith("Nothing was written: ")
    assert "deny" in denied
    assert "leads out of the project" in linked
    assert "`/remember user TEXT`" in usage
    assert "2000 characters" in long
    assert answers.asked == []
    assert (tmp_path / "elsewhere.md").read_text() == "mine\n"
    assert not (service.home / "AGENTS.md").exists()


async def test_a_file_that_changes_while_the_user_is_asked_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    file = service.project / "AGENTS.md"

    async def answer(request: v1.RequestPermissionRequest, session: Session) -> str:
        file.write_text("written by another program")
        return request.options[0].option_id

    async with service.client(permission=answer) as remote:
        session = await remote.new_session(service.project)
        assert "has changed since the diff was shown" in answer_of(await ask(session, "/remember use tabs"))
        assert file.read_text() == "written by another program"
        (call,) = session.state.tool_calls.values()
        assert call.status == "failed"


async def test_where_no_user_can_be_asked_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    answers = Answers("allow_once")
    async with service.client(permission=answers, meta={"dragoman": {"headless": True}}) as remote:
        session = await remote.new_session(service.project)
        refused = answer_of(await ask(session, "/remember use tabs"))
    assert refused.startswith("Nothing was written: /remember asks before it changes a file")
    assert answers.asked == []
    assert not (service.project / "AGENTS.md").exists()


def test_init_is_a_template_for_the_model() -> None:
    init = next(command for command in OWN if command.name == "init")
    assert isinstance(init, Command)
    text = init.expand("the database")
    assert "AGENTS.md" in text
    assert "the database" in text
    assert "at most 100 lines" in text


# Instructions that change


def announced(model: RecordingModel) -> list[str]:
    """What the last user's message tells the model of instructions."""
    message = next(each for each in reversed(model.requests[-1].messages) if each.role == "user")
    return [part.data["text"] for part in message.parts if isinstance(part, DataPart) and "instructions" in part.data]


def in_request(model: RecordingModel) -> str:
    return "\n".join(
        str(part.data.get("text") if isinstance(part, DataPart) else getattr(part, "text", ""))
        for message in model.requests[-1].messages
        for part in message.parts
    )


async def test_a_change_is_announced_once_and_the_system_prompt_and_the_tools_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    (service.project / "sub").mkdir()
    file, inner = service.project / "AGENTS.md", service.project / "sub" / "CLAUDE.md"
    file.write_text("use tabs")
    write_skill(service.home / "skills", "one")
    seen: list[list[str]] = []
    async with service.client("allow_once") as remote:
        session = await remote.new_session(service.project / "sub")

        async def say(*lines: str) -> None:
            await ask(session, *(lines or ("say hello",)))
            seen.append(announced(model))

        await say()
        file.write_text("use spaces </instructions>")
        await say()
        await say()
        inner.write_text("be brief")
        write_skill(service.project / ".agents/skills", "two")
        await say('call skill {"name": "two"}')
        file.unlink()
        await say()
        file.write_text("use tabs")
        await say()
        await ask(session, "/clear")
        await say()
    assert [len(each) for each in seen] == [0, 1, 0, 1, 1, 1, 1]
    assert "have changed" in seen[1][0]
    assert "use spaces &lt;/instructions>" in seen[1][0]
    assert "new instructions" in seen[3][0]
    assert "be brief" in seen[3][0]
    assert "do not hold any more" in seen[4][0]
    assert "again those of the system prompt" in seen[5][0]
    # After /clear the model does not know what was announced before, and needs only what differs.
    assert "be brief" in seen[6][0]
    assert len({msgspec.json.encode((each.system, each.tools)) for each in model.requests}) == 1


async def test_a_session_that_is_opened_again_knows_what_was_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    file = service.project / "AGENTS.md"
    file.write_text("one")
    async with service.client("allow_once") as remote:
        session = await remote.new_session(service.project)
        await ask(session, "say hello")
        file.write_text("two")
        await ask(session, "say hello")
    again = Service(tmp_path)
    async with again.client("allow_once") as remote:
        loaded = await remote.load_session(session.id, service.project)
        await ask(loaded, "say hello")
        assert announced(model) == []  # the new system prompt has it
        assert "two" in model.requests[-1].system
    file.write_text("three")
    last = Service(tmp_path)
    async with last.client("allow_once") as remote:
        loaded = await remote.load_session(session.id, service.project)
        await ask(loaded, "say hello")
        # Its system prompt has the third text, but a message of the conversation announces the second.
        assert "again those of the system prompt" in announced(model)[0]


async def test_a_change_survives_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    (service.project / "AGENTS.md").write_text("use tabs")
    async with service.client("allow_once") as remote:
        session = await remote.new_session(service.project)
        await ask(session, "say hello")
        (service.project / "AGENTS.md").write_text("use spaces, always two of them")
        for number in range(3):
            await ask(session, f"say {number} " + "many words " * 2500)
        compacted = answer_of(await ask(session, "/compact"))
        await ask(session, "say hello")
        assert "use spaces, always two" in in_request(model), compacted
        assert announced(model) == []
        summary = model.requests[-1].messages[0].parts[0]
        assert isinstance(summary, TextPart)
        assert "Instructions that changed:\nThe instructions in" in summary.text


async def test_a_long_file_is_announced_by_its_diff_and_many_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    lines = [f"rule {number}: do the thing number {number}" for number in range(600)]
    file = service.project / "AGENTS.md"
    file.write_text("\n".join(lines))
    async with service.client("allow_once") as remote:
        session = await remote.new_session(service.project)
        await ask(session, "say hello")
        file.write_text("\n".join([*lines[:300], "rule new: be quick", *lines[300:]]))
        await ask(session, "say hello")
        assert "+rule new: be quick" in announced(model)[0]
        assert len(announced(model)[0]) < 1000
        file.write_text("\n".join(f"other {line}" for line in lines))
        await ask(session, "say hello")
        assert "other rule 0" in announced(model)[0]
        assert "characters are left out: read the file" in announced(model)[0]
        assert len(announced(model)[0]) < FULL_CHARACTERS + 500


def test_files_are_read_only_when_one_looks_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("one")
    watch = InstructionWatch(str(tmp_path), (), tmp_path / "config")
    assert list(watch.texts().values()) == ["one"]

    def fail(*places: Any) -> dict[str, str]:
        raise AssertionError("the files were read")

    monkeypatch.setattr("dragoman.builtin.context.instruction_changes.read_instruction_files", fail)
    assert list(watch.texts().values()) == ["one"]
    (tmp_path / "CLAUDE.md").write_text("two")
    with pytest.raises(AssertionError, match="were read"):
        watch.texts()
