"""What errors of servers mean: whether to try again, when, and what the user reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, NamedTuple

import pytest

from dragoman.builtin.models.model import ContextOverflowError, ModelAuthError, ModelError
from dragoman.builtin.models.wire_forms.failures import failure_of
from tests.builtin.providers.forms import target_of

ANTHROPIC = target_of("anthropic:claude-sonnet-5-5")


def failure(status: int, error: Any = None, **headers: str) -> ModelError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of(ANTHROPIC, status, json.dumps({"error": error or {"message": "no"}}), named)


class InSeconds(NamedTuple):
    """A moment after the test began; the cases are made long before they run."""

    seconds: float
    is_http: bool = False

    def __str__(self) -> str:
        moment = datetime.now(UTC) + timedelta(seconds=self.seconds)
        return format_datetime(moment, usegmt=True) if self.is_http else moment.isoformat()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "7"}, 1.5),
        ({"retry_after": InSeconds(60, is_http=True)}, 60.0),
        ({"retry_after": InSeconds(-60, is_http=True)}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "inf"}, None),
        ({}, None),
        ({"anthropic_ratelimit_requests_reset": InSeconds(30)}, 30.0),
        (
            {
                "anthropic_ratelimit_requests_reset": InSeconds(300),
                "anthropic_ratelimit_requests_remaining": "12",
                "anthropic_ratelimit_input_tokens_reset": InSeconds(30),
                "anthropic_ratelimit_input_tokens_remaining": "0",
            },
            30.0,
        ),
    ],
)
def test_the_wait_that_a_server_asks_for(headers: dict[str, object], seconds: float | None) -> None:
    error = failure(429, **{name: str(value) for name, value in headers.items()})
    assert error.is_retryable
    if seconds is None:
        assert error.retry_after_seconds is None
    else:
        assert error.retry_after_seconds == pytest.approx(seconds, abs=5)


def test_google_writes_the_wait_into_the_body() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}, {"retryDelay": 7}, "x"]
    assert failure(429, {"message": "no", "details": details}).retry_after_seconds == 34.5


@pytest.mark.parametrize(
    ("status", "headers", "is_retryable"),
    [
        (400, {}, False),
        (404, {}, False),
        (408, {}, True),
        (409, {}, True),
        (422, {}, False),
        (429, {}, True),
        (500, {}, True),
        (529, {}, True),
        (529, {"x_should_retry": "false"}, False),
        (400, {"x_should_retry": "true"}, True),
    ],
)
def test_which_errors_may_pass(status: int, headers: dict[str, str], is_retryable: bool) -> None:
    error = failure(status, **headers)
    assert error.is_retryable == is_retryable
    assert error.status == status


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_error"])
def test_an_empty_account_is_not_tried_again(code: str) -> None:
    assert not failure(429, {"message": "no money", "code": code}).is_retryable


def test_a_key_is_refused_and_its_variable_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    for error in (
        failure(401, {"message": "unknown key sk-ant-0123456789"}),
        failure(400, {"message": "API key not valid: sk-ant-0123456789"}),
    ):
        assert isinstance(error, ModelAuthError)
        assert error.variables == ("ANTHROPIC_API_KEY",)
        assert "sk-ant-0123456789" not in str(error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "the reason"}}', "the reason"),
        (b'[{"error": {"message": "the reason"}}]', "the reason"),
        (b'{"error": "the reason"}', "the reason"),
        (b'{"message": "the reason"}', "the reason"),
        (b'{"detail": "the reason"}', "the reason"),
        (b'"the reason"', "the reason"),
        (b"the\n  reason", "the reason"),
        (b"", "no reason was sent"),
        (b"\xff\xfe", "Anthropic (418)"),
        (b'{"error": {"message": 7}}', "Anthropic (418)"),
    ],
)
def test_the_message_of_a_server_is_found_wherever_it_is(body: bytes, words: str) -> None:
    error = failure_of(ANTHROPIC, 418, body)
    assert words in str(error)
    assert "Anthropic (418)" in str(error)


def test_a_long_page_of_a_proxy_is_cut() -> None:
    assert len(str(failure_of(ANTHROPIC, 502, b"<p>bad</p>" * 10_000))) < 1_200


def test_a_full_window_is_an_error_of_its_own() -> None:
    error = failure(400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"})
    assert isinstance(error, ContextOverflowError)
    assert (error.window, error.used) == (200_000, 210_000)
