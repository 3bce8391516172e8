"""What the model answers to a question.

Owns the decision, in one pure function. A question without tools is one an agent asks beside the conversation, for a
title or a summary: it gets a few words at once, whatever stands in the text it is about.
"""

from __future__ import annotations

import json
from typing import Final

from tests.interop.model_server.intents import Intent, read_intent
from tests.interop.model_server.question import Question, Reply, Speech, Thought
from tests.interop.model_server.tools import sample, uses_for

# Long enough for every test to do something meanwhile, and for the judge's half a minute.
_SLOW_PIECES: Final = 400
_SLOW_SECONDS: Final = 0.1
_EXCERPT: Final = 200
_AGENT: Final = {"identifier": "stylist", "whenToUse": "Checks style: after edits", "systemPrompt": "You check style."}


def reply_to(question: Question) -> Reply:
    """What the model says to this."""
    if question.schema is not None:
        return _speech_reply(json.dumps(sample(question.schema)))
    if not question.tools:
        wants_agent = question.prompt.startswith("Create an agent configuration")  # `opencode agent create`
        return _speech_reply(json.dumps(_AGENT) if wants_agent else "A scripted title")
    intent = read_intent(question.prompt)
    use = uses_for(intent, question.tools, len(question.results))
    if use is not None:
        return Reply((_spoken("I will use ", f"{use.tool.name}. "), use))
    if question.results:
        excerpt = " ".join(question.results[-1].split())[:_EXCERPT]
        return _speech_reply("The tool ", "said: ", excerpt)
    return _in_words(intent)


def _in_words(intent: Intent) -> Reply:
    match intent.verb:
        case "error":
            return Reply(status=intent.number)
        case "think":
            return Reply((Thought("There are two, three, five and so on. "), _spoken("There are ", "ten.")))
        case "count":
            return Reply((Speech(tuple(f"{number} " for number in range(1, intent.number + 1))),))
        case "slow":
            return Reply((Speech(tuple(f"{number} " for number in range(1, _SLOW_PIECES + 1)), _SLOW_SECONDS),))
        case "say":
            return _speech_reply(*(f"{word} " for word in intent.text.split()))
    return _speech_reply("No tool is offered ", f"to {intent.verb}.")


def _speech_reply(*pieces: str) -> Reply:
    return Reply((_spoken(*pieces),))


def _spoken(*pieces: str) -> Speech:
    return Speech(pieces)
