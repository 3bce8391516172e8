"""Paths in rules and requests: made absolute, matched by globs, and the protected ones.

Owns the list of protected paths: files that make a program run something later, or that instruct an agent. Does not
access the disk: the caller that makes a request resolves links.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final, Literal, TypeAlias
from unicodedata import category, normalize


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Folders, wherever they are: their files configure an editor, an agent, a version control system or a key store, and
# programs read them without the user noticing.
_FOLDERS: Final = _words(
    """
    .git .hg .svn .jj .husky .githooks .ssh .gnupg .aws .kube .docker .cargo .mvn
    .vscode .vscode-server .idea .zed .fleet .cursor .windsurf .devcontainer .vim .nvim .emacs.d
    .claude .gemini .codex .copilot .qwen .kimi .opencode .goose .continue .cline .clinerules .roo .kiro .augment
    .amazonq .junie .trae .crush .vibe .openhands .agents .agent .aider .dragoman
    .circleci .buildkite .forgejo .gitea .woodpecker .gitlab .mise
    """
)
_FILES: Final = _words(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .inputrc .envrc .direnvrc .xprofile .xinitrc .xsession .xsessionrc .pam_environment
    config.fish .vimrc .gvimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el .tmux.conf .screenrc .netrc .npmrc
    .yarnrc .yarnrc.yml .pypirc .condarc .gitconfig .gitmodules .gitattributes .lfsconfig .hgrc
    .pre-commit-config.yaml lefthook.yml .lefthook.yml .gitlab-ci.yml .travis.yml .drone.yml jenkinsfile
    azure-pipelines.yml bitbucket-pipelines.yml authorized_keys crontab .tool-versions mise.toml .mise.toml
    sitecustomize.py usercustomize.py .bazelrc
    .mcp.json mcp.json opencode.json opencode.jsonc agents.md claude.md claude.local.md gemini.md qwen.md
    copilot-instructions.md context.md .cursorrules .windsurfrules .clinerules .goosehints .aider.conf.yml .roomodes
    """
)
_ENDINGS: Final = (".code-workspace", ".mdc")
# Folders that have a meaning only inside another one.
_PAIRS: Final = frozenset(
    {
        (".github", "workflows"),
        (".github", "actions"),
        (".github", "hooks"),
        (".yarn", "releases"),
        (".yarn", "plugins"),
    }
)
_SYSTEM_SETTINGS: Final = ("/etc", "/boot", "/proc", "/sys", "/var/spool/cron", "/var/spool/at", "/library", "/system")
_SYSTEM_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/dev", "/snap", "/nix")
# Longer than any path that a system can open.
MAX_PATH: Final = 8_192
# What replaces the wildcards of a word: nothing, because there are none; the shell; the program itself.
Wildcards: TypeAlias = Literal["", "shell", "program"]
_WILDCARDS: Final = re.compile(r"[*?]")
_ANY_LETTER: Final = re.compile(r"\[[^\]/]*\]")
_ENDS_OF_NAMES: Final = re.compile(r"[. ](?:/|\Z)")
_HARMLESS: Final = frozenset({"/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def normalise(path: str, root: str, home: str) -> str:
    """Return the absolute path without `.`, `..` and doubled slashes.

    `~/` is `home`; a relative path is below `root`.
    """
    if path == "~" or path.startswith("~/"):
        path = (home or "/nonexistent") + path[1:]
    # POSIX gives two leading slashes a meaning of their own, Linux does not.
    return "/" + posixpath.normpath(posixpath.join("/", root, path)).lstrip("/")


def is_protected(path: str, root: str, home: str) -> bool:
    """Whether the user is always asked about a change of this path, whatever the rules allow.

    Upper case and look-alike spellings count as the same path, because some file systems treat them so.
    """
    return _is_protected(path, root, home, _SYSTEM_SETTINGS + _SYSTEM_PROGRAMS)


def is_protected_name(folder: str, name: str) -> bool:
    """Whether the file with this name in this folder is protected, for a search through many: neither has a slash.

    The folder's own name is "" for the root of a project.
    """
    return _has_protected_name([_fold(folder), _fold(name)])


def is_protected_word(word: str, root: str, home: str) -> bool:
    """Whether a word of a command names a protected path. Folders of the system's programs and headers do not count."""
    return _is_protected(word, root, home, _SYSTEM_SETTINGS)


_BARE_NAMES: Final = frozenset(name for name in _FILES | _FOLDERS if "." not in name)


def is_worth_checking(word: str) -> bool:
    """Whether a word can be a protected path at all: a quick test before the thorough one."""
    if len(word) > MAX_PATH:
        return False
    return "." in word or "/" in word or "~" in word or not word.isascii() or word.lower() in _BARE_NAMES


def may_be_protected(glob: str) -> bool:
    """Whether a word with a glob, such as `.gi*`, may stand for a protected name.

    Names that begin with the glob (`*.md`) do not count: they stand for too much to ask each time.
    """
    for part in _fold(glob).split("/"):
        name = re.sub(r"\[[^\]]*\]", "?", part)
        is_glob = name[:1] not in ("", "*", "?", "[") and ("*" in name or "?" in name)
        if is_glob and any(_matches_name(name, known) for known in _FOLDERS | _FILES):
            return True
    return False


def _is_protected(path: str, root: str, home: str, system: tuple[str, ...]) -> bool:
    folded = _fold(normalise(path, root, home))
    folded_root, folded_home = _fold(normalise(root, "/", home)), _fold(normalise(home or "/nonexistent", "/", ""))
    inside = _below(folded, folded_root)
    if inside is None:
        if folded not in _HARMLESS and any(_below(folded, place) is not None for place in system):
            return True
        inside = folded
    # A project may live in a hidden folder of the home (a worktree, a cache); its own files are then not "of the home".
    of_home = _below(folded, folded_home)
    if of_home is not None and of_home.startswith(".") and (inside is folded or folded_root == folded_home):
        return True
    return _has_protected_name([part for part in inside.split("/") if part])


def _has_protected_name(parts: list[str]) -> bool:
    if not parts:
        return False
    name = parts[-1]
    if name in _FILES or name.endswith(_ENDINGS):
        return True
    if any(part in _FOLDERS for part in parts):
        return True
    return any(pair in _PAIRS for pair in pairwise(parts))


def _fold(path: str) -> str:
    """Return one spelling: `.GIT`, `.git.` and `.g<zero width>it` are `.git` on some file system."""
    if path.isascii():  # has one spelling, and nothing that is not visible
        visible = path.lower()
        if _ENDS_OF_NAMES.search(visible) is None:
            return visible
    else:
        visible = "".join(letter for letter in normalize("NFKC", path) if category(letter) != "Cf").casefold()
    return "/".join(part.rstrip(". ") or part for part in visible.split("/")) or "/"


def can_be_named(path: str) -> bool:
    """Whether a rule can name exactly this path: a star would be read as a glob, and rules are printable."""
    return path.isprintable() and not set(path) & set("*?")


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or inside it. Compares names only: callers resolve links and `..` first."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_strictly_below(path: str, folder: str) -> bool:
    """Whether `path` is inside of `folder` and not the folder itself."""
    return bool(_below(path, folder))


def _below(path: str, folder: str) -> str | None:
    """Return `path` relative to `folder`, None if it is not below it."""
    if path == folder:
        return ""
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


def check_glob(glob: str) -> None:
    """Raises: ValueError for a glob whose meaning would not be what it seems to state."""
    if ".." in glob.split("/"):
        raise ValueError("has `..` in its path; write the path from the project or from / without it")
    if glob.startswith("~") and not glob.startswith("~/"):
        raise ValueError("names another user's home; write the absolute path")
    if any("**" in part and part != "**" for part in glob.split("/")):
        raise ValueError("has `**` next to other letters; it stands alone between slashes, as in src/**")


def matches_glob(glob: str, path: str, root: str, home: str, *, ignore_case: bool = False) -> bool:
    """Whether the glob covers the path. `*` and `?` stay within one name, `**` crosses folders, `x/` is `x/**`.

    Two spellings of a letter that look the same are one. `ignore_case` is for a deny, which also holds for upper case
    and for what some file system takes for the same name.
    """
    if len(path) > MAX_PATH:
        # No such file can exist: an allow does not cover it, a deny does.
        return ignore_case
    place = normalise(path, root, home)
    return _matches_names(_names_of(glob, root, home, ignore_case), _split(_spelled(place, ignore_case)))


@lru_cache(maxsize=4096)
def may_name(glob: str, place: str, root: str, home: str, *, reaches: bool, wildcards: Wildcards = "") -> bool:
    """Whether a path that a command names may be, or lead to, something that the glob covers.

    Args:
        place: the path, normalised.
        reaches: a folder stands for all that is below it.
        wildcards: whether the path has wildcards, and who replaces them: a shell does not find hidden names with them.
    """
    if len(place) > MAX_PATH:
        return False
    rule, fixed = _names_of(glob, root, home, True), _fixed_count(glob, root, home)
    names = _split(_fold(place)) if place != "/" else ()
    if wildcards:
        names = tuple(_ANY_LETTER.sub("?", name) for name in names)
        return _may_meet(names, rule, fixed if reaches else -1, finds_hidden=wildcards == "program")
    if _matches_names(rule, names) or rule == (*names, "**"):
        return True
    return reaches and len(names) <= fixed and rule[: len(names)] == names


def _may_meet(names: tuple[str, ...], rule: tuple[str, ...], fixed: int, *, finds_hidden: bool) -> bool:
    """Whether a path with wildcards may be one that the rule covers, or one of its first `fixed` folders."""
    states = _entered({0}, rule)
    for name in names:
        if name == "**":
            states = set(range(min(states), len(rule) + 1))
            continue
        stay = {state for state in states if state < len(rule) and rule[state] == "**"}
        moved = {
            state + 1 for state in states - stay if state < len(rule) and _names_meet(name, rule[state], finds_hidden)
        }
        states = _entered(stay | moved, rule)
        if not states:
            return False
    return len(rule) in states or min(states) <= fixed


def matches_wildcards(pattern: str, name: str) -> bool:
    """Whether a name may be meant by a pattern without `/`, in any spelling; a set of letters is taken for any."""
    return _matches_name(_ANY_LETTER.sub("?", _fold(pattern)), _fold(name))


def _entered(states: set[int], rule: tuple[str, ...]) -> set[int]:
    """Return the states with those that are reached because `**` may stand for nothing."""
    found = set(states)
    for state in states:
        while state < len(rule) and rule[state] == "**":
            state += 1
            found.add(state)
    return found


def _names_meet(name: str, known: str, finds_hidden: bool) -> bool:
    """Whether two names of which both may have wildcards can stand for the same one."""
    if known[:1] == "." and name[:1] in ("*", "?") and not finds_hidden:
        return False
    if not set(known) & set("*?"):
        return _matches_name(name, known)
    if not set(name) & set("*?"):
        return _matches_name(known, name)
    ends = [(_WILDCARDS.split(text)[0], _WILDCARDS.split(text)[-1]) for text in (name, known)]
    (start, end), (other_start, other_end) = ends
    is_start = start.startswith(other_start) or other_start.startswith(start)
    return is_start and (end.endswith(other_end) or other_end.endswith(end))


@lru_cache(maxsize=1024)
def _fixed_count(glob: str, root: str, home: str) -> int:
    return len([name for name in fixed_folder(glob, root, home).split("/") if name])


def fixed_folder(glob: str, root: str, home: str) -> str:
    """Return the folder that everything the glob covers is in: its names before the first with a wildcard."""
    names = normalise(glob, root, home).split("/")
    fixed = list(takewhile(lambda name: "*" not in name and "?" not in name, names))
    return "/".join(fixed) or "/"


@lru_cache(maxsize=1024)
def _names_of(glob: str, root: str, home: str, ignore_case: bool) -> tuple[str, ...]:
    anchored = normalise(glob, root, home) + ("/**" if glob.endswith("/") else "")
    return _split(_spelled(anchored, ignore_case))


def _spelled(path: str, ignore_case: bool) -> str:
    """Return the spelling of a path that is compared: one of all that look the same, or that may be the same file."""
    if ignore_case:
        return _fold(path)
    return path if path.isascii() else normalize("NFC", path)


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _matches_names(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Match names one by one. `**` is tried at its nearest place first, and only the last one is ever moved on.

    That is enough, because what follows a `**` may as well follow a later one; so the work is at most the product of
    the two lengths, whatever the glob looks like.
    """
    at_glob = at_name = 0
    star: tuple[int, int] | None = None
    while at_name < len(names):
        if at_glob < len(globs) and globs[at_glob] == "**":
            # The last `**` stands for at least one name: `src/**` does not cover `src` itself.
            if at_glob == len(globs) - 1:
                return True
            star = (at_glob, at_name)
            at_glob += 1
        elif at_glob < len(globs) and _matches_name(globs[at_glob], names[at_name]):
            at_glob += 1
            at_name += 1
        elif star is not None:
            star = (star[0], star[1] + 1)
            at_glob, at_name = star[0] + 1, star[1]
        else:
            return False
    return at_glob == len(globs)


def _matches_name(glob: str, name: str) -> bool:
    """Whether a glob without `/` covers a name: the texts between its stars in their order, each at its first place."""
    if "*" not in glob:
        return glob == name if "?" not in glob else _text_at(glob, name, 0) and len(glob) == len(name)
    first, *middle, last = glob.split("*")
    end = len(name) - len(last)
    if end < len(first) or not _text_at(first, name, 0) or not _text_at(last, name, end):
        return False
    start = len(first)
    for text in middle:
        place = _find_text(text, name, start, end)
        if place < 0:
            return False
        start = place + len(text)
    return start <= end


def _text_at(text: str, name: str, start: int) -> bool:
    if "?" not in text:
        return name.startswith(text, start)
    part = name[start : start + len(text)]
    return len(part) == len(text) and all(a in ("?", b) for a, b in zip(text, part, strict=True))


def _find_text(text: str, name: str, start: int, end: int) -> int:
    if "?" not in text:
        return name.find(text, start, end)
    found = _one_text(text).search(name, start, end)
    return -1 if found is None else found.start()


@lru_cache(maxsize=1024)
def _one_text(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if letter == "?" else re.escape(letter) for letter in text), re.DOTALL)
