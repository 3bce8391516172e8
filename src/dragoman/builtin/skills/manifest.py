"""Skills as an MCP server lists them by the extension `io.modelcontextprotocol/skills`: entries with all their files.

Owns which entries can be used, and the comparison of a file that was read with its entry: its size and its digest. Both
come from the server, so that a match means that nothing changed since the list, and not that the text can be trusted.
Pure.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.builtin.skills.skill import DESCRIPTION_CHARACTERS, FILE, SkillError, check_name
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.builtin.mcp.listing import ResourceText

EXTENSION: Final = "io.modelcontextprotocol/skills"
# The limits of the extension.
_MOST_FILES: Final = 512
_MOST_BYTES: Final = 16 * 1024 * 1024
DYNAMIC: Final = "dynamic"


class SkillFile(Struct, frozen=True):
    """A file of a skill, with the digest and the size of its content."""

    uri: str
    digest: str
    size_bytes: int


class SkillOffer(Struct, frozen=True):
    """A skill that a server lists."""

    uri: str
    """Of its `SKILL.md`."""
    name: str
    description: str
    files: tuple[SkillFile, ...] | None = None
    """All of its files; None if they are made when they are read, so that they cannot be compared."""
    hint: str = ""
    allowed_tools: str = ""
    is_for_model: bool = True
    is_for_user: bool = True

    @property
    def folder(self) -> str:
        """The URI that those of its files begin with, with a slash at its end."""
        return self.uri.removesuffix(FILE)

    @property
    def path(self) -> str:
        """Where it is among the skills of its server, such as `billing/refunds`."""
        return self.folder.partition("://")[2].strip("/")


def read_entry(value: Any) -> SkillOffer:
    """Read one entry of the list. Raises: SkillError that says what is wrong with it."""
    facts = value.get("frontmatter") if isinstance(value, dict) else None
    uri = value.get("uri") if isinstance(value, dict) else None
    if not isinstance(facts, dict) or not isinstance(uri, str) or not uri.endswith(f"/{FILE}"):
        raise SkillError(f"an entry needs frontmatter and the URI of a {FILE}")
    name, description = facts.get("name"), facts.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not sentence(description):
        raise SkillError(f"{shorten(uri, 100)} needs a name and a description")
    check_name(name)
    if uri.removesuffix(f"/{FILE}").rpartition("/")[2] != name:
        raise SkillError(f"{shorten(uri, 100)} is not in a folder with its name, {name}")
    return SkillOffer(
        uri,
        name,
        shorten(sentence(description), DESCRIPTION_CHARACTERS),
        _files(value.get("resources"), uri, name),
        hint=sentence(str(facts.get("argument-hint") or "")),
        allowed_tools=shorten(sentence(str(facts.get("allowed-tools") or "")), DESCRIPTION_CHARACTERS),
        is_for_model=facts.get("disable-model-invocation") is not True,
        is_for_user=facts.get("user-invocable") is not False,
    )


def read_entries(values: Iterable[Any]) -> tuple[tuple[SkillOffer, ...], tuple[str, ...]]:
    """Read the list: the skills that can be used, and what is wrong with the others."""
    found: list[SkillOffer] = []
    problems: list[str] = []
    for value in values:
        try:
            found.append(read_entry(value))
        except SkillError as error:
            problems.append(str(error))
    return tuple(found), tuple(problems)


def _files(value: Any, uri: str, name: str) -> tuple[SkillFile, ...] | None:
    if value == DYNAMIC:
        return None
    found: list[SkillFile] = []
    for entry in value if isinstance(value, list) else ():
        match entry:
            case {"uri": str(place), "digest": str(digest), "size": int(size)} if not isinstance(size, bool):
                found.append(SkillFile(place, digest, size))
    if not isinstance(value, list) or len(found) != len(value) or all(file.uri != uri for file in found):
        raise SkillError(f"the skill {name} does not list its files with their digests and sizes")
    if len(found) > _MOST_FILES or sum(file.size_bytes for file in found) > _MOST_BYTES:
        raise SkillError(f"the skill {name} has more than {_MOST_FILES} files, or more than {_MOST_BYTES >> 20} MiB")
    return tuple(found)


def mismatch_in(skills: Iterable[SkillOffer], uri: str, parts: tuple[ResourceText, ...]) -> str:
    """Return why what was read is not what the skills of its server list; empty if it is, or if it belongs to none."""
    for skill in skills:
        if skill.files is None or not uri.startswith(skill.folder):
            continue
        listed = next((file for file in skill.files if file.uri == uri), None)
        if listed is None:
            return f"{uri} is not among the files that the skill {skill.name} lists"
        content = _content(parts)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if len(content) != listed.size_bytes or digest != listed.digest:
            return f"{uri} is not what the skill {skill.name} lists: it has changed since"
    return ""


def _content(parts: tuple[ResourceText, ...]) -> bytes:
    import base64
    import binascii

    found = b""
    for part in parts:
        try:
            found += base64.b64decode(part.blob) if part.text is None else part.text.encode()
        except binascii.Error:
            return b""  # it matches no digest
    return found
