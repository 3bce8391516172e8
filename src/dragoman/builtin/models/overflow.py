"""The answers of providers that mean: the conversation does not fit in the context window.

Owns the phrases of the servers and the counts in them. Does not decide what to do about it. Pure.

Servers share no error code for this, and most of them send a plain 400, which is also what a wrong argument gets. So
the text decides, and what only resembles an overflow is excluded first: a limit of tokens per minute names tokens and a
limit too, but a shorter conversation does not help against it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from dragoman.builtin.models.model import ContextOverflowError

# A login, an account, an unknown address, and too many requests: no shorter conversation helps against these.
_OTHER_STATUSES: Final = frozenset({401, 402, 403, 404, 429})
_EXCLUDED: Final = re.compile(
    r"rate[ _-]?limit|too[ _]many[ _]requests|throttl|tokens per (?:min|day|hour)|\(tp[md]\)|quota|billing",
    re.IGNORECASE,
)

# The phrases that name a full window without stating its size, or that state it in a place of the body of its own.
_PHRASES: Final = re.compile(
    r"context_length_exceeded|context_window_exceeded|exceed_context_size_error|max_prompt_tokens_exceeded"
    r"|prompt is too long|prompt too long|input is too long for requested model"
    r"|exceeds? the context window|exceeds the available context size|exceeded max context length"
    r"|context window exceeds limit|context length exceeded|greater than the context length"
    r"|exceed(?:s|ed)? (?:the )?(?:model'?s? )?(?:maximum |max )?context (?:length|window|limit|size)"
    r"|reduce the length of the (?:messages|prompt|input)|prompt exceeds max length|request_too_large"
    r"|request exceeds the maximum size|input token count exceeds the maximum",
    re.IGNORECASE,
)

_N: Final = r"(?P<used>\d[\d,_]*)"
_M: Final = r"(?P<window>\d[\d,_]*)"
# The phrases that state counts, the most exact ones first. `used` is the size of the input, without the wanted output.
_COUNTED: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"prompt is too long: {_N} tokens? > {_M} maximum",
        rf"exceed context limit: {_N} \+ [\d,_]+ > {_M}",
        rf"input token count \({_N}\) exceeds the maximum number of tokens allowed \({_M}\)",
        rf"exceeds the maximum number of tokens allowed \(?{_M}",
        rf"maximum context length is {_M} tokens.{{0,120}}?\((?:about )?{_N} (?:of text|in (?:the|your) (?:mess|prom))",
        rf"maximum context length is {_M} tokens.{{0,60}}?(?:requested|resulted in|contains) (?:about |at least )?{_N}",
        rf"maximum context length (?:is|of) {_M}",
        rf"prompt contains {_N} tokens.{{0,60}}?too large for model with {_M} maximum context length",
        rf"maximum prompt length is {_M}(?:.{{0,40}}?contains {_N} tokens)?",
        rf"passed {_N} input tokens.{{0,160}}?context length is only {_M} tokens",
        rf"context length (?:is|of) only {_M} tokens",
        rf"request \({_N} tokens\) exceeds the available context size \({_M} tokens\)",
        rf"prompt token count of {_N} exceeds the limit of {_M}",
        rf"exceeded model token limit: {_M}(?: \(requested: {_N}\))?",
        rf"`max_new_tokens` must be <= {_M}\. given: {_N} `inputs` tokens",
    )
)
_USED_FIELDS: Final = re.compile(r'"n_prompt_tokens"\s*:\s*(\d+)')
_WINDOW_FIELDS: Final = re.compile(r'"n_ctx"\s*:\s*(\d+)')
_HTML: Final = re.compile(r"\s*<(?:!doctype|html|head|body)", re.IGNORECASE)
_LONGEST_QUOTE: Final = 400
# A window smaller than this is not one: MiniMax writes its error code where others write the size.
_SMALLEST_WINDOW: Final = 256


def overflow_in(status: int, body: str) -> ContextOverflowError | None:
    """Return the error if an answer means that the conversation is too long, otherwise None.

    Args:
        status: the HTTP status; 0 or 200 for an error inside a stream.
        body: the answer as text, JSON or not. It may be empty.
    """
    if status in _OTHER_STATUSES or _EXCLUDED.search(body):
        return None
    sentence = _sentence_in(body)
    used, window = _counts_in(body, sentence)
    is_vague = status == 413 or (status == 400 and not body.strip())
    if used is None and window is None and not is_vague and not _PHRASES.search(body):
        return None
    counts = f" ({used:,} of {window:,} tokens)" if used is not None and window is not None else ""
    quote = f": {sentence[:_LONGEST_QUOTE]}" if sentence else f" (status {status}, without an explanation)"
    message = f"the conversation does not fit in the model's context window{counts}{quote}"
    return ContextOverflowError(message, window=window, used=used, status=status)


def _counts_in(body: str, sentence: str) -> tuple[int | None, int | None]:
    """Return the size of the input and of the window, as far as the answer states them."""
    for pattern in _COUNTED:
        found = pattern.search(sentence) or pattern.search(body)
        if found is not None:
            groups = found.groupdict()
            return _number(groups.get("used")), _number(groups.get("window"))
    if not _PHRASES.search(body):
        return None, None
    used, window = _USED_FIELDS.search(body), _WINDOW_FIELDS.search(body)
    return _number(used and used[1]), _number(window and window[1])


def _number(digits: str | None) -> int | None:
    number = int(re.sub(r"[,_]", "", digits)) if digits else 0
    return number if number >= _SMALLEST_WINDOW else None


def _sentence_in(body: str) -> str:
    """Return the provider's own message, without the JSON around it."""
    if _HTML.match(body):
        return ""
    try:
        return _message(msgspec.json.decode(body)) or body.strip()
    except msgspec.DecodeError:
        return body.strip()


def _message(value: Any) -> str:
    match value:
        case {"error": {"message": str(text)}} | {"response": {"error": {"message": str(text)}}}:
            return text.strip()
        case {"error": str(text)} | {"message": str(text)} | {"detail": str(text)} | str(text):
            return text.strip()
        case [first, *_]:
            return _message(first)
        case _:
            return ""
