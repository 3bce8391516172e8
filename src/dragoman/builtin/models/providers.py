"""The table of providers: their names, the variables that hold their keys, and the models they offer.

Owns the table and what follows from it and the environment, so that a session can start or be refused without loading
anything. `provider.py` makes the calls; everything else about a provider is in `pydantic-ai`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPATIBLE: Final = "openai-compatible"
"""Any server that speaks OpenAI's chat completions, at `OPENAI_BASE_URL`."""


class Provider(Struct, frozen=True):
    """One provider. One of `variables` is enough; with none listed, no key is checked before the first call."""

    id: str
    title: str = ""
    variables: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """The models that are offered when its key is set, the default first."""
    local_url: str = ""
    """The address on this machine that is used unless a variable sets another."""

    def has_key(self, env: Mapping[str, str]) -> bool:
        return not self.variables or any(env.get(name) for name in self.variables)


# In the order in which a default is searched. A test compares the models with those that pydantic-ai lists.
CHOSEN: Final = (
    Provider(
        "anthropic",
        "Anthropic",
        ("ANTHROPIC_API_KEY",),
        ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    Provider("openai", "OpenAI", ("OPENAI_API_KEY", "OPENAI_BASE_URL"), ("gpt-6.1-sol", "gpt-6-astra", "gpt-6-luna")),
    Provider(
        "google",
        "Google Gemini",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ("gemini-3.8-flash", "gemini-4-argon", "gemini-2.5-pro"),
    ),
)
_OTHERS: Final = (
    Provider(COMPATIBLE, "OpenAI-compatible server", ("OPENAI_BASE_URL",)),
    Provider("openai-chat", "OpenAI", ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    Provider("openai-responses", "OpenAI", ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    Provider("ollama", "Ollama", local_url="http://127.0.0.1:11434/v1"),
    Provider("vllm", "vLLM", local_url="http://127.0.0.1:8000/v1"),
    Provider("alibaba", "Alibaba", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    Provider("azure", "Azure", ("AZURE_OPENAI_ENDPOINT",)),
    Provider("azure-responses", "Azure", ("AZURE_OPENAI_ENDPOINT",)),
    Provider("cerebras", "Cerebras", ("CEREBRAS_API_KEY",)),
    Provider("cohere", "Cohere", ("CO_API_KEY",)),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",)),
    Provider("fireworks", "Fireworks", ("FIREWORKS_API_KEY",)),
    Provider("github", "GitHub Models", ("GITHUB_API_KEY",)),
    Provider("groq", "Groq", ("GROQ_API_KEY",)),
    Provider("heroku", "Heroku", ("HEROKU_INFERENCE_KEY",)),
    Provider("huggingface", "Hugging Face", ("HF_TOKEN",)),
    Provider("meta", "Meta", ("META_API_KEY",)),
    Provider("mistral", "Mistral", ("MISTRAL_API_KEY",)),
    Provider("moonshotai", "Moonshot AI", ("MOONSHOTAI_API_KEY",)),
    Provider("nebius", "Nebius", ("NEBIUS_API_KEY",)),
    Provider("openrouter", "OpenRouter", ("OPENROUTER_API_KEY",)),
    Provider("ovhcloud", "OVHcloud", ("OVHCLOUD_API_KEY",)),
    Provider("sambanova", "SambaNova", ("SAMBANOVA_API_KEY",)),
    Provider("together", "Together AI", ("TOGETHER_API_KEY",)),
    Provider("vercel", "Vercel AI Gateway", ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    Provider("xai", "xAI", ("XAI_API_KEY",)),
    Provider("zai", "Z.AI", ("ZAI_API_KEY",)),
    # These find their credentials in several ways, and their packages report what is missing.
    *map(
        Provider, ("bedrock", "bedrock-mantle", "crusoe", "github-copilot", "google-cloud", "litellm", "openai-chatgpt")
    ),
    *map(Provider, ("openai-codex", "snowflake")),
)
PROVIDERS: Final = {provider.id: provider for provider in (*CHOSEN, *_OTHERS)}
GATEWAY: Final = "gateway/"
_GATEWAY: Final = Provider("gateway", "Pydantic AI Gateway", ("PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY"))


def provider_of(name: str) -> Provider | None:
    """Return the provider of a name `provider:model`, or None for any other name."""
    provider, colon, model = name.partition(":")
    if not colon or not model:
        return None
    return _GATEWAY if provider.startswith(GATEWAY) else PROVIDERS.get(provider)


def missing_key(name: str, env: Mapping[str, str]) -> Provider | None:
    """Return the provider whose key this model needs and the environment lacks, or None if nothing is missing."""
    provider = provider_of(name)
    return None if provider is None or provider.has_key(env) else provider


def default_model(env: Mapping[str, str]) -> str | None:
    """Return the model to use when none is named: that of the first provider whose key is set."""
    return next(iter(offered_models(env)), None)


def offered_models(env: Mapping[str, str]) -> list[str]:
    """Return the models that can be chosen with these keys. A base URL alone offers none: its models are not known."""
    return [
        f"{provider.id}:{model}"
        for provider in CHOSEN
        if any(env.get(name) for name in provider.variables if name.endswith("_KEY"))
        for model in provider.models
    ]
