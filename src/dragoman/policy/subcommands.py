"""Options in front of a subcommand, and the subcommands that a rule may cover "with any arguments".

`git -C . push` is `git push`. The tables say which options of well-known programs stand before the subcommand and
which of them take a value. `ARGUMENTS` lists, per subcommand, the options under which it does what its name states:
a list of allowed options, because a list of dangerous ones is never complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.policy.options import operands_of, read_options

if TYPE_CHECKING:
    from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEFORE: Final = {
    "git": """-p -P --paginate --no-pager --bare --no-replace-objects --literal-pathspecs --glob-pathspecs
        --icase-pathspecs --noglob-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --exec-path=?
        -C= -c= --git-dir= --work-tree= --namespace= --super-prefix= --config-env= --attr-source=""",
    "npm": """-s --silent -q --quiet -d --verbose -g --global -y --yes -f --force --json --no-audit --no-fund
        --offline --prefer-offline --workspaces --ignore-scripts --prefix= -C= --registry= --userconfig=
        --globalconfig= -w= --workspace= --cache= --loglevel= --script-shell= --tag= --otp= --access=""",
    "pnpm": "-r --recursive -w --workspace-root -s --silent --stream --parallel -C= --dir= -F= --filter= --reporter=",
    "yarn": "--silent -s --offline --json --verbose --cwd=",
    "docker": """-D --debug --tls --tlsverify -H= --host= -c= --context= --config= -l= --log-level= --tlscacert=
        --tlscert= --tlskey=""",
    "kubectl": """-n= --namespace= --context= --cluster= --kubeconfig= --user= -s= --server= --token= --as=
        --as-group= -v= --request-timeout= --certificate-authority= --client-key= --client-certificate=
        --insecure-skip-tls-verify=?""",
    "terraform": "-chdir= -version -help",
    "cargo": "-v -vv -q --verbose --quiet --locked --offline --frozen --color= -Z= -C= --config= --manifest-path=",
    "uv": """-q -v --quiet --verbose --offline --no-cache -n --native-tls --no-progress --no-config --directory=
        --project= --config-file= --cache-dir= --color=""",
    "make": """-B -k -s -i -n -q -r -R -w --silent --keep-going --dry-run --always-make -C= --directory= -f=
        --file= --makefile= -I= --include-dir= -o= -W= -l=? -j=? -O=?""",
    "gh": "-R= --repo= --hostname=",
}
# What git brings along. Any other first word may be an alias, which runs what a configuration says.
GIT_SUBCOMMANDS: Final = _words(
    """add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout
        cherry cherry-pick clean clone commit commit-tree config count-objects describe diff diff-files
        diff-index diff-tree difftool fetch fast-export filter-branch for-each-ref format-patch fsck gc grep
        gui hash-object help hook init log ls-files ls-remote ls-tree maintenance merge merge-base
        merge-file mergetool mv name-rev notes pack-refs prune pull push range-diff read-tree rebase reflog
        remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email
        shortlog show show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag
        update-index update-ref var verify-commit version whatchanged worktree write-tree"""
)
_LOG: Final = """-# -n= --oneline --stat --graph --decorate --all --since= --until= --author= --grep= --format=
        --pretty= -p --patch --name-only --name-status --no-merges --merges --reverse --follow --date=
        --abbrev-commit -S= -G= -w -U= --shortstat --numstat"""
_PYTEST: Final = """-q -qq -v -vv -x -s -k= -m= --tb= --lf --ff --last-failed --maxfail= --co --collect-only --no-header
        -r= -n= -l --durations= --disable-warnings --sw --stepwise --no-cov --exitfirst -ra -rA"""
_CARGO: Final = """-v -q --release --all --workspace --all-targets --all-features --locked --offline --lib --bins
        --tests -p= --features= --test= -j="""
_NPM: Final = "-s --silent -w= --workspace= --workspaces --if-present --watch --coverage"

ARGUMENTS: Final[dict[tuple[str, ...], str]] = {
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


def subcommand_index(program: str, words: Sequence[str]) -> int | None:
    """Return where the subcommand of a known program stands in `words`, None if an option before it is not known.

    The length of `words` if there is none. A program without a table has its first word after the name there.
    """
    table = _BEFORE.get(program)
    if table is None:
        return min(1, len(words))
    rest = words[1:]
    start = 1
    if program == "cargo" and rest and rest[0].startswith("+"):
        rest, start = rest[1:], 2
    found = operands_of(read_options(table), rest, stops_early=True)
    if found is None:
        return None
    return found[0] + start if found else len(words)


def has_subcommands(program: str) -> bool:
    """Whether the options before this program's subcommand are known."""
    return program in _BEFORE


def arguments_for(program: str, words: Sequence[str]) -> tuple[int, str] | None:
    """Return how many first words are in `ARGUMENTS`, and the options allowed after them; None if none are."""
    for length in (3, 2, 1):
        table = ARGUMENTS.get((program, *words[1:length])) if len(words) >= length else None
        if table is not None:
            return length, table
    return None
