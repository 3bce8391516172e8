"""A provider's errors as ours, which state whether to try again, to log in, or to report it to the user.

Owns that decision and the messages. Imports `pydantic-ai`, so it is loaded only with a provider's model.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Final

import msgspec

from dragoman.builtin.models.model import ModelAuthError, ModelError
from dragoman.builtin.models.overflow import overflow_in
from dragoman.builtin.models.providers import provider_of
from dragoman.builtin.models.wire_forms.failures import question_about_refusal
from dragoman.text.secrets import Secrets

with suppress(ImportError):  # not part of a base install; nothing here is called without it
    import httpx2
    from pydantic_ai import exceptions

# Another attempt may help after these, whatever category the package assigns to them.
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
_LONGEST_MESSAGE: Final = 1000


def explained(error: Exception, name: str) -> ModelError:
    """Return the error of a call of the model `name` as a ModelError, without keys: some providers repeat them."""
    found = _explained(error, name)
    found.args = (Secrets(os.environ).mask(str(found)),)
    return found


def _explained(error: Exception, name: str) -> ModelError:
    if isinstance(error, exceptions.ModelAuthenticationError):
        variables = _variables_of(name)
        advice = f"; check {' or '.join(variables)}" if variables else ""
        return ModelAuthError(f"{_provider(name)} refused the key: {_message_of(error)}{advice}", variables=variables)
    if (question := question_about_refusal(error, provider_of(name))) is not None:
        return ModelError(question)
    if isinstance(error, exceptions.ModelAPIError):
        status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else 0
        if (overflow := overflow_in(status, _body_text(error.body))) is not None:
            return overflow
        code = f" ({status})" if status else ""
        return ModelError(
            f"{_provider(name)}{code}: {_message_of(error)}",
            is_retryable=_is_retryable(error, status),
            retry_after_seconds=error.retry_after,
            status=status,
        )
    if isinstance(error, (httpx2.TransportError, httpx2.StreamError)):
        return ModelError(f"the connection to {_provider(name)} broke: {_plain(error)}", is_retryable=True)
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        return ModelError(f"{_provider(name)} sent an unreadable answer: {_plain(error)}", is_retryable=True)
    return ModelError(f"{name} cannot be used: {_plain(error)}")


def _is_retryable(error: exceptions.ModelAPIError, status: int) -> bool:
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return False  # waiting does not add money to an account
    passing = (
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
    )
    return isinstance(error, passing) or status in _PASSING_STATUSES or status >= 500


def named_variables(sentence: str, name: str) -> tuple[str, ...]:
    """Return the environment variables that an error message names, or else those of the model's provider."""
    return tuple(dict.fromkeys(_VARIABLE.findall(sentence))) or _variables_of(name)


def _variables_of(name: str) -> tuple[str, ...]:
    provider = provider_of(name)
    return (
        () if provider is None else tuple(variable for variable in provider.variables if not variable.endswith("_URL"))
    )


def _provider(name: str) -> str:
    provider = provider_of(name)
    return (provider.title if provider is not None else "") or name.partition(":")[0]


def _message_of(error: exceptions.ModelAPIError) -> str:
    """Return the provider's own message, or else the package's."""
    return (_message(error.body) or _plain(error))[:_LONGEST_MESSAGE]


def _body_text(body: Any) -> str:
    return body if isinstance(body, str) else "" if body is None else msgspec.json.encode(body).decode()


def _message(body: Any) -> str:
    match body:
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)} | str(text):
            return text.strip()
        case [dict(first), *_]:
            return _message(first)
        case _:
            return ""


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__
