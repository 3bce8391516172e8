"""One import: reads the files of the programs and collects proposals. Read this first, then one of the programs.

Each program has a module that knows its files; what these have in common is here: instructions, commands, skills and
agents are files that are written again in our form, in a folder of ours, under a name that is free.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.foreign.files import LARGEST_TEXT, ForeignFiles
from dragoman.foreign.naming import choose_name, plain_name
from dragoman.foreign.precedence import resolve
from dragoman.foreign.proposal import (
    Appended,
    FoundProposals,
    NewFile,
    NewMember,
    NewRule,
    Proposal,
    Source,
    impossible,
)
from dragoman.foreign.rules import RuleProposals
from dragoman.foreign.texts import front_matter, imported_paths
from dragoman.policy import parse_rule
from dragoman.policy.paths import is_below
from dragoman.settings.documents import read_document
from dragoman.settings.file import read_settings_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dragoman.builtin.context.front_matter import FrontMatter
    from dragoman.foreign.places import Places
    from dragoman.foreign.precedence import OrderedRule
    from dragoman.foreign.proposal import Kind, Program, State
    from dragoman.policy import Rule

NATIVE_INSTRUCTIONS: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONTEXT.md")
_MOST_RULES: Final = 200
_MOST_SKILL_FILES: Final = 100
_MOST_SKILL_BYTES: Final = 4 << 20


def _read_program(program: Program, collected: Import) -> None:
    match program:
        case "claude":
            from dragoman.foreign.programs.claude import read
        case "codex":
            from dragoman.foreign.programs.codex import read
        case "opencode":
            from dragoman.foreign.programs.opencode import read
        case "gemini":
            from dragoman.foreign.programs.gemini import read
    read(collected)


def find_proposals(places: Places, programs: Sequence[Program], kinds: Iterable[Kind]) -> FoundProposals:
    """Read the files of these programs. Raises: ConfigError if our own settings cannot be read."""
    found = Import(places)
    for program in programs:
        found.program = program
        _read_program(program, found)
    wanted = frozenset(kinds)
    proposals = tuple(proposal for proposal in _one_model(found.proposals) if proposal.kind in wanted)
    return FoundProposals(proposals, tuple(found.files.problems))


def _one_model(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Let the user choose one if the programs use several models."""
    models = [proposal for proposal in proposals if proposal.kind == "model"]
    ready = {change.value for model in models for change in model.changes if isinstance(change, NewMember)}
    if len(ready) < 2:
        return list(proposals)
    question = "The programs use several models. Use this one in new sessions?"
    return [
        replace(proposal, state="question", question=question)
        if proposal.kind == "model" and proposal.state == "ready"
        else proposal
        for proposal in proposals
    ]


class Import:
    """What was found so far, and what exists already."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.files = ForeignFiles()
        self.proposals: list[Proposal] = []
        self.program: Program = "claude"
        self._planned: dict[Path, bytes] = {}
        self._texts: dict[str, Path] = {}
        self._members: dict[tuple[str, ...], Any] = {}

    def source(self, path: Path, line: int = 0) -> Source:
        return Source(self.program, self.places.scope, path, line)

    @property
    def folder(self) -> Path:
        """The folder of the program that is read."""
        return self.places.folder(self.program)

    @property
    def root(self) -> Path:
        """The folder out of which no link may lead."""
        return self.folder if self.places.scope == "user" else self.places.project

    def add(self, proposal: Proposal) -> None:
        """Add a proposal; its names count as taken for those after it."""
        self.proposals.append(proposal)
        for change in proposal.changes:
            match change:
                case NewFile(path, content):
                    self._planned[path] = content
                case NewMember(_, keys, value):
                    self._members[keys] = value
                case NewRule(action, text) if action != "allow":
                    self.rules.append(parse_rule(text, action, "pinned"))

    def impossible(self, kind: Kind, name: str, source: Source, why: str, *notes: str) -> None:
        self.add(impossible(kind, name, source, why, *notes))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The members of the settings that are written to. Raises: ConfigError."""
        read_settings_file(self.places.settings, self.places.scope)  # nothing is added to a file that is wrong
        document = read_document(self.places.settings, has_comments=self.places.scope == "user", may_repeat=False)
        return {} if document is None else document.value

    @property
    def servers(self) -> dict[str, Any]:
        """The MCP servers that exist, and those that are proposed."""
        planned = {keys[1]: value for keys, value in self._members.items() if keys[0] == "mcp_servers"}
        return {**self.settings.get("mcp_servers", {}), **planned}

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules that count for what is imported, and those that are proposed. Raises: ConfigError."""
        from dragoman.settings.rule_file import FILE_NAME, RuleFile

        project = None if self.places.scope == "user" else self.places.project
        kept = RuleFile(self.places.config_dir / FILE_NAME).rules(project)
        written = self.settings.get("rules", {})
        scope = "pinned" if self.places.scope == "user" else "repository"
        kept += [
            parse_rule(text, action, scope)  # type: ignore[arg-type]  # one of the two
            for action in ("deny", "ask", "allow")
            for text in written.get(action, ())
        ]
        return kept

    def ordered_rules(
        self, rules: Sequence[OrderedRule], path: Path, express: Callable[[OrderedRule], tuple[str, ...]]
    ) -> None:
        """Propose rules of which the last that matches wins.

        Args:
            express: the rules of ours that state one of theirs; raises Inexpressible.
        """
        if len(rules) > _MOST_RULES:
            return self.impossible("rules", "rules", self.source(path), f"there are more than {_MOST_RULES} rules")
        make = RuleProposals(self.places, self.rules)
        for rule, texts, why, is_void in resolve(rules, express):
            source, name = self.source(path, rule.line), f"{rule.action} {rule.name}"
            if texts:
                self.add(make.propose(rule.action, rule.name, texts, source))
            elif is_void:
                self.add(Proposal("rules", name, source, "void", why))
            else:
                self.impossible("rules", name, source, why)
        return None

    def plugin(self, name: str, source: Source) -> None:
        """List a plugin or an extension. It is a program of its own, or a bundle of what the other kinds are."""
        self.impossible("plugins", name, source, "plugins are not imported; add what you use of it by yourself")

    # Instructions

    def instructions(self, path: Path, root: Path) -> None:
        """Propose to add a file of instructions to ours."""
        text = self.files.text(path, root, 1 << 20)
        if text is None or not text.strip():
            return None
        matter = read_front_matter(text)
        source, name = self.source(path), self.places.short(path)
        if matter.names("paths") or matter.names("globs"):
            why = "it counts for some files only, which cannot be expressed"
            return self.impossible("instructions", name, source, why)
        if matter.body in self._texts:
            same = self.places.short(self._texts[matter.body])
            return self.add(Proposal("instructions", name, source, "present", f"the same text as {same}"))
        self._texts[matter.body] = path
        target = self.places.instructions
        heading = f"<!-- imported from {name} -->"
        existing = _own_text(target)
        notes = [f"@{path} is not followed; copy what matters" for path in dict.fromkeys(imported_paths(matter.body))]
        becomes = f"added to {self.places.short(target)}"
        if heading in existing or matter.body in existing:
            return self.add(Proposal("instructions", name, source, "present", becomes, tuple(notes)))
        change = Appended(target, f"{heading}\n\n{matter.body}\n")
        return self.add(Proposal("instructions", name, source, "ready", becomes, tuple(notes), (change,)))

    def native_instructions(self, names: Sequence[str]) -> None:
        """List the instructions of the project that are read where they are."""
        here = self.places.project
        for name in names:
            if os.path.lexists(here / name) and name in NATIVE_INSTRUCTIONS:
                self.native("instructions", name, here / name)

    def native(self, kind: Kind, name: str, path: Path) -> None:
        self.add(Proposal(kind, name, self.source(path), "native", "read where it is"))

    # Files that are written again

    def file(self, kind: Kind, name: str, source: Source, write: Callable[[str], str], notes: Sequence[str]) -> None:
        """Propose a Markdown file in the folder of its kind.

        Args:
            write: gives the text of the file for the name that it gets.
        """
        name = plain_name(name)
        if not name or not name[0].isalnum():
            return self.impossible(kind, name or "?", source, "its name has no letter or digit at its beginning")
        folder = self.places.target / kind
        own = _own_names(kind)

        def holder(wanted: str) -> str:
            path = folder / f"{wanted}.md"
            if wanted in own:
                return "built in"
            content = self._planned.get(path) or (path.read_bytes() if path.is_file() else None)
            if content is None:
                return f"in {self.places.short(path)}" if os.path.lexists(path) else ""
            return "same" if content == write(wanted).encode() else f"in {self.places.short(path)}"

        chosen = choose_name(name, self.program, holder)
        path = folder / f"{chosen.name}.md"
        content = write(chosen.name).encode("utf-8", "replace")
        if len(content) > LARGEST_TEXT:
            return self.impossible(kind, name, source, f"it is longer than {LARGEST_TEXT} bytes")
        if chosen.state == "taken":
            return self.add(Proposal(kind, name, source, "taken", chosen.note, tuple(notes)))
        changes = (NewFile(path, content),) if chosen.state == "ready" else ()
        lost = (*notes, *([chosen.note] if chosen.note else []))
        return self.add(Proposal(kind, name, source, chosen.state, self.places.short(path), lost, changes))

    def commands(self, folder: Path, root: Path, convert: Callable[[str], tuple[str, list[str]]]) -> None:
        """Propose the Markdown commands of a folder, those in folders of it under both names."""
        for path in self.files.named(folder, ".md"):
            text = self.files.text(path, root)
            if text is None:
                continue
            matter = read_front_matter(text)
            source, name = self.source(path), plain_name(*path.relative_to(folder).with_suffix("").parts)
            if not matter.body:
                self.impossible("commands", name, source, "it has no text")
                continue
            body, notes = convert(matter.body)
            self.command(name, source, matter.text("description"), matter.text("argument-hint"), body, notes, matter)

    def command(
        self,
        name: str,
        source: Source,
        description: str,
        hint: str,
        body: str,
        notes: Sequence[str],
        matter: FrontMatter | None = None,
    ) -> None:
        lost = list(notes)
        for key in matter.members if matter is not None else ():
            if key in ("allowed-tools", "permission"):
                lost.append(f"{key} is not carried over: no template permits anything")
            elif key not in ("description", "argument-hint"):
                lost.append(f"{key} is not carried over")
        members = {"description": description, "argument-hint": hint}
        self.file("commands", name, source, lambda _: front_matter(members, body), lost)

    def skills(self, folder: Path, root: Path, off: Collection[str] = ()) -> None:
        """Propose to copy the skills of a folder, with their files; `off` are names that are switched off."""
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
        except OSError:
            return
        found = [folder / name for name in names[:300] if os.path.lexists(folder / name / "SKILL.md")]
        # In folders of folders, too; a skill may hold files of that name, which are not skills.
        for path in self.files.named(folder, "SKILL.md"):
            if path.name == "SKILL.md" and not any(path.is_relative_to(skill) for skill in found):
                found.append(path.parent)
        for skill in found:
            if skill != folder:
                self._skill(skill, root, off)

    def _skill(self, folder: Path, root: Path, off: Collection[str]) -> None:
        source, name = self.source(folder / "SKILL.md"), folder.name
        text = self.files.text(folder / "SKILL.md", root, 128 * 1024)
        if text is None:
            return None
        matter = read_front_matter(text)
        if name in off or matter.text("name") in off:
            return self.impossible("skills", name, source, "it is switched off there")
        if not matter.text("description"):
            return self.impossible("skills", name, source, "its SKILL.md has no description")
        target = self.places.target / "skills" / name
        if os.path.lexists(target):
            same = target.is_dir() and _own_text(target / "SKILL.md") == text
            state: State = "present" if same else "taken"
            becomes = self.places.short(target) if same else f"{name} is taken: {self.places.short(target)} exists"
            return self.add(Proposal("skills", name, source, state, becomes))
        files, notes = self._skill_files(folder, root, target)
        if "allowed-tools" in matter.members:
            notes.append("allowed-tools permits nothing here")
        changes = (NewFile(target / "SKILL.md", text.encode()), *files)
        becomes = f"{self.places.short(target)} ({len(changes)} files)"
        return self.add(Proposal("skills", name, source, "ready", becomes, tuple(notes), changes))

    def _skill_files(self, folder: Path, root: Path, target: Path) -> tuple[list[NewFile], list[str]]:
        files: list[NewFile] = []
        notes: list[str] = []
        total = 0
        real_root = os.path.realpath(root)
        for path in self.files.named(folder, ""):
            inner = path.relative_to(folder)
            if str(inner) == "SKILL.md":
                continue
            real = os.path.realpath(path)
            if not is_below(real, real_root) or not os.path.isfile(real):
                notes.append(f"{inner} is not copied: it is a link that leads out, or not a file")
                continue
            total += os.path.getsize(real)
            if total > _MOST_SKILL_BYTES or len(files) == _MOST_SKILL_FILES:
                notes.append(
                    f"{inner} and what follows is not copied: a skill may have {_MOST_SKILL_FILES} files, 4 MiB"
                )
                break
            files.append(NewFile(target / inner, Path(real).read_bytes()))
        return files, notes

    def model(self, model: str, why: str, name: str, source: Source) -> None:
        """Propose the model of new sessions; of the user's own files only."""
        if self.places.scope == "project":
            return None
        if not model:
            return self.impossible("model", name, source, why) if why else None
        have = self.settings.get("model")
        if have:
            state: State = "present" if have == model else "taken"
            becomes = f"model is {have} in {self.places.short(self.places.settings)}"
            return self.add(Proposal("model", name, source, state, becomes))
        becomes = f'"model": "{model}" in {self.places.short(self.places.settings)}'
        change = NewMember(self.places.settings, ("model",), model)
        return self.add(Proposal("model", name, source, "ready", becomes, (), (change,)))


def _own_names(kind: Kind) -> frozenset[str]:
    """Return names that files of this kind cannot have."""
    if kind != "commands":
        return frozenset()
    from dragoman.builtin.context.own_commands import OWN

    return frozenset(command.name for command in OWN)


def _own_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
