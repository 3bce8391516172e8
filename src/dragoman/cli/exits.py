"""How a run ends: the exit codes scripts rely on, and the one exception that carries one.

The codes are a contract; a code never changes its meaning. It does not know how an ending is printed.
"""

OK = 0
AGENT_ERROR = 1
USAGE = 2
TIMED_OUT = 3
AGENT_DIED = 4
NOBODY_TO_ASK = 5
STOPPED_EARLY = 6
AUTH_REQUIRED = 7
CHECK_FAILED = 8
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
    NOBODY_TO_ASK: "a permission was cancelled because nobody could be asked",
    STOPPED_EARLY: "the turn ended with another stop reason than `end_turn`",
    AUTH_REQUIRED: "authentication is required",
    CHECK_FAILED: "a check failed: something is not as recorded, or not as it must be",
    BUG: "a bug in dragoman itself",
    CANCELLED: "cancelled by Ctrl-C",
    PIPE_CLOSED: "the reader of the output went away",
    TERMINATED: "ended by SIGTERM",
}


class Failure(Exception):
    """Ends the run with `exit_code`, one line that says what happened and, if there is one, a hint what to do."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def failure_of(error: Exception) -> Failure:
    """The ending an exception stands for; what nobody expected is a bug."""
    from dragoman import errors

    match error:
        case Failure():
            return error
        case errors.RequestError(code=errors.AUTH_REQUIRED):
            return Failure(str(error), hint="log in to the agent first", exit_code=AUTH_REQUIRED)
        case errors.RequestError() | errors.RemoteProtocolError() | errors.CapabilityError():
            return Failure(str(error), exit_code=AGENT_ERROR)
        case errors.ConnectionClosed():
            return Failure(str(error), exit_code=AGENT_DIED)
        case errors.ConfigError() | errors.StoreError():
            return Failure(str(error))
        case OSError():
            return Failure(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        case _:
            name = type(error).__name__
            return Failure(
                f"internal error: {name}: {error}" if str(error) else f"internal error: {name}",
                hint="this is a bug; set DRAGOMAN_DEBUG=1 to see the traceback",
                exit_code=BUG,
            )
