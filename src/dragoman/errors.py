"""One error tree for every layer.

DragomanError
├── ProtocolError
│   ├── LocalProtocolError      our caller broke the rules
│   │   └── CapabilityError     ...by using what the peer did not advertise
│   └── RemoteProtocolError     the peer broke the rules
├── RequestError                the peer answered with an error; raise it in a handler to answer with one
│   └── AuthRequired            ...because the user has to log in first
├── ConnectionClosed
│   ├── AgentExited
│   └── CrashLoop               the agent ends again and again; it is not started any more
├── LoginFailed
├── SlowConsumer
├── StoreError
└── ConfigError
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
UNSUPPORTED_VERSION: Final = -32022


def _last_words(stderr_tail: str, *, whose: str = "the agent's") -> str:
    last_line = stderr_tail.rstrip().rpartition("\n")[2]
    return f"; {whose} last words on stderr: {last_line}" if last_line else ""


class DragomanError(Exception):
    """The base class of every error that this library raises on purpose."""


class ProtocolError(DragomanError):
    """One side broke the rules of the protocol."""


class LocalProtocolError(ProtocolError):
    """The calling program asked for something the protocol forbids; nothing was sent."""


class CapabilityError(LocalProtocolError):
    """The peer did not advertise what this call needs; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """What the peer sent cannot be read as the protocol says.

    `path` points at the member (`$.params.prompt[0]`), `code` is the JSON-RPC code a receiver answers with.
    """

    def __init__(self, message: str, *, code: int = INVALID_PARAMS, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.path = path

    def __str__(self) -> str:
        return f"{self.message} at {self.path}" if self.path else self.message


class RequestError(DragomanError):
    """An error answer: raised at the caller when the peer sent one, raised in a handler to send one."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.stderr_tail = ""
        """The end of the agent's stderr, if it is a child of this program and the error is an internal one."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code}){_last_words(self.stderr_tail)}"

    @classmethod
    def parse_error(cls, message: str = "Parse error") -> RequestError:
        return cls(PARSE_ERROR, message)

    @classmethod
    def invalid_request(cls, message: str = "Invalid request") -> RequestError:
        return cls(INVALID_REQUEST, message)

    @classmethod
    def method_not_found(cls, method: str) -> RequestError:
        return cls(METHOD_NOT_FOUND, "Method not found", {"method": method})

    @classmethod
    def invalid_params(cls, message: str = "Invalid params", *, path: str = "") -> RequestError:
        return cls(INVALID_PARAMS, message, {"path": path} if path else None)

    @classmethod
    def internal_error(cls, message: str = "Internal error") -> RequestError:
        return cls(INTERNAL_ERROR, message)

    @classmethod
    def request_cancelled(cls) -> RequestError:
        return cls(REQUEST_CANCELLED, "Request cancelled")

    @classmethod
    def auth_required(cls, message: str = "Authentication required", data: Any = None) -> RequestError:
        return cls(AUTH_REQUIRED, message, data)

    @classmethod
    def not_found(cls, message: str = "Resource not found", data: Any = None) -> RequestError:
        return cls(NOT_FOUND, message, data)


class AuthRequired(RequestError):
    """The agent wants a login first (-32000). `methods` are the ways to log in that it offered in `initialize`."""

    def __init__(self, message: str = "Authentication required", data: Any = None, methods: Sequence[Any] = ()) -> None:
        super().__init__(AUTH_REQUIRED, message, data)
        self.methods = tuple(methods)


class LoginFailed(DragomanError):
    """A login was tried and did not succeed; `method_id` says which one."""

    def __init__(self, message: str, *, method_id: str = "", returncode: int | None = None) -> None:
        super().__init__(message)
        self.method_id = method_id
        self.returncode = returncode


class ConnectionClosed(DragomanError):
    """The connection is over; `reason` says why in a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AgentExited(ConnectionClosed):
    """The agent process ended. `returncode` is negative for a signal, as in `subprocess`."""

    def __init__(self, returncode: int | None, stderr_tail: str = "") -> None:
        if returncode is None:
            how = "ended; its exit code is unknown"
        elif returncode < 0:
            how = f"was ended by signal {-returncode}"
        else:
            how = f"exited with code {returncode}"
        super().__init__(f"the agent {how}{_last_words(stderr_tail, whose='its')}")
        self.returncode = returncode
        self.stderr_tail = stderr_tail


class CrashLoop(ConnectionClosed):
    """A supervised agent ended too often and stays down until it is started by hand; `last` is its last end."""

    def __init__(self, reason: str, last: Exception) -> None:
        super().__init__(reason)
        self.last = last


class SlowConsumer(DragomanError):
    """An iterator fell so far behind that its queue was dropped; the session's state is still complete."""


class StoreError(DragomanError):
    """A session store could not read or keep something."""


class ConfigError(DragomanError):
    """A setting is wrong; the message names the file or option and what to write instead, `hint` another remedy."""

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
