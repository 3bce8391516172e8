"""The rule file: what is written is found again, and a broken file is never overwritten."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.settings.rule_file import RuleFile


@pytest.fixture
def file(tmp_path: Path) -> RuleFile:
    return RuleFile(tmp_path / "config" / "rules.json")


def written(file: RuleFile, text: str) -> RuleFile:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(text)
    return file


def texts(file: RuleFile, project: Path | None = None) -> list[str]:
    return [f"{rule.action} {rule.text}" for rule in file.rules(project)]


def test_missing_file_has_no_rules_and_reading_creates_none(file: RuleFile, tmp_path: Path) -> None:
    assert file.rules(tmp_path) == []
    assert not file.path.parent.exists()


def test_what_is_remembered_is_found_by_another_reader(file: RuleFile, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    assert file.remember("read", "allow")
    assert file.remember("execute:npm test", "allow", "project", project)
    again = RuleFile(file.path)
    assert texts(again) == ["allow read"]
    assert texts(again, project) == ["allow read", "allow execute:npm test"]
    assert [rule.scope for rule in again.rules(project)] == ["pinned", "project"]
    assert {rule.source for rule in again.rules(project)} == {str(file.path)}
    assert all(kept.added.endswith("Z") for kept in again.kept())


def test_the_file_is_indented_and_only_its_owner_can_read_it(file: RuleFile) -> None:
    file.remember("edit:src/**", "deny")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    document = json.loads(file.path.read_text())
    assert document["version"] == 1
    assert document["user"][0] | {"added": ""} == {"rule": "edit:src/**", "action": "deny", "added": ""}
    assert len(file.path.read_text().splitlines()) > 5


def test_a_project_is_its_real_path_whatever_link_leads_to_it(file: RuleFile, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    file.remember("read", "allow", "project", link)
    assert texts(file, real) == ["allow read"]
    assert list(json.loads(file.path.read_text())["projects"]) == [str(real)]
    assert texts(file, tmp_path) == []


def test_a_rule_is_kept_once_and_its_newest_action_counts(file: RuleFile) -> None:
    assert file.remember("read", "allow")
    assert not file.remember("read", "allow")
    assert file.remember("read", "deny")
    assert texts(file) == ["deny read"]


def test_a_rule_is_forgotten_where_it_was_kept_and_nowhere_else(file: RuleFile, tmp_path: Path) -> None:
    file.remember("read", "allow")
    file.remember("read", "allow", "project", tmp_path)
    assert not file.forget("read", "deny")
    assert file.forget("read", "allow", "project", tmp_path)
    assert not file.forget("read", "allow", "project", tmp_path)
    assert texts(file, tmp_path) == ["allow read"]
    assert json.loads(file.path.read_text())["projects"] == {}
    assert file.forget("read")
    assert file.rules() == []


@pytest.mark.parametrize("text", ["*", "gemini@*", "execute:*", "nonsense", "execute:sudo *"])
def test_a_rule_that_may_not_be_kept_is_refused_and_nothing_is_written(file: RuleFile, text: str) -> None:
    with pytest.raises(ConfigError):
        file.remember(text, "allow")
    assert not file.path.exists()


def test_a_project_rule_needs_a_project(file: RuleFile) -> None:
    with pytest.raises(ConfigError, match="folder"):
        file.remember("read", "allow", "project")


BROKEN = {
    "not JSON": '{"version": 1,',
    "empty": "",
    "a list": "[]",
    "another version": '{"version": 2, "user": []}',
    "an unknown member": '{"version": 1, "users": []}',
    "user is not a list": '{"user": {}}',
    "projects is not an object": '{"projects": []}',
    "a project is not a list": '{"projects": {"/p": {}}}',
    "a rule is not an object": '{"user": ["read"]}',
    "a rule is not a string": '{"user": [{"rule": 1, "action": "allow"}]}',
    "an unknown action": '{"user": [{"rule": "read", "action": "permit"}]}',
    "an unreadable rule": '{"user": [{"rule": "reed", "action": "allow"}]}',
    "everything allowed": '{"user": [{"rule": "*", "action": "allow"}]}',
    "every command allowed in a project": '{"projects": {"/p": [{"rule": "execute:*", "action": "allow"}]}}',
    "not text": "\udcff",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_understood_is_an_error_that_names_it(file: RuleFile, text: str) -> None:
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        file.rules()
    assert str(file.path) in str(caught.value)


SHAPELESS = [name for name in BROKEN if not name.endswith(("unreadable rule", "allowed", "in a project"))]


@pytest.mark.parametrize("name", SHAPELESS)
def test_a_broken_file_is_never_written_over(file: RuleFile, name: str) -> None:
    before = BROKEN[name].encode(errors="surrogateescape")
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(before)
    with pytest.raises(ConfigError):
        file.remember("read", "allow")
    with pytest.raises(ConfigError):
        file.forget("read")
    assert file.path.read_bytes() == before


def test_a_rule_that_cannot_be_read_can_still_be_removed(file: RuleFile) -> None:
    written(file, '{"user": [{"rule": "*", "action": "allow"}, {"rule": "read", "action": "allow"}]}')
    assert file.forget("*")
    assert texts(file) == ["allow read"]


def test_a_file_that_may_not_be_read_is_an_error(file: RuleFile) -> None:
    file.path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        file.rules()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        RuleFile(tmp_path / "file" / "rules.json").remember("read", "allow")


def test_a_link_put_there_by_a_dotfile_manager_stays_a_link(file: RuleFile, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "rules.json"
    target.parent.mkdir()
    target.write_text('{"version": 1}')
    file.path.parent.mkdir(parents=True)
    file.path.symlink_to(target)
    file.remember("read", "allow")
    assert file.path.is_symlink()
    assert texts(RuleFile(target)) == ["allow read"]


def test_writers_at_the_same_time_lose_nothing(file: RuleFile) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: RuleFile(file.path).remember(f"edit:file{n}", "allow"), range(24)))
    assert sorted(texts(file)) == sorted(f"allow edit:file{n}" for n in range(24))
    assert sorted(os.listdir(file.path.parent)) == ["rules.json", "rules.lock"]
