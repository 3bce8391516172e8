"""The entry point: chooses the verb, runs it, and turns every result and error into one exit code.

This is the only place that catches all exceptions. What it imports at the top adds to the start-up time of
`dragoman --version`, so keep it to modules without imports of their own.
"""

import os
import sys

from dragoman._version import __version__
from dragoman.cli import exits, table

PAGE_COLUMNS = 100

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def program() -> "NoReturn":
    """Run `main` and exit without the interpreter's tear-down of all modules.

    Registered exit functions are still run; the tear-down would take a tenth of the time of a short run.
    """
    import atexit

    from dragoman.cli import masked_streams

    try:
        masked_streams.protect_streams()
        masked_streams.mask_keys(os.environ)
        code = main()
    except Exception as error:
        code = _report(error)
    masked_streams.finish()
    atexit._run_exitfuncs()
    os._exit(code)


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run `dragoman` with these arguments (`sys.argv` by default) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return exits.CANCELLED
    except BrokenPipeError:
        # The reader has what it wanted (`dragoman sessions list | head -1`): no message, the code a shell expects.
        _forget_output()
        return exits.PIPE_CLOSED
    except Exception as error:
        return _report(error)
    return code


def _run(words: list[str]) -> int:
    match words:
        case [] if sys.stdin.isatty() and sys.stdout.isatty():
            return _run_verb("attach", [])
        case []:
            sys.stderr.write(table.help_text())
            return exits.USAGE
        case ["-h" | "--help", *rest]:
            sys.stdout.write(table.help_text(shows_all="all" in rest))
            return exits.OK
        case ["-V" | "--version", *_]:
            sys.stdout.write(f"dragoman {__version__}\n")
            return exits.OK
        case [verb, *rest] if verb in table.COMMANDS:
            return _run_verb(verb, rest)
        case [verb, *rest] if verb in table.FORMER:
            verb, *before = table.FORMER[verb]
            return _run_verb(verb, [*before, *rest])
        case [word, *rest] if os.path.isdir(word):
            return _run_verb("attach", ["--cwd", word, *rest])
        case [word, *_] if word.startswith("-") and _is_for_attach(word):
            return _run_verb("attach", words)
        case [word, *_]:
            raise _unknown(word)
    raise AssertionError(words)


def _run_verb(verb: str, words: list[str]) -> int:
    if verb == "exec" and "--session" in words and "--" not in words:
        from dragoman.cli.exec.hosted.warm import run_plain

        code = run_plain(words)
        if code is not None:
            return code
    from dragoman.cli.command import help_text, parse, split_program

    if words and f"{verb} {words[0]}" in table.NESTED:
        verb, words = f"{verb} {words[0]}", words[1:]
    command = table.load(verb)
    own, _ = split_program(words)
    for flag in ("--help", "-h"):
        if flag in own:
            is_all = own[own.index(flag) + 1 :][:1] == ["all"]
            sys.stdout.write(help_text(verb, command, shows_all=is_all, columns=_columns()))
            return exits.OK
    return command.run(parse(verb, command, words))


def has_silent_stdin() -> bool:
    """Whether nothing is piped in next to the prompt: stdin is a device, closed, or a pipe that has ended empty."""
    try:
        is_device = os.fstat(0).st_mode & 0o170000 == 0o020000
    except OSError:
        return True
    if is_device:
        return True
    import select  # few programs leave a pipe there

    stdin = select.poll()
    stdin.register(0, select.POLLIN)
    return any(not events & select.POLLIN for _, events in stdin.poll(0))


def _columns() -> int:
    """Return how wide help is written: as the terminal, or as a page."""
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):  # not a terminal, or without a descriptor
        return PAGE_COLUMNS


def _is_for_attach(word: str) -> bool:
    """Whether an option without a command belongs to the terminal client."""
    return any(word in option.flags for option in table.load("attach").options)


def _unknown(word: str) -> exits.CliError:
    from difflib import get_close_matches

    what = "option" if word.startswith("-") else "command"
    known = ["--help", "--version"] if what == "option" else list(table.COMMANDS)
    nearest = get_close_matches(word, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "see dragoman --help"
    return exits.CliError(f"unknown {what} {word!r}", hint=hint)


def _report(error: Exception) -> int:
    try:
        return _write_report(error)
    except Exception as another:
        # Memory or descriptors are used up, so that nothing more can be loaded: what is loaded has to do.
        failure = exits.shortage_of(error) or exits.shortage_of(another)
        if failure is None:
            raise
        os.write(2, f"dragoman: error: {failure.message}\nhint: {failure.hint}\n".encode())
        return failure.exit_code


def _write_report(error: Exception) -> int:
    from dragoman.cli.console import write_error

    failure = exits.cli_error_of(error)
    if failure.exit_code == exits.BUG and os.environ.get("DRAGOMAN_DEBUG"):
        import traceback

        from dragoman.text.terminal import plain

        sys.stderr.write(plain("".join(traceback.format_exception(error))))
    if isinstance(error, OSError):
        _forget_output()
    write_error(failure.message, failure.hint)
    return failure.exit_code


def _forget_output() -> None:
    """Redirect stdout to /dev/null, so that flushing it at exit does not fail again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no descriptor is left, so stdout is not what failed
        return
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
