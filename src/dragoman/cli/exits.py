"""The exit codes scripts rely on, and the exception that carries one.

The codes are a contract: a code never changes its meaning. Errors are printed by `console.py`.
"""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from dragoman.errors import DragomanError

OK = 0
AGENT_ERROR = 1
USAGE = 2
TIMED_OUT = 3
AGENT_DIED = 4
CANNOT_ASK = 5
STOPPED_EARLY = 6
AUTH_REQUIRED = 7
CHECK_FAILED = 8
DENIED = 9
VIOLATION = 10
BUG = 70
CANCELLED = 130
PIPE_CLOSED = 141
TERMINATED = 143

MEANINGS = {
    OK: "success",
    AGENT_ERROR: "the agent answered with an error",
    USAGE: "wrong usage, configuration or set-up",
    TIMED_OUT: "timed out",
    AGENT_DIED: "the agent could not start, or died",
    CANNOT_ASK: "a permission request was cancelled because no user could be asked",
    STOPPED_EARLY: "the turn ended with a stop reason other than `end_turn`",
    AUTH_REQUIRED: "authentication is required",
    CHECK_FAILED: "a check failed: a difference from a recording, or a broken rule",
    DENIED: "a rule denied something, and `--fail-on-deny` was given",
    VIOLATION: "the agent did something although a rule denies it",
    BUG: "a bug in dragoman itself",
    CANCELLED: "cancelled by Ctrl-C",
    PIPE_CLOSED: "the reader of the output closed the pipe",
    TERMINATED: "ended by SIGTERM",
}


class CliError(Exception):
    """The end of the program with `exit_code`, a line that says what happened and, optionally, a hint what to do."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def cli_error_of(error: Exception) -> CliError:
    """Return the failure an exception stands for; an unexpected one is a bug."""
    from dragoman import errors

    found: CliError | None
    if isinstance(error, CliError):
        found = error
    else:
        found = shortage_of(error)
        if found is None and isinstance(error, errors.DragomanError):
            found = _own_failure(error)
    if found is None and isinstance(error, OSError):
        found = CliError(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    if found is None:
        found = _host_failure(error)
    if found is None:
        name = type(error).__name__
        found = CliError(
            f"internal error: {name}: {error}" if str(error) else f"internal error: {name}",
            hint="this is a bug; set DRAGOMAN_DEBUG=1 to see the traceback",
            exit_code=BUG,
        )
    return found


def shortage_of(error: BaseException) -> CliError | None:
    """Return the failure of a machine that has too little of something, if that is why; None otherwise.

    Needs no other module: where memory or descriptors are used up, nothing more can be loaded.
    """
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            break
        words = _missing(found)
        if words is not None:
            message = str(error) if found is not error and type(error).__module__ == "dragoman.errors" else ""
            return CliError(f"{message} ({words[0]})" if message else words[0], hint=words[1])
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return None


_MOST_CAUSES = 10


def _missing(error: BaseException) -> tuple[str, str] | None:
    """Return what there is too little of, and what to do about it."""
    import errno
    import os

    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE:
        return (
            f"too many open files: the limit of this shell is {os.sysconf('SC_OPEN_MAX')}",
            "raise it and try again: ulimit -n 1024",
        )
    if number == errno.ENFILE:
        return "this machine has no more open files", "end some programs, or raise fs.file-max"
    if number in (errno.ENOSPC, errno.EDQUOT):
        place = getattr(error, "filename", None)
        words = os.strerror(number or 0)
        return f"{place}: {words}" if place else words, "free some space, and try again"
    text = str(error)
    is_memory = isinstance(error, MemoryError) or number == errno.ENOMEM or "failed to map segment" in text
    if is_memory or (isinstance(error, ImportError) and "allocate memory" in text):
        return "there is not enough memory", "end some programs, or raise the limit of this shell: ulimit -v unlimited"
    if isinstance(error, RuntimeError) and text == "can't start new thread":
        return (
            "no thread could be started: memory or the number of processes is limited",
            "raise the limits of this shell and try again: ulimit -v unlimited, ulimit -u 4096",
        )
    return None


def _own_failure(error: "DragomanError") -> CliError | None:
    from dragoman import errors

    match error:
        case errors.RequestError(code=errors.AUTH_REQUIRED):
            return CliError(str(error), hint="log in to the agent first", exit_code=AUTH_REQUIRED)
        case errors.LoginFailed():
            return CliError(
                str(error), hint="see how this agent is logged in to: dragoman login", exit_code=AUTH_REQUIRED
            )
        case errors.RequestError() | errors.RemoteProtocolError() | errors.CapabilityError():
            return CliError(str(error), exit_code=AGENT_ERROR)
        case errors.SlowConsumer():
            hint = "try again; an agent should not send this much at once"
            return CliError(f"the agent sent more than could be taken: {error}", hint=hint, exit_code=AGENT_ERROR)
        case errors.ConnectionClosed():
            return CliError(str(error), exit_code=AGENT_DIED)
        case errors.ConfigError() | errors.StoreError():
            return CliError(str(error), hint=error.hint if isinstance(error, errors.ConfigError) else "")
    # One without a kind was raised on purpose, with a sentence; only our own misuse of the protocol is a bug.
    return None if isinstance(error, errors.LocalProtocolError) else CliError(str(error))


def _host_failure(error: Exception) -> CliError | None:
    """Return the failure of the local host that an exception stands for; None for another one."""
    from dragoman.host.local.start import NoHost
    from dragoman.host.local.thin import HostLost, HostRefused

    match error:
        case NoHost():
            return CliError(str(error), hint="exec without --session needs no host; see docs/sessions.md")
        case HostRefused():
            return CliError(str(error), exit_code=AGENT_ERROR)
        case HostLost():
            return CliError(str(error), hint="try again: a new host is started", exit_code=AGENT_DIED)
    return None
