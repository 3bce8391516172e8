"""A deny holds in any spelling, whoever runs the agent: exec, the local host, serve, the guard, the built-in agent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.exec_kit import Place
from tests.cli.test_serve import Home
from tests.cli.test_serve_guard import ask, guarded, home, reported
from tests.cli.ways import place, plain_place, shared_host
from tests.proxy.kit import guarded as guard_around
from tests.proxy.kit import permission, selected

__all__ = ["home", "place", "plain_place", "shared_host"]

DENIES = ("execute:rm -rf *", "execute:git push --force *", "execute:npm install *")
SPELLED = (
    "rm -f -R victim",
    "prlimit --core=0 sh -c 'rm -r --force victim'",
    "git push origin +main",
    "npm -s isntall left-pad",
    "make --eval='$(shell rm -fr victim)'",
    "git -c diff.external='rm -fr victim;:' diff",
)
RULES = ("--allow", "*", *(word for deny in DENIES for word in ("--deny", deny)))


def test_a_spelling_of_a_denied_command_is_refused_in_a_run_and_in_the_local_host(place: Place) -> None:
    (place.project / "victim").mkdir()
    done = place.run("\n".join(SPELLED), *RULES, "--output", "json", odd="runs-the-prompt")
    assert_refused(done.result["permissions"], place.project)
    reasons = [line for line in done.result["text"].splitlines() if "Not permitted" in line and "rule execute:" in line]
    assert len(reasons) == len(SPELLED), done.result["text"]


def test_a_spelling_of_a_denied_command_of_the_built_in_agent_is_refused(plain_place: Place) -> None:
    (plain_place.project / "victim").mkdir()
    script = "\n".join(f"run {line}" for line in SPELLED)
    done = plain_place.run("--model", "scripted", *RULES, "--output", "json", script)
    assert_refused(done.result["permissions"], plain_place.project)


def test_a_spelling_of_a_denied_command_of_a_hosted_agent_is_refused(home: Home) -> None:
    (home.project / "victim").mkdir()
    with guarded(home, "runs-the-prompt", *RULES) as url:
        done = ask(home, url, "\n".join(SPELLED))
    answers = reported(done)
    assert len(answers) == len(SPELLED)
    assert all("Not permitted" in answer for answer in answers), answers
    assert (home.project / "victim").exists()


async def test_a_spelling_of_a_denied_command_is_refused_by_the_guard(tmp_path: Path) -> None:
    async with guard_around(tmp_path, deny=DENIES, allow=["*"], asks_editor=False) as guard:
        await guard.open()
        for number, line in enumerate(SPELLED):
            call = permission(f"c{number}", kind="execute", rawInput={"command": line})
            assert await guard.asked("session/request_permission", **call) != selected("yes"), line
        decisions = [record["decision"] for record in guard.records("decision")]
        assert [each["outcome"] for each in decisions if each["outcome"] == "allow"] == []


def assert_refused(permissions: list[dict[str, object]], project: Path) -> None:
    """Each line was refused, by a rule or because no user can be asked about it."""
    shown = json.dumps(permissions, indent=1)
    assert len(permissions) == len(SPELLED), shown
    assert all(made["action"] != "allow" for made in permissions), shown
    assert (project / "victim").exists()
