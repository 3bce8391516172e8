"""Masks the keys of model providers and services in text that is shown, stored or sent.

Providers repeat a key in their error messages, and an error is shown on stderr, put into results and recorded. Only
keys that are known are found: the values of the variables listed here, in an environment that the caller passes. Does
not guess what else may be a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# A shorter value is a placeholder ("x", "none"), and masking it would change ordinary words.
SHORTEST_KEY: Final = 8

KEY_VARIABLES: Final = (
    # Providers of models. A test compares this with the table of the built-in agent.
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("ALIBABA_API_KEY", "DASHSCOPE_API_KEY", "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY", "CO_API_KEY"),
    *("DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GITHUB_API_KEY", "GROQ_API_KEY", "HEROKU_INFERENCE_KEY", "HF_TOKEN"),
    *("META_API_KEY", "MISTRAL_API_KEY", "MOONSHOTAI_API_KEY", "NEBIUS_API_KEY", "OLLAMA_API_KEY"),
    *("OPENROUTER_API_KEY", "OVHCLOUD_API_KEY", "SAMBANOVA_API_KEY", "TOGETHER_API_KEY", "VERCEL_AI_GATEWAY_API_KEY"),
    *("VERCEL_OIDC_TOKEN", "XAI_API_KEY", "ZAI_API_KEY", "PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    # Agents that have a variable of their own.
    *("CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY", "CURSOR_API_KEY", "GITHUB_TOKEN", "GH_TOKEN"),
    # Services for web searches.
    *("BRAVE_API_KEY", "TAVILY_API_KEY", "DRAGOMAN_SEARCH_KEY"),
)


class Secrets:
    """The keys of one environment, with the text that replaces each: `[ANTHROPIC_API_KEY]`."""

    def __init__(self, *environments: Mapping[str, str | None]) -> None:
        found: dict[str, str] = {}
        for environment in environments:
            for name in KEY_VARIABLES:
                value = (environment.get(name) or "").strip()
                if len(value) >= SHORTEST_KEY:
                    found.setdefault(value, f"[{name}]")
        # The longest first: one key may be the beginning of another.
        self._found = sorted(found.items(), key=lambda item: -len(item[0]))
        self._found_bytes = [(key.encode(errors="replace"), mask.encode()) for key, mask in self._found]

    def mask(self, text: str) -> str:
        """Return the text with every key replaced by the name of its variable."""
        for key, mask in self._found:
            text = text.replace(key, mask)
        return text

    def mask_bytes(self, data: bytes) -> bytes:
        """As `mask`, for UTF-8 text such as lines of JSON. Keys consist of characters that JSON does not escape."""
        for key, mask in self._found_bytes:
            data = data.replace(key, mask)
        return data
