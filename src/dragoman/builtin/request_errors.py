"""The error responses of the built-in agent: what a client is shown of a failure."""

from __future__ import annotations

import os
from typing import Any, Final

from dragoman.errors import DragomanError, RequestError, StoreError

HTTP_NOT_FOUND: Final = 404


class SessionClosed(DragomanError):
    """The session was closed, or deleted by another client, while a prompt waited."""


async def stored(work: Any, *, passes: type[Exception] | tuple[()] = ()) -> Any:
    """The result of work that uses the store. Raises: RequestError, with what is wrong with the store; `passes`."""
    try:
        return await work
    except passes:
        raise
    except (StoreError, SessionClosed) as error:
        raise to_request_error(error) from error


def to_request_error(error: Exception, model: str = "") -> RequestError:
    """The error response for a failure: its own text if that is written for users."""
    from dragoman.builtin.login import refused_key
    from dragoman.builtin.models.model import ModelAuthError, ModelError

    if isinstance(error, ModelAuthError):
        return refused_key(error, model)
    if isinstance(error, ModelError) and error.status == HTTP_NOT_FOUND:
        from dragoman.builtin.models.choice import advice_for

        return RequestError(-32603, f"{str(error).rstrip('.')}. {advice_for(model, os.environ)}")
    if isinstance(error, DragomanError):
        return RequestError(-32603, str(error))
    return RequestError.internal_error()
