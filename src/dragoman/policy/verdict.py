"""The verdict about a request: which rule decides, and which rules an answer of "always" may write.

The one place where what is known of a request (`request.py`) becomes a verdict. A deny wins, and a guarded host is
denied unless a rule names it; then the requests about which the user is always asked (protected paths, cautions); then
ask rules, and denies that may apply although that cannot be seen; then allow rules; otherwise the user is asked. The
order in which rules were written does not matter. Allow rules are read narrowly, deny and ask rules widely. A command
line is judged by its parts (`parts.py`), their words (`commands.py`) and the files that they name (`paths.py`).
"""

from __future__ import annotations

import posixpath
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy import commands, paths
from dragoman.policy.hosts import plain_host
from dragoman.policy.named_files import has_pieces, located, may_make_links, pieces_of
from dragoman.policy.programs import is_listed, runs_anything
from dragoman.policy.project_code import ProjectCode, in_folder, is_named, rule_for
from dragoman.policy.request import PATH_KINDS
from dragoman.policy.rule import KNOWN, SAFE, Rule, is_ignored, read_pattern
from dragoman.policy.safe import is_quiet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.policy.identify import Identified
    from dragoman.policy.named_files import NamedFile
    from dragoman.policy.parts import Part, Reading
    from dragoman.policy.request import Request
    from dragoman.policy.rule import Action, Pattern

# These kinds change nothing: protected paths may be read without asking.
_LOOKING: Final = frozenset({"read", "search", "think", "fetch"})
READING: Final = "reading a file of the project needs no rule"
_MAX_NAMES: Final = 500  # enough for any real line; the time to check a name is about 20 microseconds
_SCOPES: Final = ("flag", "session", "project", "pinned", "repository")


class Verdict(Struct, frozen=True):
    """The result of judging a request: the action, the rule that decided, and a sentence for users."""

    action: Action
    rule: Rule | None
    why: str
    is_uncovered: bool = False  # asked only because no rule covers it; nothing wants it to be asked about
    project: ProjectCode | None = None


class Judgement(Struct, frozen=True, dict=True):
    """A request with what only the disk knows, and the verdict about it."""

    request: Request
    verdict: Verdict

    @property
    def is_acceptable_inside(self) -> bool:
        """Whether this is a command that needs no permission in a sandbox: at most the lack of a rule is against it."""
        return self.request.kind == "execute" and (self.verdict.action == "allow" or self.verdict.is_uncovered)

    @cached_property
    def proposals(self) -> tuple[str, ...]:
        """The rules that "always" may write; none if the user has not to be asked."""
        return proposals_for(self.verdict, self.request) if self.verdict.action == "ask" else ()


def judge(rules: Iterable[Rule], request: Request) -> Verdict:
    """Return the verdict of the rules about a request that has been read; nothing more is looked up."""
    rules = tuple(rules)
    restricting = [(rule, read_pattern(rule.text)) for rule in rules if rule.action != "allow"]
    found = _identified(rules, request) if restricting else ()
    concerns = {rule: _concern(pattern, request, found) for rule, pattern in restricting}
    denying = _first(rule for rule, concern in concerns.items() if rule.action == "deny" and concern == "yes")
    if denying is not None:
        return Verdict("deny", denying, f"denied by {named(denying)}")
    if request.guarded and not any(_is_about_host(rule, request) for rule in rules):
        naming = f"fetch:{_host(request.host or '')}"
        return Verdict(
            "deny", None, f"{request.guarded}; only a rule of the user's that names it allows that: {naming}"
        )
    if request.closed:
        return Verdict("deny", None, request.closed)
    always_asked = _always_asked(request)
    if always_asked is not None:
        return Verdict("ask", None, always_asked)
    asking = _first(rule for rule, concern in concerns.items() if rule.action == "ask" and concern == "yes")
    if asking is not None:
        return Verdict("ask", asking, f"asked because of {named(asking)}")
    possible = _first(rule for rule, concern in concerns.items() if concern == "maybe")
    if possible is not None and not _is_known(rules, request, concerns):
        why = _why_maybe(read_pattern(possible.text), request, found)
        return Verdict("ask", possible, f"{why}, and {named(possible)} may concern it")
    verdict = _allow(rules, request)
    project = _project_code(rules, request, found)
    return verdict if project is None else replace(verdict, project=project)


def _project_code(rules: Sequence[Rule], request: Request, found: Sequence[Identified]) -> ProjectCode | None:
    """Return the code of the project that a command runs; None if no rule is about commands, or an allow names it."""
    if not any(identified.project for identified in found):
        return None
    patterns = [(rule, read_pattern(rule.text)) for rule in rules if not is_ignored(rule)]
    mine = [(rule, pattern) for rule, pattern in patterns if pattern.command and _is_meant(pattern, request)]
    unseen_by = _first(rule for rule, _ in mine if rule.action != "allow")
    if unseen_by is None:
        return None
    # An allow of everything says nothing about a single file.
    allows = [pattern for rule, pattern in mine if rule.action == "allow" and not _is_everything(pattern, request)]
    names = []
    for index, identified in enumerate(found):
        if any(_covers_part(pattern, request, index) for pattern in allows):
            continue
        folders = request.reading.parts[index].folders
        for name in identified.project:
            # `node_modules/.bin/tsc` is not `tsc` as well.
            is_twice = any(other.endswith(f"/{name}") for other in identified.project)
            if not is_twice and not any(is_named(name, pattern.command) for pattern in allows if pattern.command):
                names.append(in_folder(name, folders, request.root, request.home))
    return ProjectCode(tuple(dict.fromkeys(names)), unseen_by) if names else None


def possible_deny(rules: Iterable[Rule], request: Request) -> Rule | None:
    """Return the deny that may concern what was done, although that cannot be seen; None if no deny may.

    For something that has happened the kind counts that was stated: a search that names no folder is not a command.
    """
    rules = tuple(rules)
    if _is_tool(request) and _is_known(rules, request, {}):
        return None
    rules = tuple(rules)
    any_kind = request.kind in ("other", "execute")
    denying = [(rule, read_pattern(rule.text)) for rule in rules if rule.action == "deny"]
    found = _identified(rules, request) if denying else ()
    return _first(
        rule
        for rule, pattern in denying
        if (any_kind or _is_meant(pattern, request)) and _concern(pattern, request, found) == "maybe"
    )


def why_unseen(request: Request) -> str:
    """Return why it cannot be seen what a request is about, as a sentence."""
    return _why_maybe(None, request, _identified((), request))


class ExplainedPart(Struct, frozen=True):
    """One part of a command line as rules see it.

    Attributes:
        words: the part as it is written.
        programs: what it runs, the outermost first, each with what it does ("" if that is not known).
        unknown: what is not known of it, as the beginning of a sentence.
        project: the files and tools of the project that it runs.
        rules: the deny and ask rules about commands that concern it, or may.
    """

    words: str
    programs: tuple[tuple[str, str], ...]
    unknown: str
    project: tuple[str, ...]
    rules: tuple[tuple[Rule, commands.Concern], ...]


def explain_parts(rules: Iterable[Rule], request: Request) -> list[ExplainedPart]:
    """Return what each part of a command line runs, and which rules about commands concern it."""
    rules = tuple(rules)
    restricting = [(rule, read_pattern(rule.text)) for rule in rules if rule.action != "allow"]
    found = _identified(rules, request)
    explained = []
    for part, identified in zip(request.reading.parts, found, strict=True):
        alone = replace(request.reading, parts=(part,))
        from dragoman.policy.concern import concern

        concerned = (
            (rule, concern(pattern.command, alone, (identified,)))
            for rule, pattern in restricting
            if pattern.command is not None and _is_meant(pattern, request)
        )
        explained.append(
            ExplainedPart(
                " ".join(part.argv),
                tuple((" ".join(run.path), run.kind) for run in identified.runs),
                identified.unknown,
                identified.project,
                tuple(pair for pair in concerned if pair[1] != "no"),
            )
        )
    return explained


def _identified(rules: Sequence[Rule], request: Request) -> tuple[Identified, ...]:
    """Return what the parts of a command run."""
    if request.kind != "execute":
        return ()
    from dragoman.policy.concern import identify_parts  # loads the table of known programs

    patterns = (read_pattern(rule.text) for rule in rules if rule.action == "allow" and not is_ignored(rule))
    mine = [pattern for pattern in patterns if pattern.kind == KNOWN and pattern.agent in (None, request.agent)]
    known = dict((pattern.pattern or "").split(":") for pattern in mine)
    return identify_parts(request.reading, request.root, request.home, known)


def _allow(rules: tuple[Rule, ...], request: Request) -> Verdict:
    """Return the verdict when no deny and no ask concerns the request."""
    counting = [rule for rule in rules if rule.action == "allow" and not is_ignored(rule)]
    why: str | None = None
    if request.kind == "execute":
        findings = LineFindings(counting, request)
        allowing = findings.rule
        why = findings.why_not() if allowing is None else None
    else:
        allowing = _first(rule for rule in counting if _covers(rule, request))
    if allowing is not None:
        return Verdict("allow", allowing, f"allowed by {named(allowing)}")
    if request.kind == "read" and request.is_inside and request.paths:
        return Verdict("allow", None, READING)
    if why is not None:
        why = f"no rule allows it: {why}"
    elif any(is_ignored(rule) and _allows([rule], request) for rule in rules):
        why = "no rule of the user allows it; what a repository ships cannot allow anything"
    return Verdict("ask", None, why or "no rule allows it", is_uncovered=True)


def _why_maybe(pattern: Pattern | None, request: Request, found: tuple[Identified, ...]) -> str:
    if request.kind == "execute":
        from dragoman.policy.concern import doubt_about

        reason = request.unreadable or request.reading.unreadable
        if reason:
            return f"the command cannot be read ({reason})"
        command = None if pattern is None else pattern.command
        return doubt_about(command, request.reading, found) or "it cannot be seen all that the command does"
    return f"it could not be read what this is about{f' ({request.unreadable})' if request.unreadable else ''}"


def named(rule: Rule) -> str:
    """Return a rule and its source, for messages."""
    return f"rule {rule.text} ({rule.source or rule.scope})"


def _first(found: Iterable[Rule]) -> Rule | None:
    """Return the rule to name among several that match.

    The nearest scope comes first, then a deny, then alphabetical order.
    """
    return min(
        found,
        key=lambda rule: (_SCOPES.index(rule.scope), rule.action != "deny", rule.text, rule.source),
        default=None,
    )


def _always_asked(request: Request) -> str | None:
    """Return why the user is asked whatever the rules allow, None if the rules may allow it."""
    if request.caution:
        return request.caution
    if request.kind in _LOOKING:
        return None
    # A command names places it only reads: any compiler may name `/usr/include`.
    is_kept = paths.is_protected_word if request.kind == "execute" else paths.is_protected
    for path in request.paths:
        if is_kept(path, _root_of(path, request), request.home):
            return f"{path} is protected: a change of it is always asked for"
    is_judged = (request.kind == "execute" and request.command is not None) or _is_tool(request)
    if request.unreadable and not is_judged:
        return f"it could not be read what this changes ({request.unreadable})"
    if request.kind in PATH_KINDS or request.command is None:
        return None
    return _names_protected(request)


def _is_meant(pattern: Pattern, request: Request) -> bool:
    """Whether the rule is about this agent and this kind of request."""
    if pattern.agent is not None and pattern.agent != request.agent:
        return False
    if pattern.kind == "mcp":
        return request.mcp is not None
    if pattern.kind == "tool":
        return bool(request.tool) or request.mcp is not None
    if pattern.kind == SAFE:
        return request.kind == "execute"
    return pattern.kind in ("*", request.kind)


def _covers(rule: Rule, request: Request) -> bool:
    """Whether an allow covers all of the request."""
    pattern = read_pattern(rule.text)
    if not _is_meant(pattern, request):
        return False
    if pattern.kind == "tool" and not _is_tool(request):
        return False
    if pattern.kind == "*" and request.unreadable and _is_tool(request):
        return False  # everything is less than a name: only a rule for such tools covers what a tool does
    if pattern.pattern is None:
        return not request.is_apart
    if pattern.kind in PATH_KINDS:
        return bool(request.paths) and all(_in_glob(pattern.pattern, path, request) for path in request.paths)
    return _names(pattern, request)


def _is_tool(request: Request) -> bool:
    """Whether the name of a tool is all that is known of a request: no file, no command, no address."""
    is_bare = not (request.paths or request.command or request.host or request.mcp)
    return bool(request.tool) and request.kind == "other" and is_bare


def _is_known(rules: Iterable[Rule], request: Request, concerns: dict[Rule, commands.Concern]) -> bool:
    """Whether the user knows what it does: an allow names the tool, or an answer of this session these very words."""
    allows = [rule for rule in rules if rule.action == "allow" and not is_ignored(rule)]
    if _is_tool(request):
        return any(read_pattern(rule.text).kind == "tool" and _covers(rule, request) for rule in allows)
    unseen = (read_pattern(rule.text).command for rule, concern in concerns.items() if concern == "maybe")
    if request.kind != "execute" or None in unseen:
        return False  # of a file that is denied, the same words may use another one the next time
    answers = [(rule, read_pattern(rule.text).command) for rule in allows if rule.scope == "session"]
    exact = [rule for rule, words in answers if words is not None and not words.is_prefix]
    return bool(exact) and _allows(exact, request)


def _allows(rules: Sequence[Rule], request: Request) -> bool:
    if request.kind == "execute":
        return LineFindings(rules, request).rule is not None
    return any(_covers(rule, request) for rule in rules)


class PartFinding(Struct, frozen=True):
    """What allow rules state about one part of a command line.

    Attributes:
        rule: the rule that covers the part, apart from the files it redirects to.
        is_harmless: whether the part needs no rule: it does nothing by itself, or is a `cd` inside the project.
        unwritable: the first file it redirects to that no rule for edit covers.
        reads_outside: whether it redirects from a file outside the project.
    """

    part: Part
    rule: Rule | None
    is_harmless: bool
    unwritable: str | None
    reads_outside: bool

    @property
    def is_covered(self) -> bool:
        return (self.rule is not None or self.is_harmless) and self.unwritable is None and not self.reads_outside


class LineFindings:
    """What allow rules state about a command line. Every part is looked at once, and only as long as it matters.

    `rule` is the rule to name if the rules together cover every part and every file it redirects to; None if not.
    """

    def __init__(self, rules: Sequence[Rule], request: Request) -> None:
        self._rules = rules
        self._request = request
        self._patterns = [(rule, read_pattern(rule.text)) for rule in rules]
        self._found: list[PartFinding] = []
        self.rule = _first(rule for rule, pattern in self._patterns if _is_everything(pattern, request))
        if self.rule is not None:
            return
        reading = request.reading
        if reading.unreadable:
            # `execute` covers a command that was not sent, but not a line that cannot be read.
            kinds = [pair for pair in self._patterns if pair[1].kind == "execute" and pair[1].pattern is None]
            if request.command is None:
                self.rule = _first(rule for rule, pattern in kinds if _is_meant(pattern, request))
        elif all(self._look(index).is_covered for index in range(len(reading.parts))):
            self.rule = _first(finding.rule for finding in self._found if finding.rule is not None)

    def _look(self, index: int) -> PartFinding:
        if index == len(self._found):
            part = self._request.reading.parts[index]
            found = _first(rule for rule, pattern in self._patterns if _covers_part(pattern, self._request, index))
            self._found.append(
                PartFinding(
                    part,
                    found,
                    found is None and (is_quiet(part) or _stays_inside(part, self._request)),
                    next((path for path in part.written if not self._may_write(path, index)), None),
                    not all(_is_inside(path, self._request) for path in part.read),
                )
            )
        return self._found[index]

    def _may_write(self, path: str, index: int) -> bool:
        # Where the path leads was looked up before the line runs: a part in front may put a link there.
        before = self._request.reading.parts[:index]
        return not any(map(may_make_links, before)) and _is_edit_allowed(self._rules, self._request, path)

    def why_not(self) -> str | None:
        """Return why no rule allows the line, if there is more to state than that."""
        reading = self._request.reading
        if reading.unreadable:
            return f"the command cannot be read: {reading.unreadable}" if reading.text else None
        for index, part in enumerate(reading.parts):
            finding = self._look(index)
            name = f"`{' '.join(part.argv)[:80]}`"
            is_move = part.argv[0] == "cd"
            if is_move and not _stays_inside(part, self._request):
                return f"{name} leaves the project"
            if _is_elsewhere(part, self._request):
                return f"it runs in {part.folders[0]}, outside the project"
            # A `cd` inside the project needs no rule either, but says nothing about the files it would redirect to.
            is_covered = finding.rule is not None or is_quiet(part)
            opening = None if is_covered else runs_anything(part.argv)
            if opening is not None:
                return f"{opening}, so only a rule with these exact words would"
            if is_covered and finding.unwritable is not None:
                return f"it writes {finding.unwritable}, which needs a rule for edit"
            if not is_covered and not is_move and len(reading.parts) > 1:
                return f"{name} is not covered"
        return None


def _is_everything(pattern: Pattern, request: Request) -> bool:
    """Whether it is `*` or `execute:*`, typed for one run by a user who means every command line."""
    is_all = pattern.kind == "*" or (pattern.command is not None and pattern.command.is_everything)
    return is_all and _is_meant(pattern, request)


def _covers_part(pattern: Pattern, request: Request, index: int) -> bool:
    """Whether an allow covers this part of a command, apart from the files it redirects to."""
    if not _is_meant(pattern, request):
        return False
    part = request.reading.parts[index]
    if pattern.kind == SAFE:
        return index in request.safe_parts
    if pattern.kind != "execute" or part.argv[0] == "cd":
        return False
    if pattern.command is None:
        return commands.is_plain(part)
    return commands.covers(pattern.command, part) and not _is_elsewhere(part, request)


def _is_edit_allowed(rules: Sequence[Rule], request: Request, path: str) -> bool:
    edit = replace(request, kind="edit", paths=request.settled(path), command=None)
    return any(_covers(rule, edit) for rule in rules)


def _concern(pattern: Pattern, request: Request, found: tuple[Identified, ...]) -> commands.Concern:
    """Return whether a deny or ask rule concerns any part of the request.

    `found` is what the parts of a command run.
    """
    if pattern.agent is not None and pattern.agent != request.agent:
        return "no"
    if request.kind == "execute" and pattern.kind in PATH_KINDS:
        return _concern_paths(pattern.kind, pattern.pattern, request, found)
    if not _is_meant(pattern, request):
        # A call that states no name may be of any tool.
        may_be = pattern.kind in PATH_KINDS or pattern.kind in ("execute", "tool")
        return "maybe" if request.unreadable and may_be else "no"
    if pattern.pattern is None:
        return "yes"
    if pattern.command is not None:
        from dragoman.policy.concern import concern

        return concern(pattern.command, request.reading, found)
    if pattern.kind in PATH_KINDS:
        if not request.paths:
            return "maybe"
        return (
            "yes" if any(_in_glob(pattern.pattern, path, request, ignore_case=True) for path in request.paths) else "no"
        )
    return "yes" if _names(pattern, request) else "no"


def _in_glob(glob: str, path: str, request: Request, *, ignore_case: bool = False) -> bool:
    forms = request.forms_of(glob, is_deny=ignore_case)
    ignore_case = ignore_case or request.ignores_case
    return any(
        paths.matches_glob(form, path, root, request.home, ignore_case=ignore_case)
        for form in forms
        for root in _roots_for(form, request)
    )


def _roots_for(glob: str, request: Request) -> tuple[str, ...]:
    """Return the folders that a glob may start in: a relative one holds in every folder of the session."""
    return request.roots[:1] if glob.startswith(("/", "~")) else request.roots


def _root_of(path: str, request: Request) -> str:
    """Return the folder of the session that a path is below; the project if it is in none."""
    if not request.added:
        return request.root
    place = paths.normalise(path, request.root, request.home)
    return next((root for root in request.added if paths.is_below(place, root)), request.root)


def _names(pattern: Pattern, request: Request) -> bool:
    """Whether the pattern of a host or a tool matches."""
    if pattern.kind == "tool":
        names = (request.tool, *(request.mcp or ())[1:])
        return any(name and fnmatchcase(name, pattern.pattern or "*") for name in names)
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


# What is known of a command line


def _is_inside(path: str, request: Request) -> bool:
    """Whether a path is below the folders of the session, wherever it leads."""
    places = [paths.normalise(name, request.root, request.home) for name in request.settled(path)]
    roots = [paths.normalise(root, "/", request.home) for root in request.roots]
    return all(any(paths.is_below(place, root) for root in roots) for place in places)


def _is_elsewhere(part: Part, request: Request) -> bool:
    """Whether a part runs outside the project: `npm test` in another folder is another program."""
    return not all(_is_inside(folder, request) for folder in part.folders)


def _stays_inside(part: Part, request: Request) -> bool:
    """Whether this is a `cd` into a folder of the project, which needs no permission."""
    if part.argv[0] != "cd" or part.written or part.read or part.command.assignments or _is_elsewhere(part, request):
        return False
    words = [word for word in part.command.words[1:] if word.text != "--"]
    targets = (paths.normalise(word.path, folder, request.home) for word in words for folder in part.folders)
    return all(_is_inside(target, request) for target in targets)


def _names_protected(request: Request) -> str | None:
    """Return why the user is always asked about this command: it changes or names a protected path."""
    reading = request.reading
    for part in reading.parts:
        for path in part.written:
            for place in request.settled(path):
                if paths.is_protected(place, _root_of(place, request), request.home):
                    return f"the command writes {place}, which is protected: always asked for"
    checked: set[str] = set()
    for word in _named(reading, request):
        if word in checked or not paths.is_worth_checking(word):
            continue
        if len(checked) == _MAX_NAMES:
            return "the command names too many files to check: always asked for"
        checked.add(word)
        for place in request.settled(word):
            if paths.is_protected_word(place, _root_of(place, request), request.home):
                return f"the command names {place}, which is protected: always asked for"
    changing = (part for part in reading.parts if not commands.is_reading(part))
    for glob in (word.text for part in changing for word in part.command.words[1:] if word.fixed is not None):
        if paths.may_be_protected(glob):
            return f"the command names {glob}, which may stand for a protected file: always asked for"
    return None


def _named(reading: Reading, request: Request) -> Iterator[str]:
    """Yield the words that may name files to change, as written and from the folder that `cd` left."""
    yield from commands.words_of(reading)
    root = paths.normalise(request.root, "/", request.home)
    for part in reading.parts:
        # Without a `cd` and without links a whole word has been checked as it is written.
        is_moved = part.folders != (root,)
        if not commands.is_reading(part):
            for word in part.command.words[1:]:
                has_more = bool(request.leads) or has_pieces(word)
                for text in pieces_of(word) if has_more else (word.path,) if is_moved else ():
                    if request.leads or paths.is_worth_checking(text):
                        yield from (located(text, folder) for folder in part.folders)


def _concern_paths(kind: str, glob: str | None, request: Request, found: tuple[Identified, ...]) -> commands.Concern:
    """Return whether a deny or ask rule about files concerns a command.

    A redirection is an edit or a read of its file. What programs do with the files they are given is not known: a
    word that may name a file of the rule may concern it, and so may a line that cannot be read.
    """
    reading = request.reading
    if reading.unreadable:
        return "maybe"
    touched = [path for part in reading.parts for path in (part.written if kind == "edit" else part.read)]
    if kind not in ("edit", "read"):
        touched = []
    if glob is None:
        return "yes" if touched else "no"
    places = (place for path in touched for place in request.settled(path))
    if any(_in_glob(glob, place, request, ignore_case=True) for place in places):
        return "yes"
    for part, files in zip(reading.parts, request.named_files, strict=True):
        if kind not in ("read", "search") and commands.is_reading(part):
            continue
        if any(_may_name(glob, file, request) for file in files):
            return "maybe"
    # A program that is not known may read or change any file.
    return "maybe" if any(identified.unknown for identified in found) else "no"


def _may_name(glob: str, file: NamedFile, request: Request) -> bool:
    """Whether a path that a command names may be, under any name that counts, one that the glob covers."""
    for path in request.settled(file.path):
        place = paths.normalise(path, request.root, request.home)
        for form in request.forms_of(glob, is_deny=True):
            for root in _roots_for(form, request):
                if paths.may_name(form, place, root, request.home, reaches=file.reaches, wildcards=file.wildcards):
                    return True
    return False


# Rules for "always"


def proposals_for(verdict: Verdict, request: Request) -> tuple[str, ...]:
    """Return the rules that "always" may write: for code of the project if that is why it is asked about."""
    is_about_code = verdict.project is not None and not verdict.is_uncovered
    return (rule_for(verdict.project, request) if is_about_code and verdict.project else ()) or proposals(request)


def proposals(request: Request) -> tuple[str, ...]:
    """Return the texts of the rules that "always" may write for this request, narrowest first.

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
    elif _is_tool(request):
        found = [] if set(request.tool) & set("*?[]") else [f"tool:{request.tool}"]
    elif request.kind == "think":
        found = ["think"]
    return tuple(text for text in found if _is_fit(text))


def _command_proposals(request: Request) -> list[str]:
    """Return rules for the one part of a line that needs one; a line with several such parts is beyond one rule."""
    reading = request.reading
    needing = [part for part in reading.parts if not (is_quiet(part) or _stays_inside(part, request))]
    needing = needing or [part for part in reading.parts if part.argv[0] != "cd"]
    if len(needing) != 1 or needing[0].has_glob or _is_elsewhere(needing[0], request):
        return []
    words = needing[0].argv
    exact = commands.quote(words)
    found = [] if exact is None else [f"execute:{exact}"]
    # "With any arguments" is offered only for subcommands whose options are known.
    length = is_listed(words)
    start = commands.quote(words[:length]) if length is not None and len(words) > length else None
    if start is not None and runs_anything(words) is None:
        found.append(f"execute:{start} *")
    return [text for text in found if _allows([Rule("allow", text, "project")], request)]


def _path_proposals(request: Request) -> list[str]:
    if not request.paths:
        return [request.kind] if request.kind in _LOOKING else []
    absolute = sorted({paths.normalise(path, request.root, request.home) for path in request.paths})
    if any(path == "/" or not paths.can_be_named(path) for path in absolute):
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
