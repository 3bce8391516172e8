"""The shapes in which providers report that a conversation is too long, and those that only resemble them."""

from __future__ import annotations

import json

import pytest

from dragoman.builtin.models.overflow import overflow_in


def error(message: str, **members: object) -> str:
    return json.dumps({"error": {"message": message, **members}})


SHAPES: dict[str, tuple[int, str, int | None, int | None]] = {
    "anthropic": (
        400,
        json.dumps(
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 213462 tokens > 200000 maximum",
                },
            }
        ),
        213_462,
        200_000,
    ),
    "anthropic, output included": (
        400,
        error(
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
            "`max_tokens` and try again",
            type="invalid_request_error",
        ),
        188_240,
        200_000,
    ),
    "anthropic, too many bytes": (
        413,
        error("Request exceeds the maximum size", type="request_too_large"),
        None,
        None,
    ),
    "openai chat": (
        400,
        error(
            "This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,545 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        130_545,
        128_000,
    ),
    "openai responses": (
        400,
        error("Your input exceeds the context window of this model.", code="context_length_exceeded", param="input"),
        None,
        None,
    ),
    "openai responses, failed in the stream": (
        200,
        json.dumps(
            {
                "type": "response.failed",
                "response": {"error": {"code": "context_length_exceeded", "message": "Your input is too large."}},
            }
        ),
        None,
        None,
    ),
    "openai responses, error in the stream": (
        0,
        json.dumps({"type": "error", "code": "context_length_exceeded", "message": "Your input is too large."}),
        None,
        None,
    ),
    "google": (
        400,
        error(
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            status="INVALID_ARGUMENT",
        ),
        1_196_265,
        1_048_575,
    ),
    "google, in a list": (
        400,
        json.dumps(
            [
                {
                    "error": {
                        "message": "The input token count exceeds the maximum number of tokens allowed 1048576.",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ]
        ),
        None,
        1_048_576,
    ),
    "openrouter": (
        400,
        error(
            "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000 tokens "
            "(249000 of text input, 1000 in the output). Please reduce the length of either one.",
            code=400,
        ),
        249_000,
        200_000,
    ),
    "deepseek": (
        400,
        error(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (132000 in the "
            "messages, 8000 in the completion). Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            code="invalid_request_error",
        ),
        132_000,
        131_072,
    ),
    "mistral": (
        400,
        json.dumps(
            {
                "object": "error",
                "message": "Prompt contains 40211 tokens and 0 draft tokens, too large for model with 32768 maximum "
                "context length",
                "type": "invalid_request_prompt",
                "code": "3051",
            }
        ),
        40_211,
        32_768,
    ),
    "groq": (
        400,
        error("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
        None,
        None,
    ),
    "cerebras": (400, error("Please reduce the length of the messages", code="context_length_exceeded"), None, None),
    "bedrock": (
        400,
        json.dumps({"message": "Input is too long for requested model.", "__type": "ValidationException"}),
        None,
        None,
    ),
    "xai": (
        400,
        json.dumps(
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            }
        ),
        537_812,
        131_072,
    ),
    "vllm": (
        400,
        error(
            "You passed 33001 input tokens and requested 0 output tokens. However, the model's context length is only "
            "32768 tokens, resulting in a maximum input length of 32768 tokens.",
            param="input_tokens",
            code=400,
        ),
        33_001,
        32_768,
    ),
    "vllm, older": (
        400,
        json.dumps(
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5100 tokens "
                "(4100 in the messages, 1000 in the completion).",
            }
        ),
        4_100,
        4_096,
    ),
    "llama.cpp": (
        400,
        error(
            "the request exceeds the available context size, try increasing it",
            type="exceed_context_size_error",
            code=400,
            n_prompt_tokens=9_200,
            n_ctx=8_192,
        ),
        9_200,
        8_192,
    ),
    "llama.cpp, counts in the text": (
        400,
        error("request (9200 tokens) exceeds the available context size (8192 tokens), try increasing it"),
        9_200,
        8_192,
    ),
    "lm studio": (
        400,
        json.dumps(
            {
                "error": "Trying to keep the first 5000 tokens when context overflows. However, the model is loaded "
                "with context length of only 4096 tokens, which is not enough."
            }
        ),
        None,
        4_096,
    ),
    "ollama": (400, json.dumps({"error": "prompt too long; exceeded max context length by 12 tokens"}), None, None),
    "copilot": (
        400,
        error("prompt token count of 130100 exceeds the limit of 128000", code="model_max_prompt_tokens_exceeded"),
        130_100,
        128_000,
    ),
    "kimi": (
        400,
        error("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
        291_351,
        262_144,
    ),
    "minimax, with its own error code": (400, error("invalid params, context window exceeds limit (2013)"), None, None),
    "z.ai": (400, error("Prompt exceeds max length", code="1261"), None, None),
    "text generation inference": (
        422,
        json.dumps(
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 "
                "`inputs` tokens and 100 `max_new_tokens`"
            }
        ),
        5_000,
        4_097,
    ),
    "no body": (400, "", None, None),
    "too large, no body": (413, "", None, None),
    "too large, a gateway's page": (413, "<html><body>413 Request Entity Too Large</body></html>", None, None),
    "plain text": (400, "prompt is too long: 5000 tokens > 4000 maximum", 5_000, 4_000),
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_overflow_is_recognised_and_its_counts_are_read(name: str) -> None:
    status, body, used, window = SHAPES[name]
    found = overflow_in(status, body)
    assert found is not None
    assert (found.used, found.window, found.status) == (used, window, status)
    assert not found.is_retryable
    assert str(found).startswith("the conversation does not fit in the model's context window")
    assert "<html" not in str(found)


OTHERS: dict[str, tuple[int, str]] = {
    "groq, tokens per minute with the status of an overflow": (
        413,
        error(
            "Request too large for model `llama-3` on tokens per minute (TPM): Limit 6000, Requested 12000, please "
            "reduce your message size and try again.",
            code="rate_limit_exceeded",
        ),
    ),
    "tokens per minute": (400, error("maximum context length is 30000 tokens per min for this organization")),
    "rate limit": (429, error("prompt is too long: 5000 tokens > 4000 maximum")),
    "throttling": (400, json.dumps({"__type": "ThrottlingException", "message": "Too many tokens"})),
    "too many requests": (503, "Too Many Requests: prompt is too long"),
    "quota": (400, error("You exceeded your current quota of the context window exceeds limit")),
    "key": (401, ""),
    "output limit": (
        400,
        error("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude"),
    ),
    "wrong argument": (400, error("messages: roles must alternate")),
    "long tool name": (400, error("Invalid 'tools[0].name': string too long. Expected maximum length 64")),
    "image": (400, error("messages.0.content.1.image: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes")),
    "a proxy's page": (400, "<html><body>The plain HTTP request was sent to HTTPS port</body></html>"),
    "server": (500, ""),
    "unknown model": (404, error("The model does not exist")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_refusals_are_not_an_overflow(name: str) -> None:
    assert overflow_in(*OTHERS[name]) is None


def test_the_message_quotes_the_provider_and_the_counts() -> None:
    found = overflow_in(*SHAPES["kimi"][:2])
    assert "291,351 of 262,144 tokens" in str(found)
    assert "exceeded model token limit" in str(found)
