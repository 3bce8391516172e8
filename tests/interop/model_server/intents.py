"""What the user wants: keywords of the tests and sentences of the judge, each read as one intent.

Owns the vocabulary. A keyword stands at the beginning of a line; the last one in a prompt counts, because agents put
what they add in front:

    READ path   WRITE path words...   EDIT path old new   RUN command...   STEPS command... ;; command...
    PLAN   THINK   COUNT number   SLOW   ERROR [status]

The sentences are those `dragoman check agent` uses for agents with a real model. Anything else is answered in words.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Intent(NamedTuple):
    """What is wanted. Which members are set depends on the verb."""

    verb: str
    path: str = ""
    text: str = ""
    """What to write, to put in the place of `old`, or to say."""
    old: str = ""
    command: str = ""
    number: int = 0
    tool: str = ""
    """The tool that was asked for by name."""


_KEYWORDS: Final = (
    r"READ (?P<read>\S+)",
    r"WRITE (?P<write>\S+) (?P<content>.+)",
    r"EDIT (?P<edit>\S+) (?P<old>\S+) (?P<new>\S+)",
    r"RUN (?P<run>.+)",
    r"STEPS (?P<steps>.+)",
    r"(?P<plain>PLAN|THINK|SLOW)",
    r"COUNT (?P<count>\d+)",
    r"ERROR ?(?P<error>\d*)",
)
_KEYWORD: Final = re.compile(rf"^\s*(?:{'|'.join(_KEYWORDS)})\s*$", re.MULTILINE)

_SENTENCES: Final = {
    "read": r"Read the file (?P<path>\S+) with (?P<tool>.+?) and show me",
    "write": r"Create the file (?P<path>\S+) with the content: (?P<text>\w+)\. Use (?P<tool>[^,]+),",
    "edit": r"In the file (?P<path>\S+) replace the word (?P<old>\w+) by the word (?P<text>\w+)\. Use (?P<tool>[^,]+),",
    "run": r"Run this exact shell command with (?P<tool>.+?)(?:, in the foreground| and show me its output): "
    r"(?P<command>[^\n<]+)",
    "plan": r"Make a plan of three steps .*?, with (?P<tool>[^.]+)\.",
    "think": r"Think step by step",
    "slow": r"Count slowly from 1 to \d+",
    "count": r"Count from 1 to (?P<number>\d+)",
    "list": r"List the files of the current directory with a tool",
    "say": r"Reply with exactly one word: (?P<text>\w+)",
}


def read_intent(prompt: str) -> Intent:
    """What a prompt asks for; the verb is `say` if it is nothing special."""
    keywords = list(_KEYWORD.finditer(prompt))
    if keywords:
        return _of_keyword(keywords[-1])
    for verb, sentence in _SENTENCES.items():
        found = None
        for found in re.finditer(sentence, prompt):  # noqa: B007  # the last one counts
            pass
        if found is not None:
            given = found.groupdict()
            number = int(given.pop("number", 0))
            return Intent(verb, number=number, **{name: text.strip() for name, text in given.items()})
    return Intent("say", text="Hello from the scripted model.")


def is_wanted(prompt: str) -> bool:
    """Whether the text asks for anything in this vocabulary."""
    return bool(_KEYWORD.search(prompt)) or any(re.search(sentence, prompt) for sentence in _SENTENCES.values())


def _of_keyword(found: re.Match[str]) -> Intent:
    given = found.groupdict()
    if given["read"]:
        return Intent("read", path=given["read"])
    if given["write"]:
        return Intent("write", path=given["write"], text=given["content"].rstrip() + "\n")
    if given["edit"]:
        return Intent("edit", path=given["edit"], old=given["old"], text=given["new"])
    if given["run"]:
        return Intent("run", command=given["run"].strip())
    if given["steps"]:
        return Intent("steps", command=given["steps"].strip())
    if given["plain"]:
        return Intent(given["plain"].lower())
    if given["count"]:
        return Intent("count", number=int(given["count"]))
    return Intent("error", number=int(given["error"] or 400))
