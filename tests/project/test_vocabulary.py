"""One word per idea: words that were replaced stay out, and no two public classes share a name.

`docs/glossary.md` defines the words that are ours. A word that a foreign format fixes is listed here with the reason.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.project.sources import PACKAGE, ROOT, is_generated, own_sources, project_files, text_of, tree_of

# What to write instead, and how the replaced words are found. A pattern is matched against the words of one line in
# lower case, with identifiers taken apart: `ToolAccess.write_text` is "tool access write text".
REPLACED = {
    "permission, permit, allow; what was decided is a decision": r"approv(e|es|ed|al|als|ing)|consents?|consented"
    r"|grant(s|ed|ing)?|(gives?|gave|given|giving|asks?|asked|needs?|has|had|gets?|got|no|without|wants?) leave",
    "open session, viewer, tool access": r"desks?|seats?|seated|hands|handed out|furniture",
    "fixture, test session, fake tool, our own agent and client": r"stages?|props?|house|houses",
    "permission check": r"watchdogs?",
    "boundary": r"seams?",
    "background task": r"errands?",
    "built-in agent": r"harness(es)?",
    "a concrete subject: the client, no client, all viewers": r"(who|whom)ever|nobody|(some|any|every)body",
    "send, receive, report, pass, state, write": r"(tell|tells|told|telling)(?!( \w+){0,4} apart)|hear(s|d|ing)?"
    r"|(?<!you )said",
    "is not an X": r"(?<!there )(is|are|was|were) no (?!longer\b|more\b|less\b|other than\b)\w+",
    "does not decide; does not depend on": r"(has|have) no say|knows? nothing of|knows? no \w+",
    "inverse of": r"the way back",
    "the result": r"(what|whatever) (came|comes|has come|had come) of",
    "more leniently": r"mercy",
    "concern": r"business",
    "next to": r"beside",
    "again": r"anew",
    "forever": r"for ever",
    "therefore": r"hence",
    "user interface": r"faces?",
    "user": r"persons?",
}
PATTERNS = {instead: re.compile(rf"\b(?:{pattern})\b") for instead, pattern in REPLACED.items()}
# Most files have none of the words; one search finds that out.
ANY_PATTERN = re.compile(rf"\b(?:{'|'.join(REPLACED.values())})\b")

# Names that another format or program fixed, so they are not ours to change.
FOREIGN: dict[str, str] = {
    "--ask-for-approval": "Codex: an option",
    "/approvals": "Codex: a slash command",
    "--approval-mode": "Gemini CLI: an option",
    "defaultApprovalMode": "Gemini CLI: a setting",
    "approvalMode": "Gemini CLI: a setting",
    "tool-approval-request": "AI SDK: a chunk's type",
    "tool-approval-response": "AI SDK: a chunk's type",
    "addToolApprovalResponse": "AI SDK: a function of its chat client",
    "lastAssistantMessageIsCompleteWithApprovalResponses": "AI SDK: a function for its chat client",
    "approval-requested": "AI SDK: a state of a tool part",
    "approval-responded": "AI SDK: a state of a tool part",
    "approval_id": "AI SDK: `approvalId` in Python",
    "ToolApprovalRequest": "AI SDK: the chunk `tool-approval-request`",
    "ToolApprovalResponse": "AI SDK: the chunk `tool-approval-response`",
    "approval_descriptor": "AI SDK: `approvalDescriptor` in Python",
    "approved": "AI SDK: a member of the chunk `tool-approval-response` and of a tool part",
    '"approval"': "AI SDK: a member of a tool part",
    "requires_approval": "pydantic-ai: an argument of a tool",
    "needs_approval": "openai-agents: an argument of a tool",
    '"approvals"': "pydantic-ai: a member of its deferred tool requests and results",
    "requests.approvals": "pydantic-ai: the same member of an object",
    "approvals=answers": "pydantic-ai: the same member as an argument",
    "ToolApproved": "pydantic-ai: the answer to a deferred tool request",
    "tool-approved": "pydantic-ai: the kind of that answer",
    '"approve"': "LangChain: a decision about a tool call",
    "state.approve": "openai-agents: a method of a run's state",
    "always_approve": "openai-agents: an argument of that method",
    "always-approve": "OpenHands: a mode",
    "llm-approve": "OpenHands: a mode",
    "auto-approve": "Vibe: a mode",
    "auto_approve": "Cline: an option",
    "smart_approve": "goose: a mode",
    "`approve`": "goose: a mode",
    "forwardedProps": "AG-UI: a member of a run's input",
    "approval policy": "Codex: the name of a setting",
    "Approval policy": "Codex: the same at the beginning of a sentence",
    "approval_policy": "Codex: the same in its configuration",
    "approvalPolicy": "Codex: the same in its messages",
    "requestApproval": "Codex: the end of the names of its questions",
    "networkApprovalContext": "Codex: a member of a question",
    "codex_approval_kind": "Codex: a member of a question",
    "Requesting approval to": "Kimi: the beginning of its permission requests",
    "tell(self)": "Python: a method of file objects",
    '"person"': "exec: a value of its JSON output, which is a contract",
    "nobody_to_ask": "exec: a value of `error.kind` in its JSON output, which is a contract",
    "--approve-reads": "acpx: an option of its command line",
    "Hugging Face": "the name of a company",
    "/props": "llama.cpp: an address of its server",
    "`person`": "exec: the same value in the documentation",
    '"nobody"': "exec: a value of `decided_by` in its JSON output, which is a contract",
    "`nobody`": "exec: the same value in the documentation",
    '"grant"': "exec: a value of `decided_by` in its JSON output, which is a contract",
    "`grant`": "exec: the same value in the documentation",
    "grant_type": "OAuth: a parameter of its requests",
    "oauth:grant-type": "OAuth: in the name of the device flow",
}

# Folders and files that hold text of others, or repeat it word for word.
QUOTES = {
    "docs/spec": "the protocol's rules, in its own words",
    "src/dragoman/builtin/models/catalogue.json": "generated: the names of models are those of their makers",
    "src/dragoman/policy/known.json": "the words of programs are those of their makers",
    "src/dragoman/registry/known_agents.json": "the names of agents and packages are those of their makers",
    "src/dragoman/schema/v1": "generated from the protocol's schema",
}

# Public classes that share a name and are meant to.
SAME_NAME: dict[str, str] = {
    "Command": "policy: what an agent wants to run; builtin: what a user runs with a slash. Both are called so",
    "Request": "wire: a request of JSON-RPC; policy: what an agent wants to do. Each is the word of its field",
}

_FOREIGN = re.compile("|".join(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])" for name in FOREIGN))


# The end of a line stands between its words and those of the next, so that no pattern matches over it.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\n")
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
_DEFINED = re.compile(r"\s*(?:async )?(?:def|class) +(\w+)")


def words_of(text: str) -> str:
    """The words of a text in lower case, identifiers taken apart at underscores and capitals."""
    return " ".join(_WORD.findall(text)).lower()


def find_replaced(text: str) -> list[str]:
    """`word -> what to write instead` for every replaced word of a line."""
    words = words_of(_FOREIGN.sub(" ", text))
    return [f"{match[0]!r} -> {instead}" for instead, pattern in PATTERNS.items() for match in pattern.finditer(words)]


@cache
def written_texts() -> dict[str, tuple[str, ...]]:
    """File -> the lines of it that must keep to the vocabulary, after its name: of tests, the names they define."""
    texts = {}
    for path in project_files():
        name = str(path.relative_to(ROOT))
        if any(name == place or name.startswith(f"{place}/") for place in QUOTES):
            continue
        if name.startswith(("src/", "docs/", "examples/", "benchmarks/", "tools/")) or name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ):
            if path.suffix in (".py", ".md", ".toml", ".json"):
                texts[name] = (name, *text_of(path).splitlines())
        elif name.startswith("tests/") and path.suffix == ".py":
            texts[name] = (name, *_defined_names(path))
    return texts


def _defined_names(path: Path) -> list[str]:
    """For each line of a file the name that is defined there, or nothing.

    Lines of programs in strings look like definitions too; only for a file where that matters the syntax is read.
    """
    found = (_DEFINED.match(line) for line in text_of(path).splitlines())
    names = [each[1] if each else "" for each in found]
    if ANY_PATTERN.search(words_of("\n".join(names))):
        lines = {
            node.lineno: node.name
            for node in ast.walk(tree_of(path))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        names = [lines.get(number, "") for number in range(1, len(names) + 1)]
    return names


def test_replaced_words_stay_out() -> None:
    found = [
        f"{name}:{number}: {fault}"
        for name, lines in written_texts().items()
        if ANY_PATTERN.search(words_of("\n".join(lines)))
        for number, line in enumerate(lines)
        for fault in find_replaced(line)
    ]
    assert not found, "\n".join([f"{len(found)} replaced words:", *found])


@pytest.mark.parametrize(
    "sentence",
    [
        "class ServiceDesk:",
        "def test_a_seat_comes_late() -> None:",
        "How tools touch the world: LocalHands",
        "the watchdog is asked",
        "nobody listens any more",
        "Whoever answers first",
        "the client is told of it",
        "hears the id",
        "An error is no answer",
        "this agent has no say in it",
        "it knows nothing of roots",
        "The way back.",
        "what came of it",
        "none of its business",
        "a file beside it",
        "made anew",
        "waits for ever",
        "the approvals of a turn",
        "ToolApprovalRequests",
        "TurnGrants",
        "the user's consent",
        "a rule gives leave for it",
        "read by a person",
        "the harness answers",
    ],
)
def test_a_replaced_word_is_found(sentence: str) -> None:
    assert find_replaced(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "a message leaves the queue; leave it there",
        "there is no such file, and there are no others",
        "it is no longer needed",
        "a chunk of type tool-approval-request has an approval_id",
        'asked_by: "person"',
        "two variants told apart by a member",
        "an interface, a surface and a property",
        "nothing is granular; a handshake",
        "besides stdio",
    ],
)
def test_other_words_are_not_found(sentence: str) -> None:
    assert find_replaced(sentence) == []


@cache
def public_classes() -> dict[str, list[str]]:
    """Name of a class without underscore -> the modules that define one, generated code left out."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in own_sources():
        for name in _CLASS.findall(text_of(path)):
            if not is_generated(path):
                found[name].append(str(path.relative_to(PACKAGE)))
    # A line of a text may look like a class; only for a name that two files have the syntax is read.
    for name, places in found.items():
        found[name] = [place for place in places if len(places) == 1 or _defines(PACKAGE / place, name)]
    return found


def _defines(path: Path, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in tree_of(path).body)


def test_no_two_public_classes_have_one_name() -> None:
    shared = {name: places for name, places in public_classes().items() if len(places) > 1 and name not in SAME_NAME}
    assert not shared, "\n".join(f"{name}: {', '.join(places)}" for name, places in shared.items())


def test_every_module_of_the_glossary_exists() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page))
    assert len(named) > 20
    assert {name for name in named if not (PACKAGE / name).is_file()} == set()


def test_every_exception_is_needed() -> None:
    """A name that does not occur any more needs no exception."""
    texts = "\n".join(line for lines in written_texts().values() for line in lines)
    assert [name for name in FOREIGN if name not in texts] == []
    assert [name for name in SAME_NAME if len(public_classes()[name]) < 2] == []
    assert [folder for folder in QUOTES if not (ROOT / folder).exists()] == []


def test_every_replaced_word_has_a_pattern_that_can_match() -> None:
    samples = Path(__file__).read_text()
    assert {instead for instead, pattern in PATTERNS.items() if not pattern.search(words_of(samples))} == set()
