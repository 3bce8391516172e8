"""The exit codes scripts rely on, and the exception that carries one.

The codes are a contract: a code never changes its meaning. Errors are printed by `console.py`.
"""

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

    match error:
        case CliError():
            return error
        case errors.RequestError(code=errors.AUTH_REQUIRED):
            return CliError(str(error), hint="log in to the agent first", exit_code=AUTH_REQUIRED)
        case errors.RequestError() | errors.RemoteProtocolError() | errors.CapabilityError():
            return CliError(str(error), exit_code=AGENT_ERROR)
        case errors.ConnectionClosed():
            return CliError(str(error), exit_code=AGENT_DIED)
        case errors.ConfigError() | errors.StoreError():
            return CliError(str(error), hint=error.hint if isinstance(error, errors.ConfigError) else "")
        case OSError():
            return CliError(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        case _:
            found = _host_failure(error)
            if found is not None:
                return found
            name = type(error).__name__
            return CliError(
                f"internal error: {name}: {error}" if str(error) else f"internal error: {name}",
                hint="this is a bug; set DRAGOMAN_DEBUG=1 to see the traceback",
                exit_code=BUG,
            )


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
