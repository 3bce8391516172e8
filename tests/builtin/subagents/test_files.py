"""Declarations of agents: what is read, what is reported, and that no file widens anything."""

from pathlib import Path

import pytest

from dragoman.builtin.subagents.declaration import BUILT_IN, AgentDeclaration, choose_tools, find_agent, listing
from dragoman.builtin.subagents.files import read_agents
from dragoman.builtin.tools.table import built_in_tools
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask, recording_model
from tests.builtin.subagents.test_runs import task

BODY = "---\nDo it well."


def write(folder: Path, name: str, *members: str, body: str = "Do it well.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text("\n".join(["---", *members, "---", body, ""]))
    return path


def user(tmp_path: Path) -> Path:
    return tmp_path / "config" / "agents"


def project(tmp_path: Path) -> Path:
    return tmp_path / "work" / ".dragoman" / "agents"


def read(tmp_path: Path) -> tuple[dict[str, AgentDeclaration], tuple[str, ...]]:
    (tmp_path / "work").mkdir(exist_ok=True)
    declared = read_agents(str(tmp_path / "work"), tmp_path / "config")
    return declared.agents, declared.problems


def test_a_file_declares_an_agent(tmp_path: Path) -> None:
    members = ("name: checker", "description: Use when: tests fail", "tools:\n- Read\n- Grep", "mode: plan", "steps: 7")
    path = write(user(tmp_path), "x", *members, "model: openai:gpt-5.2", "color: red")
    agents, problems = read(tmp_path)
    assert problems == ()
    assert agents["checker"] == AgentDeclaration(
        "checker",
        "Use when: tests fail",
        "Do it well.",
        tools=("Read", "Grep"),
        model="openai:gpt-5.2",
        mode="plan",
        steps=7,
        source="user",
        path=str(path),
    )
    assert list(agents) == ["explore", "plan", "build", "checker"]


@pytest.mark.parametrize(
    ("members", "body", "why"),
    [
        (["name: x"], "text", "has no description"),
        (["description: x"], "", "has no text after the front matter"),
        (["description: x", "mode: yolo"], "text", "there is no mode 'yolo'; the modes are ask, edit"),
        (["description: x", "mode: bypassPermissions"], "text", "there is no mode 'bypassPermissions'"),
        (["description: x", "max_turns: many"], "text", "max-turns must be a number from 1 to 200, not 'many'"),
        (["description: x", f"steps: {'1' * 5000}"], "text", "steps must be a number from 1 to 200, not '1111"),
        (["description: x", "name: ../up"], "text", "the name '../up' must consist of"),
    ],
)
def test_a_wrong_file_is_left_out_and_named(tmp_path: Path, members: list[str], body: str, why: str) -> None:
    path = write(user(tmp_path), "wrong", *members, body=body)
    write(user(tmp_path), "right", "description: fine")
    agents, (problem,) = read(tmp_path)
    assert problem.startswith(f"{path} is left out: ")
    assert why in problem
    assert list(agents) == ["explore", "plan", "build", "right"]


def test_what_has_no_meaning_is_reported(tmp_path: Path) -> None:
    path = write(user(tmp_path), "x", "description: x", "memory: project", "model: opus", "odd line")
    _, problems = read(tmp_path)
    assert problems == (
        f"{path}: line 5 is not `key: value`",
        f"{path}: the member 'memory' has no meaning here and is ignored",
        f"{path}: the model 'opus' is not PROVIDER:MODEL; the agent uses the session's model",
    )


def test_a_project_cannot_take_a_name_nor_choose_the_model(tmp_path: Path) -> None:
    write(user(tmp_path), "mine", "description: of the user")
    for name in ("mine", "build", "theirs"):
        write(project(tmp_path), name, "description: of the project", "model: openai:gpt-5.2")
    agents, problems = read(tmp_path)
    assert agents["mine"].source == "user"
    assert agents["build"].source == "built-in"
    assert agents["project:mine"].source == agents["project:build"].source == agents["theirs"].source == "project"
    assert agents["theirs"].model == ""
    assert all("a project's file cannot choose the model" in problem for problem in problems)
    assert len(problems) == 3
    assert "- theirs (from the project): of the project" in listing(agents)


def test_a_project_cannot_take_a_name_in_another_spelling_nor_one_that_models_know(tmp_path: Path) -> None:
    write(user(tmp_path), "mine", "description: of the user")
    for name in ("Mine", "BUILD", "general-purpose"):
        write(project(tmp_path), name, "description: of the project")
    agents, _ = read(tmp_path)
    for name in ("mine", "MINE", "Mine", "build", "Build", "BUILD", "general-purpose"):
        found = find_agent(name, agents)
        assert found is not None
        assert found.source != "project", name
    assert {"project:Mine", "project:BUILD", "project:general-purpose"} < set(agents)


def test_a_link_that_leads_out_of_a_project_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text(f"---\ndescription: x\n{BODY}")
    project(tmp_path).mkdir(parents=True)
    (project(tmp_path) / "link.md").symlink_to(secret)
    agents, problems = read(tmp_path)
    assert "link" not in agents
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("declared", "named", "unknown"),
    [
        ({"tools": ("Read", "grep")}, {"read", "grep"}, ()),
        ({"tools": ("Edit",)}, {"edit", "write", "apply_patch"}, ()),
        ({"tools": ("Bash", "web_*")}, {"bash", "bash_output", "bash_stop", "web_search", "web_fetch"}, ()),
        ({"tools": ("Bash(git:*)", "read", "nothing")}, {"read"}, ("Bash(git:*)", "nothing")),
        ({"tools": ("question", "read")}, {"read"}, ()),
        ({"tools": ()}, set(), ()),
        ({"tools": ("read", "bash"), "denied_tools": ("bash",)}, {"read"}, ()),
        ({"tools": ("read", "bash"), "denied_tools": ("Bash(rm:*)",)}, {"read"}, ()),
    ],
)
def test_tools_are_chosen_by_name_and_what_is_unknown_is_named(
    declared: dict[str, tuple[str, ...]], named: set[str], unknown: tuple[str, ...]
) -> None:
    agent = AgentDeclaration("x", "x", tools=declared.get("tools"), denied_tools=declared.get("denied_tools", ()))
    chosen = choose_tools(agent, built_in_tools(), may_delegate=True)
    assert set(chosen.tools) == named
    assert chosen.unknown == unknown


def test_an_agent_without_a_list_has_all_tools_but_questions_and_delegates_only_where_it_may() -> None:
    everything = set(built_in_tools()) - {"question", "present_plan"}
    build = BUILT_IN[2]
    assert set(choose_tools(build, built_in_tools(), may_delegate=True).tools) == everything
    assert set(choose_tools(build, built_in_tools(), may_delegate=False).tools) == everything - {"task"}


def test_agents_that_read_have_no_tool_that_edits() -> None:
    for agent in BUILT_IN[:2]:
        tools = choose_tools(agent, built_in_tools(), may_delegate=True).tools
        assert not {"edit", "write", "apply_patch"} & set(tools)
        assert agent.mode == "plan"


def test_an_agent_is_found_in_any_case_and_by_names_of_others() -> None:
    agents = {each.name: each for each in BUILT_IN}
    found = [find_agent(name, agents) for name in ("Explore", "general-purpose", "nobody")]
    assert [each and each.name for each in found] == ["explore", "build", None]


async def test_the_list_for_the_model_is_kept_while_the_session_is_open_and_a_new_agent_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session() as session:
        await ask(session, "say x")
        write(service.home / "agents", "later", "description: written later")
        await ask(session, task("later", "say it works"), "say {result}")
        assert "it works" in session.state.text
        requests = [each for each in model.requests if each.session_id == session.id]
        described = [tool.description for each in requests for tool in each.tools if tool.name == "task"]
        assert len(described) == 3
        assert len(set(described)) == 1
        assert "- explore: Searches and reads" in described[0]
        await ask(session, "/agents")
        await ask(session, "say y")
        assert "- later: written later" in next(t.description for t in model.requests[-1].tools if t.name == "task")


async def test_the_prompt_of_an_agent_is_in_its_system_prompt_with_the_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    (service.project / "AGENTS.md").write_text("Use tabs.\n")
    write(service.home / "agents", "mine", "description: x", "tools: read", body="You are careful.")
    async with service.session() as session:
        await ask(session, task("mine", "say x"))
        (request,) = [each for each in model.requests if each.session_id != session.id]
    assert "You are the subagent mine." in request.system
    assert "You are careful." in request.system
    assert "Use tabs." in request.system
    assert [tool.name for tool in request.tools] == ["read"]


async def test_a_wrong_file_is_shown_as_a_notice_once(tmp_path: Path) -> None:
    service = Service(tmp_path)
    write(service.home / "agents", "wrong", "name: wrong")
    async with service.session() as session:
        await ask(session, "say x")
        await ask(session, "say y")
        (notice,) = [item for item in session.state.timeline if isinstance(item, v1.Notice)]
        assert "wrong.md is left out: it has no description" in str(notice.description)


async def test_the_command_agents_lists_them_with_source_tools_and_problems(tmp_path: Path) -> None:
    service = Service(tmp_path)
    write(service.home / "agents", "mine", "description: my own", "tools: read, nothing", "mode: plan", "steps: 3")
    write(service.home / "agents", "wrong", "name: wrong")
    async with service.session() as session:
        await ask(session, "/agents")
        text = session.state.text
    assert "- `build` " in text
    assert "(built-in; all tools)" in text
    assert "tools: read; no such tools: nothing; mode plan; at most 3 steps)" in text
    assert "wrong.md is left out" in text
