"""Written solutions through a mock provider in each wire form: the same tasks and judges, another way to the model."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.evaluation.attempt import attempt, drive_by_exec
from dragoman.evaluation.drive import AgentChoice
from dragoman.evaluation.task import load_tasks
from tests.builtin.providers.server import VARIABLES, WIRES, ProviderServer, Wire
from tests.evaluation.in_process import in_process
from tests.evaluation.playing_provider import Player


@pytest.mark.parametrize(
    ("name", "wire"),
    list(zip(("touching-intervals", "four-encodings", "release-refused", "ticket-42"), WIRES.values(), strict=True)),
    ids=WIRES,
)
async def test_a_solution_passes_in_every_wire_form(name: str, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    [task] = load_tasks(names=[name])
    player = Player(task)
    with ProviderServer(play=player.play) as server:
        for variable, value in {**dict.fromkeys(VARIABLES, ""), **wire.variables(server.url)}.items():
            monkeypatch.setenv(variable, value)
        run = await attempt(task, 1, in_process("right", monkeypatch, wire.model))
    assert server.failures == []
    assert run.outcome == "passed", run
    assert player.played == len(server.asked)


async def test_a_real_process_with_a_provider_reports_its_tokens(tmp_path: Path) -> None:
    [task] = load_tasks(names=["csv-export"])
    wire, player = WIRES["anthropic"], Player(task)
    with ProviderServer(play=player.play) as server:
        environment = {"PATH": os.environ["PATH"], **wire.variables(server.url)}
        choice = AgentChoice(agent="dragoman", model=wire.model)
        run = await attempt(task, 1, drive_by_exec(choice, environment), recordings=tmp_path)
    assert run.outcome == "passed", run
    assert run.facts is not None
    assert run.facts.model_calls == player.played == 8
    assert run.facts.tokens is not None
    assert run.facts.tokens.total
    assert run.facts.protocol_violations == []
    assert (tmp_path / "csv-export-1.jsonl").exists()


async def test_a_task_that_does_not_fit_the_window_is_shortened_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    [task] = load_tasks(names=["sixty-migrations"])
    wire, player = WIRES["openai-chat"], Player(task, window_tokens=32_000)
    with ProviderServer(play=player.play) as server:
        for variable, value in {**dict.fromkeys(VARIABLES, ""), **wire.variables(server.url)}.items():
            monkeypatch.setenv(variable, value)
        run = await attempt(task, 1, in_process("right", monkeypatch, wire.model))
    assert server.failures == []
    assert run.outcome == "passed", run
    # The conversation as a whole is larger than the window, so it was shortened on the way.
    assert any(after < before for before, after in pairwise(player.tokens))
    added = [after - before for before, after in pairwise(player.tokens) if after > before]
    assert player.tokens[0] + sum(added) > 32_000
