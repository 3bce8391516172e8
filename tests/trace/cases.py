"""A rule, talk that breaks it and talk that does not: what the tables of the rule tests are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

from dragoman.trace.entry import Header
from tests.trace.talk import AGENT, CLIENT, Step, Talk, brief, findings, started

WHOLE = Header(started="2026-01-01T00:00:00Z")


class Case(NamedTuple):
    """`bad` brings exactly this finding, `good` nothing about this rule."""

    rule: int
    level: str
    dir: str
    bad: Step
    good: Step
    talk: Any = started
    good_talk: Any = None


def without(capabilities: dict[str, Any], *path: str) -> dict[str, Any]:
    """Capabilities that leave one out."""
    head, *rest = path
    kept = {name: value for name, value in capabilities.items() if name != head}
    return {**kept, head: without(capabilities[head], *rest)} if rest else kept


def lacks(side: str, *path: str) -> Any:
    """A connection with a session, where one side does not advertise something."""

    def talk() -> Talk:
        made = Talk()
        made.hello(
            without(CLIENT, *path) if side == "client" else CLIENT,
            without(AGENT, *path) if side == "agent" else AGENT,
        )
        made.open("s")
        return made

    return talk


def nothing(talk: Talk) -> Any:
    """What is missing is the point."""


def gate(rule: int, method: str, params: Any, *path: str, level: str = "MUST", by: str = "c2a") -> Case:
    """A method without its capability; refused as it should be, so that only the call is wrong."""

    def call(talk: Talk) -> None:
        talk.fail(talk.ask(method, params, by=by), -32601, by="a2c" if by == "c2a" else "c2a")  # type: ignore[arg-type]

    side = "agent" if by == "c2a" else "client"
    return Case(rule, level, by, call, call, lacks(side, *path), started)


def assert_found(case: Case) -> None:
    """The bad talk brings the finding, which was not there before; the good one nothing about this rule."""
    header = WHOLE if case.talk is Talk else None
    talk: Talk = case.talk()
    if case.bad is not nothing:
        assert (case.rule, case.level, case.dir) not in brief(findings(talk, header))
    case.bad(talk)
    assert (case.rule, case.level, case.dir) in brief(findings(talk, header))
    talk = (case.good_talk or case.talk)()
    case.good(talk)
    assert case.rule not in [finding.rule for finding in findings(talk, header)]


def name_of(case: Case) -> str:
    return f"{case.rule}-{case.level}-{case.dir}".replace(" ", "-")
