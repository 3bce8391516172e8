"""Programs that run other programs or code, so that their first words do not state what they do.

Owns that list and nothing else. It can never be complete, and need not be: it keeps a rule such as `execute:git log *`
from covering more than its author saw. Only a sandbox stops a program that is malicious.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.policy.options import read_options, unknown_option

if TYPE_CHECKING:
    from collections.abc import Sequence


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


_LOG: Final = """-# -n= --oneline --stat --graph --decorate --all --since= --until= --author= --grep= --format=
        --pretty= -p --patch --name-only --name-status --no-merges --merges --reverse --follow --date=
        --abbrev-commit -S= -G= -w -U= --shortstat --numstat"""
_PYTEST: Final = """-q -qq -v -vv -x -s -k= -m= --tb= --lf --ff --last-failed --maxfail= --co --collect-only --no-header
        -r= -n= -l --durations= --disable-warnings --sw --stepwise --no-cov --exitfirst -ra -rA"""
_CARGO: Final = """-v -q --release --all --workspace --all-targets --all-features --locked --offline --lib --bins
        --tests -p= --features= --test= -j="""
_NPM: Final = "-s --silent -w= --workspace= --workspaces --if-present --watch --coverage"

# Subcommands that a rule may cover "with any arguments", and the options under which each does what its name states: a
# list of allowed options, because a list of dangerous ones is never complete.
_ARGUMENTS: Final[dict[tuple[str, ...], str]] = {
    ("git", "add"): "-A -u -v -n -N -f --all --update --verbose --dry-run --intent-to-add --force",
    ("git", "commit"): "-m= --message= -a --all --amend --no-edit -q --quiet -v --verbose -s --signoff --allow-empty",
    ("git", "status"): "-s -b --short --branch --porcelain=? -u=? --ignored --long -z",
    ("git", "log"): _LOG,
    ("git", "show"): _LOG,
    (
        "git",
        "diff",
    ): """--stat --cached --staged --name-only --name-status -w -b -U= --no-ext-diff --no-textconv --color=?
        --no-color --shortstat --numstat -M -C --check""",
    ("git", "branch"): "-a -r -v -vv --list --show-current --all --contains= --merged --no-merged --sort= --format=",
    ("git", "checkout"): "-b= -q --quiet -f --ours --theirs --detach --track -t",
    ("git", "switch"): "-c= -q --quiet --detach --create= -",
    ("git", "restore"): "--staged -S --worktree -W --source= -s= -q",
    ("git", "stash"): "-u --include-untracked -m= --message= -q -k --keep-index",
    ("git", "fetch"): "--all -p --prune -t --tags -q --quiet -v --depth=",
    ("git", "pull"): "--rebase=? --ff-only --no-rebase -q --quiet --prune --tags --autostash",
    ("git", "push"): "-u --set-upstream -q --quiet -v --tags --follow-tags --dry-run -n",
    ("git", "merge"): "--ff-only --no-ff --squash --abort --continue -m= --no-edit -q",
    ("git", "rebase"): "--continue --abort --skip --onto= -q --autostash",
    ("git", "cherry-pick"): "--continue --abort --skip -n --no-commit -x",
    ("git", "reset"): "--soft --mixed --hard -q --quiet",
    ("git", "rm"): "-r -f -q -n --cached --ignore-unmatch",
    ("git", "mv"): "-f -k -n -v",
    ("git", "tag"): "-l --list -a -m= -n=? --sort= --contains=",
    ("git", "rev-parse"): "--short=? --abbrev-ref=? --verify --show-toplevel --git-dir --is-inside-work-tree -q",
    ("git", "ls-files"): "-m -o -s -c -d --others --modified --exclude-standard --cached --deleted",
    ("git", "blame"): "-L= -w -s -e --date=",
    ("git", "grep"): "-n -i -l -w -c -E -F -P -e= -h -v --cached -A= -B= -C=",
    ("npm", "test"): _NPM,
    ("npm", "t"): _NPM,
    ("npm", "ci"): "--no-audit --no-fund --silent -s --prefer-offline --offline",
    ("cargo", "build"): _CARGO,
    ("cargo", "check"): _CARGO,
    ("cargo", "test"): _CARGO + " --no-run --no-fail-fast --doc",
    ("cargo", "clippy"): _CARGO,
    ("cargo", "fmt"): "--all --check -v -q",
    ("go", "build"): "-v -race -o=",
    ("go", "vet"): "-v",
    ("go", "test"): "-v -race -run= -count= -short -cover -timeout= -bench= -failfast -parallel=",
    ("pytest",): _PYTEST,
    ("python", "-m", "pytest"): _PYTEST,
    ("uv", "run", "pytest"): _PYTEST,
}


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
    known = _arguments_for(program, words)
    if known is None:
        return None
    length, table = known
    return unknown_option(read_options(table), words[length:])


def is_listed(words: tuple[str, ...]) -> int | None:
    """Return how many first words name a subcommand that "with any arguments" may be offered for; None if none do."""
    known = _arguments_for(name_of(words[0]), words)
    return None if known is None else known[0]


def _arguments_for(program: str, words: Sequence[str]) -> tuple[int, str] | None:
    """Return how many first words are in `_ARGUMENTS`, and the options allowed after them; None if none are."""
    for length in (3, 2, 1):
        table = _ARGUMENTS.get((program, *words[1:length])) if len(words) >= length else None
        if table is not None:
            return length, table
    return None
