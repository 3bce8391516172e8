"""An error of a server as ours, which states whether to try again, to log in, or to report it to the user.

Owns that decision, the messages, and the hints about when to try again that servers give in headers and bodies. Works
with a status, headers and a body; the HTTP client is not imported here.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from dragoman.builtin.models.model import ModelAuthError, ModelError
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dragoman.builtin.models.providers import Provider
    from dragoman.builtin.models.wire_forms.form import Target

# Another attempt may help after these; 404 and the other 4xx are answers that do not change.
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
# Errors that arrive as an event of a stream have a name instead of a status.
_STATUS_OF_NAME: Final = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "billing_error": 402,
    "timeout_error": 504,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
    "invalid_argument": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "internal": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
# Waiting does not add money to an account.
_NO_MONEY: Final = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
# Patterns are texts here, which `re` compiles with the first error and keeps.
# Google answers 400 to a key that it does not know.
_BAD_KEY: Final = r"API_KEY_INVALID|API key not valid|API key expired|invalid_api_key"
_DURATION: Final = r"(\d+(?:\.\d+)?)s"
# OpenAI and Google write the wait into the message as well: "Please try again in 1m2.5s", "Please retry in 20ms".
_WAIT: Final = (
    r"(?i)(?:try again|retry) in (?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)(?P<unit>m?s)\b)?"
)
# Errors about the content of a request, such as `invalid_image_format`; the same request gets the same error.
_WRONG_CONTENT: Final = r"invalid_|unsupported_|image_|empty_image|failed_to_download|\w+_policy"
_LONGEST_MESSAGE: Final = 1000


def failure_of(
    target: Target,
    status: int,
    body: bytes | str,
    headers: Mapping[str, str] | None = None,
    *,
    key_place: str = "",
) -> ModelError:
    """Return the error for a response that is not an answer.

    Args:
        headers: names are in lower case.
        key_place: where the key of the request comes from, which a refusal of it names.
    """
    text = body if isinstance(body, str) else body.decode(errors="replace")
    return _masked(_failure(target, status, text, headers or {}, key_place=key_place))


def failure_in_event(target: Target, data: bytes | str) -> ModelError:
    """Return the error for an event that reports one; `data` is the event's JSON. Its status follows from its names."""
    text = data if isinstance(data, str) else data.decode(errors="replace")
    error = _error_in(_decoded(text))
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    for name in _names_of(error):
        status = status or _STATUS_OF_NAME.get(name, 400 if re.match(_WRONG_CONTENT, name) else 0)
    # Without a status it is not known what went wrong in the middle of an answer; another attempt may help.
    return _masked(_failure(target, status or 500, text, {}, is_event=True))


def broken_connection(target: Target, error: Exception) -> ModelError:
    """Return the error for a connection that could not be made, or that was cut."""
    words = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in words:
        advice = "a proxy or a server with an own certificate needs SSL_CERT_FILE to name the file that signs it"
        return ModelError(f"{title_of(target)} showed a certificate that is not trusted: {words}; {advice}")
    if (question := question_about_refusal(error, target.provider)) is not None:
        return _masked(ModelError(question))
    address = _address_of(error)
    place = f" at {address}" if address else ""
    return _masked(ModelError(f"the connection to {title_of(target)}{place} broke: {words}", is_retryable=True))


def question_about_refusal(error: BaseException, provider: Provider | None) -> str | None:
    """Return what to say about a connection that this machine itself refused; None for any other error.

    No server listens there, and none will within the seconds of some more tries, so that the user is asked at once.
    """
    address = _address_of(error)
    host = urlsplit(address).hostname or ""
    if not address or not _is_refusal(error) or not _is_here(host) or _uses_proxy(address, host):
        return None
    server = _local_server(provider, address)
    answers = f"{server} does not answer" if server else "no server answers"
    variable = f" ({provider.url_variable} sets another address)" if provider is not None else ""
    return f"{answers} at {address} (connection refused): is {server or 'the server'} running?{variable}"


def _local_server(provider: Provider | None, address: str) -> str:
    """Return the name of the server that should be at an address of this machine: by its provider, else by its port."""
    from dragoman.builtin.models.providers import PROVIDERS

    local = [known for known in PROVIDERS.values() if _is_here(urlsplit(known.url).hostname or "")]
    if provider is not None and provider in local:
        return provider.title
    port = urlsplit(address).port
    return next((known.title for known in local if urlsplit(known.url).port == port), "")


def _address_of(error: BaseException) -> str:
    """Return the scheme, host and port that a request of the HTTP client went to; "" if the error names none."""
    for cause in _causes(error):
        try:
            url = urlsplit(str(cause.request.url))  # type: ignore[attr-defined]  # errors of the HTTP client have it
            port = f":{url.port}" if url.port else ""
        except (AttributeError, RuntimeError, ValueError):  # it has none, or it was raised without a request
            continue
        if url.hostname:
            return f"{url.scheme}://{f'[{url.hostname}]' if ':' in url.hostname else url.hostname}{port}"
    return ""


def _is_here(host: str) -> bool:
    from dragoman.agent.serving import is_loopback

    # A client that calls the address of all interfaces reaches this machine, too.
    return is_loopback(host) or host in ("0.0.0.0", "::") or host.endswith(".localhost")


def _is_refusal(error: BaseException) -> bool:
    return any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, each once; a name with several addresses has one cause for each."""
    found, seen = [error], set[int]()
    while found:
        each = found.pop(0)
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            found += [cause for cause in (each.__cause__ or each.__context__, *inner) if cause is not None]


def _uses_proxy(address: str, host: str) -> bool:
    """Whether requests to an address go through a proxy, which is then what refuses."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return any(name in proxies for name in (urlsplit(address).scheme, "all")) and not proxy_bypass(host)


def title_of(target: Target) -> str:
    return target.provider.title or target.provider.id


def _failure(
    target: Target,
    status: int,
    body: str,
    headers: Mapping[str, str],
    *,
    is_event: bool = False,
    key_place: str = "",
) -> ModelError:
    decoded = _decoded(body)
    error = _error_in(decoded)
    words = (_words_of(error, decoded) or " ".join(body.split()) or "no reason was sent")[:_LONGEST_MESSAGE]
    if status in (401, 403) or (status == 400 and re.search(_BAD_KEY, body)):
        variables = target.provider.keys
        check = f"; check {' or '.join(variables)}" if variables else ""
        advice = f"; the key comes from {key_place}" if key_place else check
        return ModelAuthError(f"{title_of(target)} refused the key: {words}{advice}", variables=variables)
    from dragoman.builtin.models.overflow import overflow_in  # its patterns are compiled when a call has failed

    overflow = overflow_in(status, body)
    if overflow is not None:
        return overflow
    code = f" ({status})" if not is_event else ""
    return ModelError(
        f"{title_of(target)}{code}: {words}",
        is_retryable=_is_retryable(status, error, headers),
        retry_after_seconds=_wait_of(status, error, headers),
        status=status,
    )


def _is_retryable(status: int, error: dict[str, Any], headers: Mapping[str, str]) -> bool:
    if any(name in _NO_MONEY for name in _names_of(error)):
        return False
    asked = headers.get("x-should-retry", "").lower()
    if asked in ("true", "false"):
        return asked == "true"
    return status in _PASSING_STATUSES or status >= 500


# When to try again


def _wait_of(status: int, error: dict[str, Any], headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the server asks to wait, None if it asks nothing."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    if after is not None:
        seconds = _number(after)
        return seconds if seconds is not None else _until(after)
    for detail in error.get("details") or () if isinstance(error.get("details"), list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str):
            found = re.fullmatch(_DURATION, detail["retryDelay"])
            if found is not None:
                return float(found[1])
    return _reset_of(headers) or _wait_in(error) if status == 429 else None


def _wait_in(error: dict[str, Any]) -> float | None:
    """Return the wait that the message of an error names."""
    found = re.search(_WAIT, str(error.get("message", "")))
    if found is None or not (found["h"] or found["m"] or found["s"]):
        return None
    seconds = float(found["s"] or 0) / (1000 if found["unit"] == "ms" else 1)
    return int(found["h"] or 0) * 3600 + int(found["m"] or 0) * 60 + seconds


def _reset_of(headers: Mapping[str, str]) -> float | None:
    """Return the wait until the last of the exhausted limits of Anthropic is filled again."""
    waits = []
    for name, value in headers.items():
        if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            left = _number(headers.get(name.removesuffix("-reset") + "-remaining"))
            wait = _until(value)
            if wait is not None and (left is None or left <= 0):
                waits.append(wait)
    return max(waits, default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(text: str) -> float | None:
    """Return the seconds until a time of HTTP or RFC 3339."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(at.timestamp() - time.time(), 0.0)


# Bodies


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _error_in(decoded: Any) -> dict[str, Any]:
    """Return the object that describes the error, wherever the wire form puts it."""
    match decoded:
        case [dict(first), *_]:
            return _error_in(first)
        case {"error": dict(error)} | {"response": {"error": dict(error)}}:
            return error
        case dict():
            return decoded
        case _:
            return {}


def _names_of(error: dict[str, Any]) -> Iterable[str]:
    return [value.lower() for key in ("code", "type", "status") if isinstance(value := error.get(key), str)]


def _words_of(error: dict[str, Any], decoded: Any) -> str:
    """Return the server's own message."""
    for value in (error.get("message"), error.get("error"), error.get("detail"), decoded):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _masked(error: ModelError) -> ModelError:
    """Mask keys in an error: some servers repeat the key in their messages."""
    error.args = (Secrets(os.environ).mask(str(error)),)
    return error
