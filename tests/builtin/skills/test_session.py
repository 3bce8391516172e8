"""Skills in a session: the index, loading on demand, slash commands, permissions and notices."""

from pathlib import Path

import pytest

from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.context.window.limits import WindowLimits
from dragoman.builtin.context.window.plan import prunable
from dragoman.schema import v1
from dragoman.uistream.messages import DataPart, StepStartPart, TextPart, ToolPart, UIMessage
from tests.builtin.http_service import Answers, Service, ask, recording_model
from tests.builtin.mcp.fixtures import HERE
from tests.builtin.skills.fixtures import answer_of, outputs_of, service_at_home, write_skill
from tests.warm_programs import mcp_package

AGENTS = ("build", "explore")


async def test_the_model_gets_an_index_and_loads_a_skill_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    folder = write_skill(
        service.home / "skills", "notes", "writes notes", "Write them in rhyme.", "compatibility: a pen\n"
    )
    (folder / "rhymes.md").write_text("moon, June")
    refusing = Answers(None)
    async with service.client(permission=refusing) as remote:
        session = await remote.new_session(service.project)
        updates = await ask(
            session,
            f"read {folder}/rhymes.md",
            'call skill {"name": "notes"}',
            f"read {folder}/rhymes.md",
            "say {result}",
        )
    # Before the skill is loaded the file is asked about; afterwards it is not.
    assert len(refusing.asked) == 1
    denied, loaded, read = outputs_of(updates)
    assert "moon" in read
    assert "moon" not in denied
    assert all(text in loaded for text in ("Write them in rhyme.", "- rhymes.md", "a pen", str(folder)))
    assert "- notes: writes notes" in model.requests[0].system
    assert "skill" in [tool.name for tool in model.requests[0].tools]


async def test_without_skills_there_is_neither_an_index_nor_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    async with service.session("allow_once") as session:
        await ask(session, "say hello")
        assert "# Skills" not in model.requests[0].system
        assert "skill" not in [tool.name for tool in model.requests[0].tools]
        # One that is written later is found by its name, and changes nothing of what the provider has cached.
        write_skill(service.project / ".agents/skills", "late", body="Better late.")
        updates = await ask(session, 'call activate_skill {"skill": "late"}', 'call skill {"name": "none"}')
        assert "Better late." in outputs_of(updates)[0]
        assert "comes with the project" in outputs_of(updates)[0]
        assert "there is no skill 'none'; there are: late" in outputs_of(updates)[1]
        assert model.requests[-1].system == model.requests[0].system
        assert model.requests[-1].tools == model.requests[0].tools


async def test_loading_a_skill_permits_to_read_its_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    folder = write_skill(service.home / "skills", "sly", more="allowed-tools: Bash(*) Write Read\n")
    (tmp_path / "secret").write_text("key")
    (folder / "leak").symlink_to(tmp_path / "secret")
    refusing = Answers(None)
    lines = [f"read {folder}/leak", f"write {folder}/new.md x", f"read {tmp_path}/secret", "run touch ran"]
    async with service.client(permission=refusing) as remote:
        session = await remote.new_session(service.project)
        updates = await ask(session, 'call skill {"name": "sly"}', *lines)
    assert len(refusing.asked) == len(lines)
    assert "key" not in "".join(outputs_of(updates))
    assert not (service.project / "ran").exists()
    assert not (folder / "new.md").exists()


async def test_a_projects_skill_that_is_a_link_permits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    (service.project / "sub").mkdir()
    private = write_skill(service.project, "private")
    (private / "key").write_text("sesame")
    (service.project / ".agents/skills").mkdir(parents=True)
    (service.project / ".agents/skills/private").symlink_to(private)
    refusing = Answers(None)
    async with service.client(permission=refusing) as remote:
        session = await remote.new_session(service.project / "sub")
        outputs = outputs_of(await ask(session, 'call skill {"name": "private"}', f"read {private}/key"))
    assert "Do it." in outputs[0]
    assert "sesame" not in outputs[1]
    assert len(refusing.asked) == 1


async def test_a_session_that_is_opened_again_may_still_read_the_files_of_loaded_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    for name in ("loaded", "started", "other"):
        (write_skill(service.home / "skills", name) / "part.md").write_text(f"part of {name}")
    async with service.session("allow_once") as session:
        await ask(session, 'call skill {"name": "loaded"}')
        await ask(session, "/started")
    again, refusing = Service(tmp_path), Answers(None)
    async with again.client(permission=refusing) as remote:
        loaded = await remote.load_session(session.id, service.project)
        lines = [f"read {service.home}/skills/{name}/part.md" for name in ("loaded", "started", "other")]
        outputs = outputs_of(await ask(loaded, *lines))
    assert "part of loaded" in outputs[0]
    assert "part of started" in outputs[1]
    assert "part of other" not in outputs[2]
    assert len(refusing.asked) == 1


async def test_a_subagent_has_the_index_and_loads_skills_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    write_skill(service.home / "skills", "notes", body="Write them in rhyme.")
    (service.project / "AGENTS.md").write_text("use tabs")
    async with service.session("allow_once") as session:
        await ask(session, "say hello")
        (service.project / "AGENTS.md").write_text("use spaces")
        script = r'call skill {"name": "notes"}\nsay {result}'
        updates = await ask(session, f"task build {script}", "task explore say looked")
    assert "Write them in rhyme." in "".join(outputs_of(updates))
    build, explore = (next(each for each in model.requests if f"subagent {name}" in each.system) for name in AGENTS)
    assert "- notes: does it" in build.system
    assert "# Skills" not in explore.system
    texts = [part.data["text"] for part in build.messages[0].parts if isinstance(part, DataPart)]
    assert any("use spaces" in text for text in texts)


async def test_a_deny_counts_more_than_a_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    skills = service.home / "skills"
    (write_skill(skills, "partly") / "hidden.md").write_text("words")
    write_skill(skills, "whole", body="secret steps")
    rules = f'{{"rules": {{"deny": ["read:{skills}/partly/hidden.md", "read:{skills}/whole/**"]}}}}'
    (service.home / "settings.json").write_text(rules)
    async with service.session("allow_once") as session:
        updates = await ask(
            session,
            'call skill {"name": "partly"}',
            f"read {skills}/partly/hidden.md",
            'call skill {"name": "whole"}',
        )
    outputs = outputs_of(updates)
    assert "Do it." in outputs[0]
    assert "words" not in outputs[1]
    assert "may not be read" in outputs[2]
    assert "secret" not in outputs[2]


async def test_a_user_starts_a_skill_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    skills = service.home / "skills"
    folder = write_skill(skills, "mine", body="awk '{print $1}'", more="disable-model-invocation: true\n")
    (folder / "part.md").write_text("a part")
    write_skill(skills, "places", body="Fix $ARGUMENTS now.", more="argument-hint: NUMBER\n")
    write_skill(skills, "review", body="another review")
    write_skill(skills, "hidden", more="user-invocable: false\n")
    refusing = Answers(None)
    async with service.client(permission=refusing) as remote:
        session = await remote.new_session(service.project)
        await ask(session, "/mine it's me")
        assert "awk '{print $1}'" in model.words[-1]
        assert model.words[-1].endswith("\n\nit's me")
        await ask(session, f"read {folder}/part.md")
        assert refusing.asked == []
        await ask(session, "/places 7")
        assert "Fix 7 now." in model.words[-1]
        await ask(session, "/review")
        assert "another review" not in model.words[-1]
        assert "no command /hidden" in answer_of(await ask(session, "/hidden"))
        assert "only started by the user" in outputs_of(await ask(session, 'call skill {"name": "mine"}'))[0]
        offered = {command.name: command for command in session.state.commands}
        assert {"mine", "places"} <= offered.keys()
        assert "hidden" not in offered
        listed = answer_of(await ask(session, "/skills"))
    assert "- mine" not in model.requests[0].system
    assert f"`/mine` does it (user, {folder}/SKILL.md; only you start it)" in listed
    assert "/review is another command" in listed
    assert "`hidden` does it" in listed
    assert "only the model loads it" in listed


async def test_broken_skills_are_reported_once_to_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_at_home(tmp_path, monkeypatch)
    write_skill(service.project / ".claude/skills", "right")
    write_skill(service.project / ".claude/skills", "wrong").joinpath("SKILL.md").write_text("---\nname: x\n---\n")
    async with service.session("allow_once") as session:
        await ask(session, "say one")
        (notice,) = session.state.notices
        assert "wrong/SKILL.md is left out: its name 'x' is not that of its folder" in str(notice.description)
        listed = answer_of(await ask(session, "/skills"))
    assert "right" in listed
    assert "Not as they should be:" in listed
    assert "wrong/SKILL.md is left out" in listed


async def test_a_skill_of_an_mcp_server_is_read_with_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = service_at_home(tmp_path, monkeypatch), recording_model(monkeypatch)
    command, *arguments = mcp_package().command(str(HERE.parent / "skills" / "skill_server.py"))
    server = v1.McpServerStdio("kitchen", command, arguments, [])
    asked = Answers("allow_once")
    async with service.client(permission=asked) as remote:
        session = await remote.new_session(service.project, mcp_servers=[server])
        await ask(session, "/help")  # no model is asked, and the servers may not be ready yet
        updates = await ask(session, 'call skill {"name": "cooking"}', "say done")
        await ask(session, "/cooking for two")
        listed = answer_of(await ask(session, "/skills"))
    assert "Boil water." in model.words[-1]
    assert model.words[-1].endswith("for two")
    assert "- cooking (from the MCP server kitchen): Cooks things" in model.requests[0].system
    assert len(asked.asked) == 1
    assert "Boil water." in outputs_of(updates)[0]
    assert "skill://cooking/salt.md" in outputs_of(updates)[0]
    assert "`/cooking` Cooks things (MCP server kitchen" in listed


def test_outputs_of_skills_are_never_left_out_of_the_window() -> None:
    def turn(number: int, tool: str) -> list[UIMessage]:
        call = ToolPart(f"c{number}", tool, "output-available", input={}, output={"text": "x" * 40_000})
        return [
            UIMessage(f"u{number}", "user", [TextPart("go")]),
            UIMessage(f"a{number}", "assistant", [StepStartPart(), call]),
        ]

    history = [message for number in range(30) for message in turn(number, "skill" if number < 5 else "read")]
    calls, _ = prunable(ModelConversation(history).view(), WindowLimits(200_000, 8000))
    assert calls
    assert all(call.name == "read" for call in calls)
