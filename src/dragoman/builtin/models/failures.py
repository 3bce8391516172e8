"""What an error of a provider means for a turn: try again, log in, or tell the user.

Owns that judgement and the words. Imports `pydantic-ai`, so it is loaded with a provider's model only.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from dragoman.builtin.models.model import ModelAuthError, ModelError
from dragoman.builtin.models.providers import provider_of

with suppress(ImportError):  # no part of a base install; nothing here is called without it
    import httpx2
    from pydantic_ai import exceptions

# Of these another try may help, whatever category the package finds for them.
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
_LONGEST_WORDS: Final = 1000


def explained(error: Exception, name: str) -> ModelError:
    """The failure of a call of the model `name`, in our terms."""
    if isinstance(error, exceptions.ModelAuthenticationError):
        variables = _variables_of(name)
        advice = f"; check {' or '.join(variables)}" if variables else ""
        return ModelAuthError(f"{_provider(name)} refused the key: {_words(error)}{advice}", variables=variables)
    if isinstance(error, exceptions.ModelAPIError):
        status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else 0
        said = f" ({status})" if status else ""
        return ModelError(
            f"{_provider(name)}{said}: {_words(error)}",
            is_retryable=_is_passing(error, status),
            retry_after_seconds=error.retry_after,
            status=status,
        )
    if isinstance(error, (httpx2.TransportError, httpx2.StreamError)):
        return ModelError(f"the connection to {_provider(name)} broke: {_plain(error)}", is_retryable=True)
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        return ModelError(f"{_provider(name)} answered with something unreadable: {_plain(error)}", is_retryable=True)
    return ModelError(f"{name} cannot be used: {_plain(error)}")


def _is_passing(error: exceptions.ModelAPIError, status: int) -> bool:
    """Whether another try may help. Nobody's account fills up by waiting."""
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return False
    passing = (
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
    )
    return isinstance(error, passing) or status in _PASSING_STATUSES or status >= 500


def named_variables(sentence: str, name: str) -> tuple[str, ...]:
    """The environment variables that a complaint of the package asks for; ours, if it names none of the provider's."""
    return tuple(dict.fromkeys(_VARIABLE.findall(sentence))) or _variables_of(name)


def _variables_of(name: str) -> tuple[str, ...]:
    provider = provider_of(name)
    return () if provider is None else tuple(each for each in provider.variables if not each.endswith("_URL"))


def _provider(name: str) -> str:
    provider = provider_of(name)
    return (provider.title if provider is not None else "") or name.partition(":")[0]


def _words(error: exceptions.ModelAPIError) -> str:
    """What the provider itself said, else what the package makes of it."""
    return (_message(error.body) or _plain(error))[:_LONGEST_WORDS]


def _message(body: Any) -> str:
    match body:
        case {"error": {"message": str(words)}} | {"error": str(words)} | {"message": str(words)} | str(words):
            return words.strip()
        case [dict(first), *_]:
            return _message(first)
        case _:
            return ""


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__
