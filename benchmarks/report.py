"""Turns the rounds' numbers into medians, ratios, verdicts, a table for people and a file for programs."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cases import OURS, ROUNDS_THAT_COUNT, Case, Goal, Measure
from benchmarks.peers import Peer

# One dictionary per round, in order; None where the job failed.
Rounds = dict[str, list[dict[str, float] | None]]


# What an idle desktop uses, in cores. Above this the scheduler moves the peers about, and waiting gets into the times.
QUIET_CORES = 0.2


class Outcome(msgspec.Struct):
    """Everything one run found out."""

    peers: list[Peer]
    cases: list[Case]
    rounds: dict[str, Rounds]
    errors: list[str]
    left_behind: dict[str, int]
    is_quick: bool
    seconds: float
    foreign_cores: float


class Verdict(msgspec.Struct):
    """A goal, what was reached (None: not measured), and from how many rounds."""

    case: str
    measure: str
    key: str
    goal: str
    value: float | None
    is_met: bool
    rounds: int
    is_disturbed: bool


def calm_only(rounds: Rounds) -> Rounds:
    """The rounds in which other programs left all peers alone. A failed job is never excused by that."""
    noise = [[each["foreign_cores"] if each else 0.0 for each in column] for column in rounds.values()]
    calm = [number for number, row in enumerate(zip(*noise, strict=False)) if max(row) <= QUIET_CORES]
    return {peer: [column[number] for number in calm] for peer, column in rounds.items()}


def calm_rounds(rounds: Rounds) -> int:
    return min((len(column) for column in calm_only(rounds).values()), default=0)


def counted(rounds: Rounds) -> Rounds:
    """The undisturbed rounds if they are enough for a verdict, else all."""
    return calm_only(rounds) if calm_rounds(rounds) >= ROUNDS_THAT_COUNT else rounds


def is_disturbed(rounds: Rounds) -> bool:
    return calm_rounds(rounds) < max(map(len, rounds.values()), default=0)


def disturbed_cases(outcome: Outcome) -> list[str]:
    """The cases judged by rounds that other programs disturbed."""
    return [case.name for case in outcome.cases if is_disturbed(counted(outcome.rounds[case.name]))]


def values_of(rounds: Rounds, peer: str, key: str) -> list[float]:
    return [each[key] for each in rounds.get(peer, []) if each is not None and key in each]


def median_of(rounds: Rounds, peer: str, key: str) -> float | None:
    values = values_of(rounds, peer, key)
    return statistics.median(values) if values else None


def ratios_of(rounds: Rounds, peer: str, other: str, key: str) -> list[float]:
    """The ratio in each round both were measured in: the two share the noise of their round."""
    pairs = zip(rounds.get(peer, []), rounds.get(other, []), strict=False)
    return [mine[key] / theirs[key] for mine, theirs in pairs if mine and theirs and theirs.get(key)]


def judge(case: Case, all_rounds: Rounds, titles: dict[str, str]) -> list[Verdict]:
    rounds = counted(all_rounds)
    verdicts = []
    measures = {measure.key: measure for measure in case.measures}
    for goal in case.goals:
        key = goal.key
        values = ratios_of(rounds, OURS, goal.peer, key) if goal.peer else values_of(rounds, OURS, key)
        value = statistics.median(values) if values else None
        verdicts.append(
            Verdict(
                case=case.name,
                measure=measures[key].title.strip(),
                key=key,
                goal=_goal_text(goal, titles),
                value=value,
                is_met=value is not None and goal.is_met_by(value),
                rounds=len(values),
                is_disturbed=is_disturbed(rounds),
            )
        )
    return verdicts


def _goal_text(goal: Goal, titles: dict[str, str]) -> str:
    words = "at most" if goal.sign == "<=" else "at least"
    return f"{words} {goal.bound:g}" + (f" x {titles.get(goal.peer, goal.peer)}" if goal.peer else "")


def judge_all(outcome: Outcome) -> list[Verdict]:
    titles = {peer.name: peer.title for peer in outcome.peers}
    return [verdict for case in outcome.cases for verdict in judge(case, outcome.rounds[case.name], titles)]


def _cell(case: Case, rounds: Rounds, peer: str, measure: Measure) -> str:
    value = median_of(rounds, peer, measure.key)
    if value is None:
        return "failed" if rounds.get(peer) else "-"
    text = f"{value:,.{measure.digits}f}"
    if not measure.is_compared:
        return text
    ratios = ratios_of(rounds, peer, "raw", measure.key)
    return f"{text} ({statistics.median(ratios):.2f}x)" if ratios and peer != "raw" else text


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def table(outcome: Outcome) -> str:
    """Medians per peer; in brackets the median ratio to the floor."""
    rows = [["measure", *(peer.title for peer in outcome.peers)]]
    for case in outcome.cases:
        rounds = counted(outcome.rounds[case.name])
        for measure in case.measures:
            rows.append([measure.title, *(_cell(case, rounds, peer.name, measure) for peer in outcome.peers)])
    lines = _aligned(rows)
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def goals(outcome: Outcome) -> str:
    """One line per goal: what was asked, what was reached, met or missed."""
    rows = [["goal", "asked", "reached", "verdict"]]
    for verdict in judge_all(outcome):
        reached = "-" if verdict.value is None else f"{verdict.value:.2f}"
        rows.append([verdict.measure, verdict.goal, reached, _mark(verdict, outcome.is_quick)])
    lines = _aligned(rows)
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _mark(verdict: Verdict, is_quick: bool) -> str:
    if verdict.value is None:
        return "not measured"
    mark = "met" if verdict.is_met else "MISSED"
    if is_quick or verdict.rounds < ROUNDS_THAT_COUNT:
        return f"{mark} (does not count)"
    return f"{mark} (disturbed)" if verdict.is_disturbed else mark


def write_json(outcome: Outcome, path: Path) -> None:
    """Every round's numbers, so that anyone can compute another statistic."""
    document: dict[str, Any] = {
        "schema": 1,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds, 1),
        "is_quick": outcome.is_quick,
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "foreign_cores": round(outcome.foreign_cores, 2),
        },
        "peers": {peer.name: {"title": peer.title, "version": peer.version} for peer in outcome.peers},
        "goals": [msgspec.to_builtins(verdict) for verdict in judge_all(outcome)],
        "cases": {case.name: _case_document(case, outcome) for case in outcome.cases},
        "errors": outcome.errors,
        "left_behind": outcome.left_behind,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _case_document(case: Case, outcome: Outcome) -> dict[str, Any]:
    rounds = outcome.rounds[case.name]
    medians: dict[str, dict[str, float]] = {}
    for peer in rounds:
        keys = {key for each in rounds[peer] if each for key in each}
        medians[peer] = {key: statistics.median(values_of(counted(rounds), peer, key)) for key in sorted(keys)}
    return {
        "title": case.title,
        "params": case.quick if outcome.is_quick else case.params,
        "median": medians,
        "rounds": rounds,
    }
