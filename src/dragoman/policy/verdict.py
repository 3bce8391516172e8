"""Which rule decides about a request, and which rules an answer of "always" may write.

A deny wins, and a guarded host is denied unless a rule names it; then the requests about which the user is always
asked (protected paths, cautions); then ask rules; then allow rules; otherwise the user is asked. The order in which
rules were written does not matter. Allow rules are read narrowly, deny and ask rules widely.
"""

from __future__ import annotations

import posixpath
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from dragoman.policy import commands, paths
from dragoman.policy.hosts import plain_host
from dragoman.policy.programs import runs_anything
from dragoman.policy.rule import PATH_KINDS, Verdict, is_ignored, read_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.policy.rule import Pattern, Request, Rule

# These kinds change nothing: protected paths may be read without asking.
_LOOKING: Final = frozenset({"read", "search", "think", "fetch"})
_SCOPES: Final = ("flag", "session", "project", "pinned", "repository")


def judge(rules: Iterable[Rule], request: Request) -> Verdict:
    """The verdict of the rules about the request."""
    rules = tuple(rules)
    denying = _first(rule for rule in rules if rule.action == "deny" and _concerns(read_pattern(rule.text), request))
    if denying is not None:
        return Verdict("deny", denying, f"denied by {named(denying)}")
    if request.guarded and not any(_is_about_host(rule, request) for rule in rules):
        naming = f"fetch:{_host(request.host or '')}"
        return Verdict(
            "deny", None, f"{request.guarded}; only a rule of the user's that names it allows that: {naming}"
        )
    always_asked = _always_asked(request)
    if always_asked is not None:
        return Verdict("ask", None, always_asked)
    asking = _first(rule for rule in rules if rule.action == "ask" and _concerns(read_pattern(rule.text), request))
    if asking is not None:
        return Verdict("ask", asking, f"asked because of {named(asking)}")
    allowing = _first(
        rule for rule in rules if rule.action == "allow" and not is_ignored(rule) and _covers(rule, request)
    )
    if allowing is not None:
        return Verdict("allow", allowing, f"allowed by {named(allowing)}")
    return Verdict("ask", None, _why_not(rules, request))


def named(rule: Rule) -> str:
    """A rule and its source, for messages."""
    return f"rule {rule.text} ({rule.source or rule.scope})"


def _first(found: Iterable[Rule]) -> Rule | None:
    """The rule to name among several that match: the nearest scope first, then in alphabetical order."""
    return min(found, key=lambda rule: (_SCOPES.index(rule.scope), rule.text, rule.source), default=None)


def _always_asked(request: Request) -> str | None:
    """Why the user is asked whatever the rules allow, None if the rules may allow it."""
    if request.caution:
        return request.caution
    if request.kind in _LOOKING:
        return None
    # A command names places it only reads: any compiler may name `/usr/include`.
    is_kept = paths.is_protected_word if request.kind == "execute" else paths.is_protected
    for path in request.paths:
        if is_kept(path, request.root, request.home):
            return f"{path} is protected: a change of it is always asked for"
    if request.kind in PATH_KINDS or (request.command is None and request.shell is None):
        return None
    for word in commands.words_of(request.command, request.shell):
        if paths.is_protected_word(word, request.root, request.home):
            return f"the command names {word}, which is protected: always asked for"
    return None


def _why_not(rules: Sequence[Rule], request: Request) -> str:
    """Why no rule allows the request."""
    if request.kind == "execute":
        words, line = commands.effective(request.command, request.shell)
        if line is not None:
            return "no rule allows it: the shell line is more than one simple command"
        if _is_elsewhere(request):
            return f"no rule allows it: it runs in {request.cwd}, outside the project"
        opening = runs_anything(words) if words else None
        if opening is not None:
            return f"no rule allows it: {opening}, so only a rule with these exact words would"
    if any(is_ignored(rule) and _covers(rule, request) for rule in rules):
        return "no rule of the user allows it; what a repository ships cannot allow anything"
    return "no rule allows it"


def _is_meant(pattern: Pattern, request: Request) -> bool:
    """Whether the rule is about this agent and this kind of request."""
    if pattern.agent is not None and pattern.agent != request.agent:
        return False
    if pattern.kind == "mcp":
        return request.mcp is not None
    return pattern.kind in ("*", request.kind)


def _covers(rule: Rule, request: Request) -> bool:
    """Whether an allow covers all of the request."""
    pattern = read_pattern(rule.text)
    if not _is_meant(pattern, request):
        return False
    if request.kind == "execute" and pattern.kind in ("*", "execute"):
        return _covers_command(pattern, request)
    if pattern.pattern is None:
        return True
    if pattern.kind in PATH_KINDS:
        return bool(request.paths) and all(_in_glob(pattern.pattern, path, request) for path in request.paths)
    return _names(pattern, request)


def _covers_command(pattern: Pattern, request: Request) -> bool:
    # `*` and `execute:*` are typed for one run, by a user who means every command line.
    if pattern.kind == "*" or (pattern.command is not None and pattern.command.is_everything):
        return True
    if pattern.command is not None and _is_elsewhere(request):
        return False
    words, line = commands.effective(request.command, request.shell)
    if words is None:
        # `execute` covers a command that could not be read, but not a line that is more than one command.
        return line is None and pattern.command is None
    if pattern.command is not None:
        return commands.covers(pattern.command, words)
    return runs_anything(words) is None


def _is_elsewhere(request: Request) -> bool:
    """Whether a command runs outside the project: `npm test` in another folder is another program."""
    if not request.cwd:
        return False
    place = paths.normalise(request.cwd, request.root, request.home)
    return not paths.is_below(place, paths.normalise(request.root, "/", request.home))


def _concerns(pattern: Pattern, request: Request) -> bool:
    """Whether a deny or ask rule concerns any part of the request."""
    if not _is_meant(pattern, request):
        return False
    if pattern.pattern is None:
        return True
    if pattern.command is not None:
        return commands.touches(pattern.command, request.command, request.shell)
    if pattern.kind in PATH_KINDS:
        return any(_in_glob(pattern.pattern, path, request, ignore_case=True) for path in request.paths)
    return _names(pattern, request)


def _in_glob(glob: str, path: str, request: Request, *, ignore_case: bool = False) -> bool:
    return paths.matches_glob(glob, path, request.root, request.home, ignore_case=ignore_case)


def _names(pattern: Pattern, request: Request) -> bool:
    """Whether the pattern of a host or an MCP tool matches."""
    if pattern.mcp is not None and request.mcp is not None:
        return all(fnmatchcase(name, glob) for name, glob in zip(request.mcp, pattern.mcp, strict=True))
    if pattern.kind != "fetch" or request.host is None or pattern.pattern is None:
        return False
    host = _host(request.host)
    if pattern.pattern.startswith("*."):
        return host.endswith(pattern.pattern[1:])
    return host == pattern.pattern


def _host(host: str) -> str:
    try:
        return plain_host(host)
    except ValueError:
        return host.lower().rstrip(".")


def _is_about_host(rule: Rule, request: Request) -> bool:
    """Whether this is an allow or ask of the user that names exactly this host; `*.` covers hosts not thought of."""
    if rule.action == "deny" or rule.scope == "repository":
        return False
    pattern = read_pattern(rule.text)
    is_one_host = pattern.kind == "fetch" and pattern.pattern is not None and not pattern.pattern.startswith("*.")
    return is_one_host and _is_meant(pattern, request) and _names(pattern, request)


def proposals(request: Request) -> tuple[str, ...]:
    """The texts of the rules that "always" may write for this request, narrowest first.

    Empty if no rule expresses it, or if the answer must not be remembered.
    """
    if _always_asked(request) is not None:
        return ()
    found: list[str] = []
    if request.mcp is not None:
        server, tool = request.mcp
        if not set(server + tool) & set("*?[]:"):
            found = [f"mcp:{server}:{tool}", f"mcp:{server}"]
    elif request.kind == "execute":
        found = _command_proposals(request)
    elif request.kind in PATH_KINDS:
        found = _path_proposals(request)
    elif request.kind == "fetch" and request.host is not None:
        found = [f"fetch:{_host(request.host)}"]
    elif request.kind == "think":
        found = ["think"]
    return tuple(text for text in found if _is_fit(text))


def _command_proposals(request: Request) -> list[str]:
    words, _ = commands.effective(request.command, request.shell)
    exact = commands.quote(words) if words else None
    if words is None or exact is None or _is_elsewhere(request):
        return []
    found = [f"execute:{exact}"]
    # `npm test` states what is run; `git -C` or `rm` alone would cover too much.
    if len(words) > 2 and not words[1].startswith("-") and runs_anything(words) is None:
        found.append(f"execute:{commands.quote(words[:2])} *")
    return found


def _path_proposals(request: Request) -> list[str]:
    if not request.paths:
        return [request.kind] if request.kind in _LOOKING else []
    absolute = sorted({paths.normalise(path, request.root, request.home) for path in request.paths})
    if any(path == "/" or set(path) & set("*?") for path in absolute):
        return []
    root = paths.normalise(request.root, "/", request.home)
    found = [absolute[0]] if len(absolute) == 1 else []
    parent = posixpath.commonpath([posixpath.dirname(path) for path in absolute])
    if parent.startswith(root.rstrip("/") + "/"):
        found.append(f"{parent}/**")
    return [f"{request.kind}:{path.removeprefix(root.rstrip('/') + '/')}" for path in found]


def _is_fit(text: str) -> bool:
    try:
        read_pattern(text)
    except ValueError:
        return False
    return True
