"""The exit code of `dragoman exec`: every combination of facts, and what each exception counts as."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import pytest

from dragoman import errors
from dragoman.cli import exits
from dragoman.cli.exec.exit_code import KINDS, RunFacts, StartFailed, exit_code_of, note_error

# The contract, in its order: what is observed, and the code it would give alone.
CONTRACT: tuple[tuple[dict[str, Any], int], ...] = (
    ({"signal": signal.SIGINT}, 130),
    ({"is_timed_out": True}, 3),
    ({"is_bug": True}, 70),
    ({"is_wrong_usage": True}, 2),
    ({"has_violation": True}, 10),
    ({"is_agent_gone": True}, 4),
    ({"is_login_needed": True}, 7),
    ({"is_agent_error": True}, 1),
    ({"could_not_ask": True}, 5),
    ({"was_denied": True}, 9),
    ({"stop_reason": "refusal"}, 6),
)
STOP_REASONS = ("max_tokens", "max_turn_requests", "refusal", "cancelled", "_invented", None)


def test_every_combination_gives_the_code_of_its_first_fact() -> None:
    seen = 0
    for present in itertools.product((False, True), repeat=len(CONTRACT)):
        facts = RunFacts(stop_reason="end_turn")
        expected = exits.OK
        for is_there, (fact, code) in reversed(list(zip(present, CONTRACT, strict=True))):
            if is_there:
                expected = code
                for name, value in fact.items():
                    setattr(facts, name, value)
        assert exit_code_of(facts) == expected, facts
        seen += 1
    assert seen == 2 ** len(CONTRACT)


def test_sigterm_is_143_whatever_else_is_true() -> None:
    facts = RunFacts(signal=signal.SIGTERM, is_timed_out=True, is_agent_gone=True, is_wrong_usage=True)
    assert exit_code_of(facts) == exits.TERMINATED == 143


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_any_other_reason_than_end_turn_is_6(reason: str | None) -> None:
    assert exit_code_of(RunFacts(stop_reason=reason)) == exits.STOPPED_EARLY


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exits.CliError("no prompt"), 2),
        (errors.ConfigError("settings.json:3:4: no"), 2),
        (errors.CapabilityError("the agent takes no images"), 2),
        (errors.LocalProtocolError("no such option"), 2),
        (FileNotFoundError(2, "No such file", "x"), 2),
        (StartFailed("no such program"), 4),
        (errors.AgentExited(3, "boom"), 4),
        (errors.ConnectionClosed("no answer to initialize"), 4),
        (errors.AuthRequired(), 7),
        (errors.RequestError(-32000, "log in"), 7),
        (errors.RequestError(-32603, "oops"), 1),
        (errors.RequestError(400, "one real agent answers with an HTTP status"), 1),
        (errors.RemoteProtocolError("unreadable"), 1),
        (ZeroDivisionError(), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_exception_counts_as_one_fact(error: Exception, code: int) -> None:
    facts = RunFacts(stop_reason="end_turn")
    note_error(facts, error)
    assert exit_code_of(facts) == code


def test_every_code_but_success_has_a_kind_of_error() -> None:
    assert {code for _, code in CONTRACT} | {143} == set(KINDS)
    assert len(set(KINDS.values())) == len(KINDS)
