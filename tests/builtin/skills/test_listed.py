"""Skills that an MCP server lists by the extension for them: names, files, and texts that are not what was listed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.mcp.listing import ResourceText
from dragoman.builtin.skills.manifest import SkillFile, SkillOffer, mismatch_in, read_entry
from dragoman.builtin.skills.skill import SkillError
from tests.builtin.http_service import RecordingModel, recording_model
from tests.builtin.mcp.fixtures import PASSWORD
from tests.builtin.mcp.test_offers import ROOT, Talk
from tests.builtin.skills.fixtures import outputs_of, service_at_home, write_skill

MODULE = "tests.builtin.skills.listed_server"


@asynccontextmanager
async def address_of(kind: str) -> AsyncIterator[dict[str, Any]]:
    """The entry of the settings for the server."""
    if kind == "stdio":
        yield {"command": sys.executable, "args": ["-m", MODULE, "stdio"], "cwd": ROOT}
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULE, "http", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp"
        yield {"type": "http", "url": url, "headers": {PASSWORD.name: PASSWORD.value}}
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def talk(folder: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]) -> AsyncIterator[Talk]:
    model: RecordingModel = recording_model(monkeypatch)
    service = service_at_home(folder, monkeypatch)
    write_skill(service.home / "skills", "daily", body="the user's own")
    (service.home / "settings.json").write_text(json.dumps({"mcp_servers": {"kitchen": entry}}))
    async with service.client("allow_once") as remote:
        yield Talk(await remote.new_session(service.project), model)


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_the_list_of_the_server_says_what_a_skill_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with address_of(kind) as entry, talk(tmp_path, monkeypatch, entry) as chat:
        await chat.say("say ready")
        index = chat.model.requests[0].system
        assert "- cooking (from the MCP server kitchen): Cooks things" in index
        assert "- kitchen:cooking (from the MCP server kitchen): Bakes things" in index
        assert "- kitchen:daily (from the MCP server kitchen): Made when it is read" in index
        assert "not-a-skill" not in index  # its URI alone does not make it one
        first = await chat.say('call skill {"name": "cooking"}', "say {result}")
        assert "Boil water." in first
        assert "- skill://kitchen/cooking/salt.md" in first
        assert "unlisted.md" not in first
        assert "comes from an MCP server and not from the user" in first
        assert "Heat the oven." in await chat.say('call skill {"name": "kitchen:cooking"}', "say {result}")
        assert "the user's own" in await chat.say('call skill {"name": "daily"}', "say {result}")
        assert "Today is today." in await chat.say('call skill {"name": "kitchen:daily"}', "say {result}")
        wrong = await chat.say('call skill {"name": "baking"}', "say {result}")
        assert "does not state what the MCP server kitchen lists of it" in wrong
        assert "Heat the oven" in await chat.say("/kitchen:cooking")
        # Prompts are commands for the user, with arguments by position and by name.
        assert await chat.say("/kitchen:season soup") == "gently season the soup"
        assert await chat.say("/kitchen:season how=well dish='pea soup'") == "well season the pea soup"
        assert "needs dish" in await chat.say("/kitchen:season")
        assert "does not list its files" in await chat.say("/mcp kitchen")


async def test_a_file_that_is_not_what_was_listed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 'call mcp_resource {"server": "kitchen", "uri": "skill://kitchen/cooking/%s"}'
    async with address_of("stdio") as entry, talk(tmp_path, monkeypatch, entry) as chat:
        assert "A pinch." in await chat.say(read % "salt.md", "say {result}")
        assert "is not among the files that the skill" in await chat.say(read % "unlisted.md", "say {result}")
        await chat.say("call kitchen_change {}")
        changed = await chat.say(read % "salt.md", "say {result}")
        assert "it has changed since" in changed
        assert "A spoon." not in changed
        await chat.say("call kitchen_publish {}")
        await chat.say(read % "salt.md")  # the list is read again because of it
        assert "A spoon." in await chat.say(read % "salt.md", "say {result}")
        assert outputs_of(chat.updates)


FILE = {"uri": "skill://a/SKILL.md", "digest": "sha256:0", "size": 1}
RIGHT: dict[str, Any] = {
    "uri": "skill://a/SKILL.md",
    "frontmatter": {"name": "a", "description": "does it"},
    "resources": [FILE],
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"uri": "skill://b/SKILL.md"}, "not in a folder with its name"),
        ({"uri": "skill://a/README.md"}, "URI of a SKILL.md"),
        ({"uri": 7}, "URI of a SKILL.md"),
        ({"frontmatter": {"name": "a"}}, "needs a name and a description"),
        ({"frontmatter": {"name": "A B", "description": "x"}, "uri": "skill://A B/SKILL.md"}, "must consist of"),
        ({"frontmatter": None}, "needs frontmatter"),
        ({"resources": None}, "does not list its files"),
        ({"resources": "static"}, "does not list its files"),
        ({"resources": [{**FILE, "size": True}]}, "does not list its files"),
        ({"resources": [{**FILE, "uri": "skill://a/other.md"}]}, "does not list its files"),
        ({"resources": [{**FILE, "size": 17 << 20}]}, "more than 16 MiB"),
        ({"resources": [{**FILE, "uri": f"skill://a/{n}"} for n in range(512)] + [FILE]}, "more than 512 files"),
    ],
)
def test_entries_that_cannot_be_used_say_why(change: dict[str, Any], why: str) -> None:
    assert read_entry(RIGHT).files == (SkillFile("skill://a/SKILL.md", "sha256:0", 1),)
    assert read_entry({**RIGHT, "resources": "dynamic"}).files is None
    with pytest.raises(SkillError, match=why):
        read_entry({**RIGHT, **change})
    with pytest.raises(SkillError, match="needs frontmatter"):
        read_entry("no entry")


def test_binary_files_are_compared_too() -> None:
    digest = "sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    skill = SkillOffer("skill://a/SKILL.md", "a", "", (SkillFile("skill://a/x", digest, 1),))
    assert mismatch_in([skill], "skill://a/x", (ResourceText("skill://a/x", None, blob="AA=="),)) == ""
    assert mismatch_in([skill], "skill://a/x", (ResourceText("skill://a/x", None, blob="!!"),))
    assert mismatch_in([skill], "skill://ab/x", (ResourceText("skill://ab/x", "t"),)) == ""
