"""Programs that run other programs or code, so that their first words do not state what they do.

Owns that list and nothing else. It can never be complete, and need not be: it keeps a rule such as `execute:git log *`
from covering more than its author saw. Only a sandbox stops a program that is malicious.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from dragoman.policy.options import operands_of, read_options, unknown_option
from dragoman.policy.subcommands import GIT_SUBCOMMANDS, arguments_for, subcommand_index


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _lines(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in text.split("|"))


# Shells that read a simple command as POSIX specifies; csh expands history even in quotes.
SHELLS: Final = _words("sh bash dash zsh ksh ash mksh fish")
# Shell builtins, wrappers, remote shells, languages that can run programs, editors and pagers.
_RUNNERS: Final = _words(
    """
    . [[ alias bind builtin case command coproc declare do done elif else enable esac eval exec export fc fi for
    function hash if in local read readonly select set shopt source then time trap typeset unalias unset until while
    env xargs sudo sudoedit doas su runuser pkexec nohup nice ionice chrt taskset timeout stdbuf unbuffer setsid
    setpriv chroot unshare nsenter bwrap firejail strace ltrace gdb lldb valgrind perf watch parallel script expect
    flock systemd-run at batch crontab launchctl osascript open xdg-open busybox toybox entr tee dd
    ssh sshpass scp sftp mosh telnet nc ncat netcat socat tmux screen dtach
    awk gawk mawk nawk sed gsed ed ex vi vim nvim view emacs emacsclient nano less more man
    pwsh powershell nu xonsh elvish rc es cmd dbus-send mysql psql sqlite tclsh wish rlwrap
    """
)
_INTERPRETERS: Final = (
    _words(
        "python pypy ipython node nodejs deno bun ruby perl php lua luajit rscript julia groovy scala jshell tsx"
        " csh tcsh"
    )
    | SHELLS
)
# Modules that take code, or another program, from the words after them.
_RUNNING_MODULES: Final = _words("code timeit pdb cprofile profile trace runpy pip ensurepip venv idlelib")
# They run the program named next, which is then checked in turn.
_LAUNCHERS: Final = _lines(
    """
    npx|pnpx|bunx|uvx|pipx run|npm exec|npm x|pnpm exec|pnpm dlx|yarn exec|yarn dlx|bun x|uv run|uv tool run
    |poetry run|pdm run|pipenv run|rye run|hatch run|conda run|bundle exec|go run
    |docker run|docker exec|podman run|podman exec|kubectl exec|kubectl run
    """
)
_GIT_RUNNERS: Final = _words("config submodule filter-branch difftool mergetool bisect alias hook maintenance")
# Subcommands that run whatever a file of the project, or their words, name.
_RUNNING_SUBCOMMANDS: Final = frozenset(
    _lines(
        "npm init|npm create|npm explore|npm edit|npm innit|pnpm create|yarn create|docker compose|docker build"
        "|docker buildx|podman compose|cargo run|cargo install|gh alias|gh extension|gh api|kubectl debug|kubectl cp"
    )
)
# Wrappers whose structure is known: the options before the command, and how many operands stand before it.
_WRAPPERS: Final = {
    name: (table, operands)
    for names, table, operands in (
        ("env", "-i -0 -u= -C= --ignore-environment --unset= --chdir= -", 0),
        ("timeout", "-s= -k= -v --signal= --kill-after= --foreground --preserve-status", 1),
        ("nice", "-n= -#", 0),
        ("nohup setsid command exec builtin busybox toybox", "-f -w -c -p", 0),
        ("stdbuf", "-o= -e= -i=", 0),
        ("ionice", "-c= -n= -t", 0),
        ("taskset", "-c -a", 1),
        ("sudo", "-n -E -H -S -k -b -i -u= -g= -D=", 0),
        ("doas", "-n -u=", 0),
        ("xargs", "-0 -r -t -x -n= -I= -L= -P= -d= -s= -a= --null --no-run-if-empty --max-args= --max-procs=", 0),
    )
    for name in names.split()
}
# Variables that name programs or code for other programs to run.
_RISKY_VARIABLES: Final = re.compile(
    r"PATH|IFS|ENV|SHELL|BASH_.*|LD_.*|DYLD_.*|GIT_.*|PROMPT_COMMAND|VISUAL|.*PAGER|.*EDITOR|.*_COMMAND|LESSOPEN|CDPATH|"
    r"PYTHON(?:STARTUP|PATH|HOME|INSPECT)|NODE_(?:OPTIONS|PATH)|PERL5?(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|JAVA_TOOL_OPTIONS|"
    r".*_WRAPPER|CC|CXX|MAKEFLAGS"
)
# `-e`, `-f` in any cluster and spelling: scripts from elsewhere than the first operand.
_SED_SCRIPTS: Final = re.compile(r"-(?!i)[a-zA-Z]*[ef]|--[ef]")
_LONG_SCRIPT: Final = 2_000
# A script of sed that only prints, deletes or substitutes; `e` runs a command and `w` writes a file.
_PLAIN_SED: Final = re.compile(
    r"(?:[0-9]+|\$|/[^/\\\n]*/)?(?:,(?:[0-9]+|\$))?(?:[pd]|s([/|#,])(?:(?!\1)[^\n\\;]|\\.)*\1(?:(?!\1)[^\n\\;]|\\.)*\1[gIp0-9]*)"
)


class _Openings(NamedTuple):
    """Options that make an ordinary program run, or overwrite, something of the caller's choice."""

    long: tuple[str, ...]
    short: str = "(?!)"


_OPENINGS: Final = {
    program: _Openings(tuple(f"--{name}" for name in long.split()), short)
    for programs, long, short in (
        ("find", "", r"-(?:exec|execdir|ok|okdir|delete|fls|fprint0?|fprintf)"),
        ("fd fdfind", "exec exec-batch", r"-[a-zA-Z]*[xX].*"),
        (
            "git",
            "upload-pack receive-pack exec open-files-in-pager ext-diff extcmd output template config",
            r"-x.*|-[a-zA-Z]*O.*|ext::.*",
        ),
        (
            "tar bsdtar",
            "to-command checkpoint-action use-compress-program rsh-command rmt-command info-script new-volume-script",
            r"-?[a-zA-Z]*[IF].*",
        ),
        ("rsync", "rsh rsync-path", r"-[a-zA-Z]*e.*"),
        ("make gmake", "eval file makefile directory include-dir", r"-[a-zA-Z]*[ECfI].*|[^-].*=.*"),
        ("split", "filter", "(?!)"),
        ("gcc g cc c clang clang++ g++ c++", "wrapper", r"-wrapper|-B.*|@.*|-fplugin.*|-specs.*"),
        ("npm pnpm yarn", "script-shell node-options prefix globalconfig userconfig", r"-C.*"),
        ("go", "", r"--?(?:exec|toolexec|vettool|overlay)\b.*"),
        ("cargo", "config", r"\+.*"),
        ("sort", "compress-program output", r"-[a-zA-Z]*o.*"),
        ("zip", "unzip-command", r"-[a-zA-Z]*T.*"),
        ("curl", "output remote-name config upload-file", r"-[a-zA-Z]*[oOKT].*"),
        ("wget", "output-document execute use-askpass config input-file post-file", r"-[a-zA-Z]*[Oei].*"),
        ("rg ripgrep", "pre hostname-bin", "(?!)"),
    )
    for program in programs.split()
}
# `git clone -u PROGRAM`: the same letter is harmless elsewhere.
_CLONE_SHORT: Final = re.compile(r"-[a-z]*[uc].*")


def name_of(program: str) -> str:
    """Return the name of a program without folder and version: `/usr/bin/python3.12` is python."""
    name = program.rpartition("/")[2].lower().removesuffix(".exe")
    return re.sub(r"[\d.]+$", "", name) or name


@lru_cache(maxsize=512)
def runs_anything(words: tuple[str, ...]) -> str | None:
    """Return why the first words do not state what this command does, None if they do."""
    program = name_of(words[0])
    if program in _RUNNERS:
        return f"{program} does whatever the words after it name"
    for launcher in _LAUNCHERS:
        if (program, *words[1 : len(launcher)]) == launcher:
            rest = words[len(launcher) :]
            if not rest or rest[0].startswith("-"):
                return f"{' '.join(launcher)} runs the program that the words after it name"
            return runs_anything(rest)
    if program in _INTERPRETERS:
        return None if _has_script(program, words[1:]) else f"{program} runs code from its words or its input"
    if program == "git" and _git_runs_anything(words[1:]):
        return f"git with {words[1]} runs what its configuration or its words name"
    if (program, *words[1:2]) in _RUNNING_SUBCOMMANDS:
        return f"{program} {words[1]} runs what its words or its files name"
    opening = next((word for word in words[1:] if _opens(program, word)), None)
    if opening is None:
        opening = _unlisted(program, words)
    return None if opening is None else f"{program} with {opening} runs or writes what its words name"


def _has_script(program: str, rest: tuple[str, ...]) -> bool:
    """Whether an interpreter is given a plain script or module first; what follows belongs to that."""
    if rest[:1] == ("-m",) and program in ("python", "pypy"):
        return len(rest) > 1 and rest[1].partition(".")[0].lower() not in _RUNNING_MODULES
    return bool(rest) and not rest[0].startswith(("-", "+")) and "." in rest[0]


def _git_runs_anything(rest: tuple[str, ...]) -> bool:
    # An option before the subcommand may bring a configuration along: `-c`, `-C`, `--git-dir`.
    if rest and (rest[0].startswith("-") or rest[0] in _GIT_RUNNERS):
        return True
    return rest[:1] == ("clone",) and any(_CLONE_SHORT.fullmatch(word) for word in rest[1:])


def _opens(program: str, word: str) -> bool:
    openings = _OPENINGS.get(program)
    if openings is None:
        return False
    name = word.partition("=")[0]
    if name.startswith("--") and len(name) > 2:
        # Most programs take any beginning of a long option for the whole.
        return any(option.startswith(name) or name.startswith(option) for option in openings.long)
    return re.fullmatch(openings.short, word, re.DOTALL) is not None


def _unlisted(program: str, words: tuple[str, ...]) -> str | None:
    """Return the first option that is not among those under which a listed subcommand does what its name states."""
    known = arguments_for(program, words)
    if known is None:
        return None
    length, table = known
    return unknown_option(read_options(table), words[length:])


def is_listed(words: tuple[str, ...]) -> int | None:
    """Return how many first words name a subcommand that "with any arguments" may be offered for; None if none do."""
    known = arguments_for(name_of(words[0]), words)
    return None if known is None else known[0]


def wrapped(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the command that a wrapper such as `timeout 5` runs, empty if it runs none; None if that is not known."""
    program = name_of(words[0])
    for launcher in _LAUNCHERS:
        if (program, *words[1 : len(launcher)]) == launcher:
            rest = words[len(launcher) :]
            return None if not rest or rest[0].startswith("-") else rest
    if program not in _WRAPPERS:
        return None
    table, count = _WRAPPERS[program]
    found = operands_of(read_options(table), words[1:], stops_early=True)
    if found is None:
        return None
    rest = words[1 + found[0] :] if found else ()
    if program == "env":
        while rest and "=" in rest[0]:
            if is_risky_variable(rest[0].partition("=")[0]):
                return None
            rest = rest[1:]
    return rest[count:] or None


@lru_cache(maxsize=512)
def hides_what_runs(words: tuple[str, ...]) -> str | None:
    """Return why it cannot be read from the words which programs this command runs, None if it can.

    A script, `make` and the like do not count: they name what runs, though not what that does.
    """
    for _ in range(8):
        program = name_of(words[0])
        inner = wrapped(words)
        if inner is None:
            return _hides(program, words)
        words = inner
    return "wrappers run wrappers too deeply"


def _hides(program: str, words: tuple[str, ...]) -> str | None:
    rest = words[1:]
    if program in _INTERPRETERS:
        is_plain = _has_script(program, rest) or rest in (("--version",), ("-V",), ("-v",))
        return None if is_plain else f"{program} runs code from its words or its input"
    if program == "git":
        index = subcommand_index(program, words)
        if index is None or any(word.lower().startswith(("alias.", "core.", "-calias.", "-ccore.")) for word in words):
            return "git runs what its configuration names"
        is_known = index >= len(words) or words[index] in GIT_SUBCOMMANDS or words[index].startswith("-")
        return None if is_known else f"git {words[index]} may be an alias"
    if program in ("sed", "gsed"):
        # The empty word after `-i` is the suffix of BSD's sed, and a script that does nothing to GNU's.
        scripts = [word for word in rest if word and not word.startswith("-")][:1]
        is_short = not any(_SED_SCRIPTS.match(word) for word in rest)
        is_short = is_short and sum(map(len, scripts)) < _LONG_SCRIPT
        is_plain = is_short and all(_PLAIN_SED.fullmatch(part) for text in scripts for part in text.split(";"))
        return None if is_plain else "a script of sed can run programs"
    if program in ("tee", "dd") or (program == "command" and rest[:1] in (("-v",), ("-V",))):
        return None
    if program in _RUNNERS or any((program, *words[1 : len(start)]) == start for start in _LAUNCHERS):
        return f"{program} runs what its words name"
    if program == "find" and any(word.startswith(("-exec", "-ok")) for word in rest):
        inner = _after_exec(rest)
        return hides_what_runs(inner) if inner else "find runs what its words name"
    opening = next((word for word in rest if _opens(program, word)), None)
    # These options name a program; the others in the table name files or folders.
    is_running = opening is not None and program not in ("sort", "curl", "wget", "make", "gmake", "npm", "pnpm", "yarn")
    return f"{program} with {opening} runs what its words name" if is_running and program != "find" else None


def _after_exec(rest: tuple[str, ...]) -> tuple[str, ...]:
    places = [index for index, word in enumerate(rest) if word in ("-exec", "-execdir", "-ok", "-okdir")]
    return rest[places[0] + 1 :] if len(places) == 1 else ()


def is_code_runner(program: str) -> bool:
    """Whether this is a shell or another interpreter, whose input and words may be code."""
    return program in _INTERPRETERS


def is_risky_variable(name: str) -> bool:
    """Whether programs run what this variable holds, or look for programs where it says."""
    return _RISKY_VARIABLES.fullmatch(name) is not None
