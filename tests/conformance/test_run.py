"""The runner: what is shared, what is run again, and where the judged ends and the judge begins."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.conformance.agent.in_process import AgentInProcess
from dragoman.conformance.agent.probe import AgentCheckSettings, AgentProbe
from dragoman.conformance.agent.program import AgentProgram
from dragoman.conformance.agent.prompts import PRESETS, preset, preset_for, read_prompts
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import (
    CASES,
    Case,
    CaseResult,
    Fail,
    FunctionCase,
    Inconclusive,
    Skip,
    Status,
    Warn,
    case,
    load_cases,
    status_of,
)
from dragoman.errors import AgentExited, ConfigError
from dragoman.testing import scripted_agent
from tests.conformance.mutants import mutant
from tests.conformance.tamper import answers

QUICK = AgentCheckSettings(timeout_seconds=2.0)


def made(run: Callable[[AgentProbe], Awaitable[None]], *, level: Any = "MUST", shares: str = "full") -> Case:
    return FunctionCase(
        "agent/made/up",
        rules=(25,),
        level=level,
        about="it is made up",
        explanation="Sends nothing.",
        shares=shares,
        function=run,
    )


async def judged(*cases: Case, target: Any = None) -> list[CaseResult]:
    report = await AgentRun(target or AgentInProcess(scripted_agent), QUICK, jobs=1).run(cases)
    return report.results


@pytest.mark.parametrize(
    ("ending", "level", "status"),
    [
        (Fail("x"), "MUST", "fail"),
        (Fail("x"), "SHOULD", "warn"),
        (Fail("x"), "MAY", "warn"),
        (Warn("x"), "MUST", "warn"),
        (Skip("x"), "MUST", "skipped"),
        (Inconclusive("x"), "MUST", "inconclusive"),
    ],
)
async def test_ending_counts_by_the_level_of_its_case(ending: Any, level: Any, status: Status) -> None:
    async def run(probe: AgentProbe) -> None:
        raise ending

    [result] = await judged(made(run, level=level))
    assert (result.status, result.message) == (status, "x")
    assert status_of(made(run, level=level), ending) == status


async def test_bug_of_a_case_is_an_error_of_the_judge_and_not_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def run(probe: AgentProbe) -> None:
        raise KeyError("half a character: \ud800")

    [result] = await judged(made(run))
    assert result.status == "error"
    assert result.message.startswith("KeyError")
    result.message.encode()
    assert "has a bug" in caplog.text


async def test_case_that_fails_where_others_were_before_runs_again_alone_and_only_that_counts() -> None:
    seen: list[int] = []

    async def spoils(probe: AgentProbe) -> None:
        probe.answered["spoiled"] = True

    async def minds(probe: AgentProbe) -> None:
        seen.append(id(probe))
        if "spoiled" in probe.answered:
            raise Fail("another case was here before")

    first = replace(made(spoils), id="agent/made/first")
    second = replace(made(minds), id="agent/made/second")
    results = await judged(first, second)
    assert [result.status for result in results] == ["pass", "pass"]
    assert len(set(seen)) == 2


async def test_evidence_is_the_handshake_and_what_was_exchanged_while_the_case_ran() -> None:
    async def run(probe: AgentProbe) -> None:
        await probe.call("_x/y", {"n": 1})
        raise Fail("as it should")

    [result] = await judged(made(run))
    frames = [getattr(entry, "data", b"") for entry in result.evidence]
    assert len(frames) == 4
    assert b'"initialize"' in frames[0]
    assert b'"_x/y"' in frames[2]
    assert b"-32601" in frames[3]


async def test_agent_that_never_answers_initialize_is_judged_by_that_alone() -> None:
    silent = mutant(answers("initialize", lambda request: None))
    async with asyncio.timeout(60):
        results = await judged(*load_cases("agent"), target=silent)
    statuses = {result.id: result.status for result in results}
    assert statuses.pop("agent/initialize/answers") == "fail"
    assert set(statuses.values()) == {"inconclusive"}


async def test_program_that_ends_at_once_cannot_be_judged() -> None:
    with pytest.raises(AgentExited, match="no such thing"):
        await judged(
            *load_cases("agent"), target=AgentProgram([sys.executable, "-c", "import sys; sys.exit('no such thing')"])
        )


async def test_program_that_is_not_there_cannot_be_judged() -> None:
    with pytest.raises(ConfigError):
        await judged(*load_cases("agent"), target=AgentProgram(["/no/such/program"]))


def test_id_names_side_area_and_case_and_is_taken_once() -> None:
    for wrong in ("agent/cancel/streaming", "agent/x", "server/x/y"):
        load_cases("agent")
        with pytest.raises(ValueError, match="taken"):
            case(wrong, rules=(1,))(lambda probe: asyncio.sleep(0))
    assert "agent/x" not in CASES


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("cancel/streaming", 1),
        ("agent/cancel/streaming", 1),
        ("cancel", 16),
        ("cancel/*", 16),
        ("can*/at-*", 1),
        ("nothing", 0),
    ],
)
def test_pattern_chooses_cases(pattern: str, expected: int) -> None:
    assert len(load_cases("agent", [pattern])) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-cli", "gemini"),
        ("@agentclientprotocol/claude-agent-acp", "claude"),
        ("@agentclientprotocol/codex-acp", "codex"),
        ("Kimi Code CLI", "kimi"),
        ("Copilot", "copilot"),
        ("dragoman-scripted", "scripted"),
        ("dragoman", "dragoman"),
        ("another-agent", "generic"),
        ("None", "generic"),
    ],
)
def test_agent_is_known_by_the_name_it_gives_itself(name: str, expected: str) -> None:
    assert preset_for(name) == expected


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_a_text_for_every_action_that_cases_need_of_any_model(name: str) -> None:
    prompts = preset(name)
    for action in ("say", "long", "slow", "tool", "read", "write", "run", "wait", "ask"):
        text = prompts.text(action, file="/x/y.txt", command="pwd", cwd="/x")
        assert text
        assert "{" not in text


def test_preset_of_cline_names_the_tools_of_its_present_version() -> None:
    texts = [preset("cline").text(action) or "" for action in ("read", "write", "edit", "run", "ask")]
    tools = ("read_files", "apply_patch", "apply_patch", "run_commands", "apply_patch")
    assert all(tool in text for tool, text in zip(tools, texts, strict=True))


def test_file_of_prompts_replaces_takes_away_and_keeps(tmp_path: Path) -> None:
    file = tmp_path / "prompts.toml"
    file.write_text('say = "ping"\nread = ""\nlogin = "key"\n')
    prompts = read_prompts(file)
    assert prompts.text("say") == "ping"
    assert prompts.text("read") is None
    assert prompts.text("run", command="pwd")
    assert prompts.login == "key"
    other = tmp_path / "prompts.json"
    other.write_text('{"say": "pong"}')
    assert read_prompts(other, preset("scripted")).text("plan") == "plan"


@pytest.mark.parametrize("text", ["dance = 'x'", "say = 5", "say =", "[say]\nx = 'y'"])
def test_file_of_prompts_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prompts.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"prompts\.toml"):
        read_prompts(file)
