"""Programs that run other programs or code, so that their first words do not state what they do.

Owns that list and nothing else. It can never be complete, and need not be: it keeps a rule such as `execute:git log *`
from covering more than its author saw. Only a sandbox stops a program that is malicious.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


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
            r"-x.*|-O.*|ext::.*",
        ),
        (
            "tar bsdtar",
            "to-command checkpoint-action use-compress-program rsh-command rmt-command info-script new-volume-script",
            r"-?[a-zA-Z]*[IF].*",
        ),
        ("rsync", "rsh rsync-path", r"-[a-zA-Z]*e.*"),
        ("make gmake", "eval", r"-E.*|[^-].*=.*"),
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
    """The name of a program without folder and version: `/usr/bin/python3.12` is python."""
    name = program.rpartition("/")[2].lower().removesuffix(".exe")
    return re.sub(r"[\d.]+$", "", name) or name


def runs_anything(words: tuple[str, ...]) -> str | None:
    """Why the first words do not state what this command does, None if they do."""
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
    opening = next((word for word in words[1:] if _opens(program, word)), None)
    return None if opening is None else f"{program} with {opening} runs or writes what its words name"


def _has_script(program: str, rest: tuple[str, ...]) -> bool:
    """An interpreter is as plain as the script or module it is given first; what follows belongs to that."""
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
