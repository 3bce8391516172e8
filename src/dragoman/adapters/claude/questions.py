"""What Claude asks the user: permission for a call, whether to carry out a plan, questions with answers to choose from.

Owns the options and forms, and the answers in Claude's words.

Claude suggests several permissions to remember, and they are alternatives: sending all of them back would allow more
than the user was asked about, such as every later edit. So "always" is one of them, and its label says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET

from dragoman.adapters.claude.calls import EDITING
from dragoman.adapters.forms import form_for
from dragoman.adapters.values import ALLOW, REJECT, AskOption
from dragoman.schema import v1
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.adapters.values import AskAnswer, Scope

QUESTION: Final = "AskUserQuestion"
EXIT_PLAN: Final = "ExitPlanMode"
_ALWAYS: Final = "always"
_EDIT: Final = "edit"
_LABEL_LETTERS: Final = 120
_REFUSED: Final = "The user did not permit this call."
_PLAN_MODES: Final = {"plan_edits": "acceptEdits", "plan_ask": "default"}
_PLAN_OPTIONS: Final = (
    AskOption("plan_edits", "Yes, and accept all edits", scope="session"),
    AskOption("plan_ask", "Yes, and ask for each edit"),
    AskOption("plan_no", "No, go on planning", allows=False),
)


class AskedClient(Protocol):
    """The client that questions are put to, in a turn or between turns."""

    @property
    def has_forms(self) -> bool: ...

    async def ask(self, call: str, options: Sequence[AskOption] | None = None) -> AskAnswer: ...

    async def form(self, message: str, schema: v1.ElicitationSchema) -> dict[str, Any] | None: ...


async def decide(request: dict[str, Any], asker: AskedClient) -> dict[str, Any]:
    """Ask the user what `can_use_tool` asks, and return the answer for Claude."""
    name, call_id = request.get("tool_name"), str(request.get("tool_use_id"))
    given = request.get("input")
    if name == QUESTION and isinstance(given, dict):
        answers = await _answers(given, call_id, asker)
        if answers is None:
            return {"behavior": "deny", "message": "The user did not answer the questions."}
        return {"behavior": "allow", "updatedInput": {**given, "answers": answers}}
    if name == EXIT_PLAN:
        answer = await asker.ask(call_id, _PLAN_OPTIONS)
        if not answer.allowed or answer.option is None:
            return {"behavior": "deny", "message": answer.reason or "The user wants to go on planning."}
        mode = {"type": "setMode", "mode": _PLAN_MODES[answer.option.id], "destination": "session"}
        return {"behavior": "allow", "updatedInput": given, "updatedPermissions": [mode]}
    suggestion = suggested(request.get("permission_suggestions"))
    answer = await asker.ask(call_id, permission_options(str(name), suggestion))
    return permission_reply(given, suggestion, answer)


async def elicit(request: dict[str, Any], asker: AskedClient) -> dict[str, Any]:
    """Show the form that an MCP server of Claude asks for."""
    if request.get("mode") == "url" or not asker.has_forms:
        return {"action": "decline"}
    form, read = form_for(request.get("requested_schema"))
    filled = await asker.form(str(request.get("message") or "An MCP server asks"), form)
    return {"action": "decline"} if filled is None else {"action": "accept", "content": read(filled)}


def suggested(suggestions: Any) -> dict[str, Any] | None:
    """Return the one suggestion that "always" means: the rule, otherwise the mode, otherwise the folder."""
    listed = (
        [suggestion for suggestion in suggestions if isinstance(suggestion, dict)]
        if isinstance(suggestions, list)
        else []
    )
    for kind in ("addRules", "setMode", "addDirectories"):
        for entry in listed:
            if entry.get("type") == kind and entry.get("behavior", "allow") == "allow":
                return entry
    return None


def permission_options(name: str, suggestion: dict[str, Any] | None) -> list[AskOption]:
    """Return what the user can choose from."""
    options = [ALLOW]
    if suggestion is not None:
        scope: Scope = "session" if suggestion.get("destination") == "session" else "always"
        options.append(AskOption(_ALWAYS, _label(suggestion), scope=scope))
    if name not in EDITING:
        options.append(AskOption(_EDIT, "Change the input first", edits=True))
    return [*options, REJECT]


def permission_reply(arguments: Any, suggestion: dict[str, Any] | None, answer: AskAnswer) -> dict[str, Any]:
    """Return the user's answer in Claude's words. The input is always sent, because Claude requires it."""
    if not answer.allowed:
        return {"behavior": "deny", "message": answer.reason or _REFUSED}
    reply: dict[str, Any] = {"behavior": "allow", "updatedInput": arguments if answer.input is UNSET else answer.input}
    if answer.option is not None and answer.option.id == _ALWAYS and suggestion is not None:
        reply["updatedPermissions"] = [suggestion]
    return reply


def _label(suggestion: dict[str, Any]) -> str:
    match suggestion:
        case {"type": "addRules", "rules": [*rules]} if rules:
            words = [_rule(rule) for rule in rules if isinstance(rule, dict)]
            return _short(f"Always allow {', '.join(words)}")
        case {"type": "setMode", "mode": "acceptEdits"}:
            return "Accept all edits in this session"
        case {"type": "setMode", "mode": str(mode)}:
            return _short(f"Switch to the mode {mode}")
        case {"type": "addDirectories", "directories": [*folders]}:
            return _short(f"Allow work in {', '.join(str(folder) for folder in folders)} in this session")
    return "Always allow this"


def _rule(rule: dict[str, Any]) -> str:
    content = rule.get("ruleContent")
    return f"{rule.get('toolName')}({content})" if content else str(rule.get("toolName"))


def _short(label: str) -> str:
    line = sentence(label)
    return line if len(line) <= _LABEL_LETTERS else f"{line[: _LABEL_LETTERS - 2]} …"


# Questions


async def _answers(arguments: dict[str, Any], call_id: str, asker: AskedClient) -> dict[str, str] | None:
    """Return the answers by question; None if the user did not answer."""
    questions = [
        question for question in arguments.get("questions") or () if isinstance(question, dict) and _labels(question)
    ]
    if not questions:
        return None
    if not asker.has_forms:
        return await _chosen(questions, call_id, asker)
    filled = await asker.form(_message(questions), _form(questions))
    return None if filled is None else _read(questions, filled)


def _message(questions: Sequence[dict[str, Any]]) -> str:
    return str(questions[0].get("question")) if len(questions) == 1 else "Claude has some questions"


def _form(questions: Sequence[dict[str, Any]]) -> v1.ElicitationSchema:
    """Make one field for each question, and one for an answer in other words."""
    fields: dict[str, Any] = {}
    for at, question in enumerate(questions, 1):
        listed = [
            v1.EnumOption(label, label, description=str(option["description"]) if option.get("description") else UNSET)
            for label, option in _labels(question).items()
        ]
        shown: dict[str, Any] = {
            "title": str(question.get("header") or "Answer"),
            "description": str(question.get("question")),
        }
        if question.get("multiSelect") is True:
            fields[f"answer_{at}"] = v1.MultiSelectPropertySchema(v1.TitledMultiSelectItems(listed), **shown)
        else:
            fields[f"answer_{at}"] = v1.StringPropertySchema(one_of=listed, **shown)
        fields[f"other_{at}"] = v1.StringPropertySchema(title=f"{shown['title']}: another answer")
    return v1.ElicitationSchema(properties=fields)


def _read(questions: Sequence[dict[str, Any]], filled: dict[str, Any]) -> dict[str, str] | None:
    answers: dict[str, str] = {}
    for at, question in enumerate(questions, 1):
        chosen, other = filled.get(f"answer_{at}"), filled.get(f"other_{at}")
        words = [str(one) for one in chosen] if isinstance(chosen, list) else [str(chosen)] if chosen else []
        if isinstance(other, str) and other.strip():
            words = [*words, other.strip()] if question.get("multiSelect") is True else [other.strip()]
        if words:
            answers[str(question.get("question"))] = ", ".join(words)
    return answers or None


async def _chosen(questions: Sequence[dict[str, Any]], call_id: str, asker: AskedClient) -> dict[str, str] | None:
    """Ask each question as a permission with the answers as options, for clients without forms."""
    answers: dict[str, str] = {}
    for question in questions:
        options = [AskOption(f"answer_{at}", _short(label)) for at, label in enumerate(_labels(question), 1)]
        title = str(question.get("question"))
        label = f"Do not answer: {title}" if len(questions) > 1 else "Do not answer"
        answer = await asker.ask(call_id, [*options, AskOption("skip", _short(label), allows=False)])
        if answer.allowed and answer.option is not None:
            answers[title] = list(_labels(question))[options.index(answer.option)]
    return answers or None


def _labels(question: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of a question by their labels."""
    listed = question.get("options")
    return {
        str(option["label"]): option
        for option in (listed if isinstance(listed, list) else ())
        if isinstance(option, dict) and option.get("label")
    }
