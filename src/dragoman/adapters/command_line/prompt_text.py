"""A prompt as the text and the arguments of a command line. Pure but for the search for the program."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from dragoman.errors import ConfigError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROMPT: Final = "{prompt}"
_PLACEHOLDER: Final = re.compile(r"\{(prompt|cwd|session)\}")
# Programs whose first argument says what they run, so that each wrapped script has a name of its own.
_RUNNER: Final = re.compile(r"(python|pypy|node|ruby|perl|bash|sh|deno|bun|npx|uvx|uv|pipx)[\d.]*")
_SCRIPT: Final = re.compile(r"[\w@+./-]{1,200}")


def prompt_text(blocks: Iterable[v1.ContentBlock]) -> str:
    """A prompt for a program: files are named by their paths, embedded texts are included, images are not."""
    pieces: list[str] = []
    for block in blocks:
        match block:
            case v1.TextContent():
                pieces.append(block.text)
            case v1.ResourceLink():
                pieces.append(_place(block.uri))
            case v1.EmbeddedResource(resource=v1.TextResourceContents() as contents):
                pieces.append(f'\n<file path="{_place(contents.uri)}">\n{contents.text}\n</file>\n')
            case v1.EmbeddedResource():
                pieces.append(_place(block.resource.uri))
    return "".join(pieces).encode("utf-8", "replace").decode()


def filled_in(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words with their placeholders replaced, each word still one argument. A value is never looked at again."""
    return [_PLACEHOLDER.sub(lambda found: values[found[1]].replace("\0", ""), word) for word in words]


def checked(words: Sequence[str]) -> list[str]:
    """The words with the program found: one named by a path is looked for from the current folder.

    Raises: ConfigError.
    """
    if not words or not words[0]:
        raise ConfigError("the command is empty; give the program and its arguments")
    program = words[0]
    if _PLACEHOLDER.search(program):
        raise ConfigError(f"the program cannot be {program!r}; name one, and use {{prompt}} in its arguments")
    if os.sep in program:
        program = os.path.abspath(program)
    if shutil.which(program) is None:
        why = "is not executable" if os.path.isfile(program) else "was not found"
        raise ConfigError(f"the program {words[0]!r} {why}; install it, or give the path of an executable file")
    return [program, *words[1:]]


def name_of(words: Sequence[str]) -> str:
    """A name for the tool: the program's, and what it runs if it is an interpreter or a launcher."""
    program = os.path.basename(words[0])
    if _RUNNER.fullmatch(program):
        for word in words[1:]:
            if not word.startswith("-"):
                if _SCRIPT.fullmatch(word):
                    return f"{program}-{os.path.splitext(os.path.basename(word))[0] or word}"
                break
    return program


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri
