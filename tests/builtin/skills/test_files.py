"""Which skills are found, in which order, and what is wrong with files."""

from pathlib import Path

import pytest

from dragoman.builtin.skills.files import MOST_SKILLS, files_of, find_skills
from dragoman.builtin.skills.index import INDEX_CHARACTERS, skill_index
from dragoman.builtin.skills.skill import Skill, SkillError, read_skill
from tests.builtin.skills.fixtures import write_skill


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "src").mkdir()
    return tmp_path / "project"


def test_the_first_skill_of_a_name_counts_the_users_before_the_projects(
    tmp_path: Path, home: Path, project: Path
) -> None:
    config = tmp_path / "config"
    places = [
        config / "skills",
        home / ".agents/skills",
        home / ".claude/skills",
        project / "src/.agents/skills",
        project / "src/.claude/skills",
        project / ".dragoman/skills",
        project / ".agents/skills",
        project / ".claude/skills",
    ]
    for number, place in enumerate(places):
        for later in range(number + 1):
            write_skill(place, f"skill-{later}", f"place {number}")
    write_skill(tmp_path / ".agents/skills", "above", "outside of the project")
    found = find_skills(str(project / "src"), config)
    assert {name: skill.description for name, skill in found.skills.items()} == {
        f"skill-{number}": f"place {number}" for number in range(len(places))
    }
    assert [skill.source for skill in found.skills.values()] == ["user"] * 3 + ["project"] * 5
    assert len(found.hidden) == sum(range(len(places)))
    assert found.problems == ()


def test_a_place_that_is_reached_twice_is_read_once(tmp_path: Path, home: Path, project: Path) -> None:
    write_skill(home / ".agents/skills", "one")
    (home / ".claude").mkdir()
    (home / ".claude/skills").symlink_to(home / ".agents/skills")
    found = find_skills(str(project), tmp_path / "config")
    assert (list(found.skills), found.hidden) == (["one"], ())


def test_members_of_the_open_format_and_of_claude_are_read(tmp_path: Path) -> None:
    text = (
        "---\nname: pdf\ndescription: Use when: the user has a PDF, e.g. a form\nlicense: MIT\n"
        "compatibility: needs python\nallowed-tools: Bash(*) Read\nargument-hint: FILE\n"
        "disable-model-invocation: true\nuser-invocable: false\nmetadata:\n  version: 1\n---\n"
        "Use ${CLAUDE_SKILL_DIR}/a\n"
    )
    read = read_skill(text, "pdf", "user", "/s/pdf/SKILL.md", folder="/s/pdf")
    assert read.skill == Skill(
        *("pdf", "Use when: the user has a PDF, e.g. a form", "user", "/s/pdf/SKILL.md", "/s/pdf"),
        license="MIT",
        compatibility="needs python",
        allowed_tools="Bash(*) Read",
        hint="FILE",
        is_for_model=False,
        is_for_user=False,
    )
    assert read.body == "Use /s/pdf/a"
    assert read.notes == ()


@pytest.mark.parametrize(
    ("folder", "text", "why"),
    [
        ("a", "---\nname: b\ndescription: x\n---\ny", "not that of its folder"),
        ("a", "---\nname: a\n---\ny", "no description"),
        ("a", "just words", "no description"),
        ("a", "---\nname: a\ndescription: x\n---\n", "no text"),
        ("a" * 65, f"---\nname: {'a' * 65}\ndescription: x\n---\ny", "65 characters"),
        ("A", "---\nname: A\ndescription: x\n---\ny", "a-z and 0-9"),
        ("a--b", "---\nname: a--b\ndescription: x\n---\ny", "a-z and 0-9"),
    ],
)
def test_a_broken_skill_is_left_out_with_a_reason(folder: str, text: str, why: str) -> None:
    with pytest.raises(SkillError, match=why):
        read_skill(text, folder, "user", "/x")


def test_problems_name_the_file_and_other_skills_stay(tmp_path: Path, home: Path, project: Path) -> None:
    place = project / ".agents/skills"
    write_skill(place, "good", "d" * 2000)
    write_skill(place, "bad").joinpath("SKILL.md").write_text("no front matter")
    write_skill(place, "huge", body="x" * 200_000)
    (place / "binary").mkdir()
    (place / "binary" / "SKILL.md").write_bytes(b"\0\1\2")
    (place / "no-skill").mkdir()
    found = find_skills(str(project), tmp_path / "config")
    assert list(found.skills) == ["good"]
    assert len(found.skills["good"].description) == 1024
    assert [problem.split(" ")[0].rsplit("/", 2)[-2] for problem in found.problems] == ["bad", "binary", "good", "huge"]


def test_a_link_out_of_the_project_is_not_followed_but_the_users_own_is(
    tmp_path: Path, home: Path, project: Path
) -> None:
    elsewhere = write_skill(tmp_path / "elsewhere", "linked")
    for place in (home / ".agents/skills", project / ".agents/skills"):
        place.mkdir(parents=True)
    (project / ".agents/skills/linked").symlink_to(elsewhere)
    found = find_skills(str(project), tmp_path / "config")
    assert not found.skills
    assert "linked/SKILL.md is left out" in found.problems[0]
    (home / ".agents/skills/linked").symlink_to(elsewhere)
    assert find_skills(str(project), tmp_path / "config").skills["linked"].source == "user"


def test_the_number_of_skills_is_bounded(tmp_path: Path, home: Path, project: Path) -> None:
    for number in range(MOST_SKILLS + 1):
        write_skill(tmp_path / "config/skills", f"s{number:03}")
    found = find_skills(str(project), tmp_path / "config")
    assert len(found.skills) == MOST_SKILLS
    assert "more than 200 skills" in found.problems[-1]


def test_the_files_of_a_skill_are_listed_within_bounds(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "one")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "a.py").write_text("")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("")
    assert files_of(str(folder)) == (["scripts/a.py"], False)
    for number in range(100):
        (folder / f"{number}.md").write_text("")
    files, has_more = files_of(str(folder))
    assert (len(files), has_more) == (60, True)


def test_the_index_is_short_and_marks_what_comes_from_others() -> None:
    skills = [
        Skill("a", "does\x1b a " + "x" * 500, "user", "/a"),
        Skill("b", "does b", "project", "/b"),
        Skill("c", "does c", "mcp", "skill://c/SKILL.md", server="s"),
        Skill("d", "does d", "user", "/d", is_for_model=False),
    ]
    lines = skill_index(skills).splitlines()[-3:]
    assert len(lines[0]) < 210
    assert lines[1:] == ["- b (from the project): does b", "- c (from the MCP server s): does c"]
    assert skill_index(skills) == skill_index(list(skills))
    assert skill_index(skills[3:]) == skill_index([]) == ""


@pytest.mark.parametrize("count", [40, 200, 2000])
def test_a_long_index_has_shorter_lines_and_an_end(count: int) -> None:
    index = skill_index(Skill(f"skill-{number}", "word " * 50, "user", "/x") for number in range(count))
    assert len(index) < INDEX_CHARACTERS + 500
    assert "- skill-0" in index
    assert ("more, which" in index) is (count == 2000)
