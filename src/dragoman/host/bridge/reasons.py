"""Why a host cannot be reached, in a sentence that names what to do."""

from __future__ import annotations

import re
import ssl
from typing import Final, NamedTuple

from dragoman.errors import ConnectionClosed

_STATUS: Final = re.compile(r"\((\d{3})\b")
_FINAL: Final = frozenset((400, 401, 403, 404, 405, 406, 415, 426))


class LoginNeeded(ConnectionClosed):
    """The user has to log in to the host again; the sentence says how."""


class Reason(NamedTuple):
    """Why there is no line."""

    sentence: str
    is_final: bool = False
    """Whether trying again would change nothing."""


def refused_status(error: object) -> int:
    """Return the status with which a server refused a connection; 0 if it was something else."""
    text = str(error)
    found = _STATUS.search(text)
    return int(found[1]) if found is not None and "refused the connection" in text else 0


def explain(error: object, url: str) -> Reason:
    """Return what an attempt to connect failed with."""
    text = str(error) or type(error).__name__
    status = refused_status(error)
    if status == 401:
        return Reason(
            f"{url} did not accept the token (401); give the right one with --token-env or --token-file, "
            "or make one there with: dragoman serve token add NAME; if it has logins: dragoman login --url URL",
            True,
        )
    if status == 403 and "login" not in text:
        return Reason(f"{url} does not serve clients that call it by this name (403); allow it there with --host", True)
    if status == 404:
        return Reason(f"there is no agent at {url} (404); check the path and the name of the agent", True)
    if status or isinstance(error, LoginNeeded):
        return Reason(f"{url}: {text}" if status else text, status in _FINAL or not status)
    if isinstance(error, ssl.SSLError) or "SSL" in text or "certificate" in text.lower():
        return Reason(f"no TLS connection to {url}: {text}; is its certificate trusted on this machine?", True)
    if "Connect call failed" in text or "Connection refused" in text:
        return Reason(f"no host listens at {url}; is dragoman serve running there?")
    if text.startswith(url) or url.removeprefix("unix:") in text:
        return Reason(text)
    return Reason(f"no connection to {url}: {text}")
