"""The table of providers: their names, wire forms and addresses, the variables that hold their keys, and their models.

Owns the table and what follows from it and the environment, so that a session can start or be refused without loading
anything. `http.py` calls the servers that speak one of our wire forms; `package/` calls the others. What a server of
chat completions does differently is in `wire_forms/chat_servers.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.builtin.models.catalogue import offered_by

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPATIBLE: Final = "openai-compatible"
"""Any server that speaks OpenAI's chat completions, at `OPENAI_BASE_URL`."""
FormName: TypeAlias = Literal["messages", "responses", "chat", "gemini", "package"]
"""The wire form of a provider. `package`: its calls are made by `pydantic-ai`, as it logs in in its own way."""


class Provider(Struct, frozen=True):
    """One provider. One of `variables` is enough; with none listed, no key is checked before the first call."""

    id: str
    title: str = ""
    variables: tuple[str, ...] = ()
    form: FormName = "package"
    url: str = ""
    """The address that is used unless a variable sets another."""
    url_variables: tuple[str, ...] = ()
    """Variables that set another address, next to `PROVIDER_BASE_URL`."""
    optional_keys: tuple[str, ...] = ()
    """Variables whose key is sent if it is set, for servers that mostly need none."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are offered when its key is set, the default first."""
        return offered_by(self.id)

    def has_key(self, env: Mapping[str, str]) -> bool:
        return not self.variables or any(env.get(name) for name in self.variables)

    @property
    def keys(self) -> tuple[str, ...]:
        """The variables that may hold the key, the first that is set counts."""
        return (*(name for name in self.variables if not name.endswith("_URL")), *self.optional_keys)

    @property
    def key_variable(self) -> str:
        """The variable that a stored key stands for; "" for a provider that does not log in with a key alone."""
        return next((name for name in self.keys if name.endswith(("_KEY", "_TOKEN"))), "")

    def key(self, env: Mapping[str, str]) -> str:
        """Return the key, "" if none is set."""
        return next((env[name].strip() for name in self.keys if env.get(name)), "")

    @property
    def url_variable(self) -> str:
        """Its own variable for another address, which every provider has."""
        return f"{self.id.upper().replace('-', '_')}_BASE_URL"

    def base_url(self, env: Mapping[str, str]) -> str:
        """Return the address of the server without a slash at its end, "" if none is known.

        An address without a path gets that of the usual address: `http://host:11434` is `http://host:11434/v1`.
        """
        names = (self.url_variable, *self.url_variables)
        found = next((env[name].strip() for name in names if env.get(name)), self.url)
        if "/" not in found.partition("://")[2]:
            _, slash, path = self.url.partition("://")[2].partition("/")
            found += slash + path
        return found.rstrip("/")


_OPENAI_URL: Final = "https://api.openai.com/v1"
_OPENAI_KEYS: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_OPENAI_URLS: Final = ("OPENAI_BASE_URL",)

# In the order in which a default is searched, before all others. The catalogue has their models.
CHOSEN: Final = (
    Provider(
        "anthropic",
        "Anthropic",
        ("ANTHROPIC_API_KEY",),
        "messages",
        "https://api.anthropic.com",
    ),
    Provider(
        "openai",
        "OpenAI",
        _OPENAI_KEYS,
        "responses",
        _OPENAI_URL,
    ),
    Provider(
        "google",
        "Google Gemini",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "gemini",
        "https://generativelanguage.googleapis.com",
        ("GOOGLE_GEMINI_BASE_URL",),
    ),
)


def _chat(id: str, title: str, url: str, *variables: str, url_variables: tuple[str, ...] = ()) -> Provider:
    return Provider(id, title, variables, form="chat", url=url, url_variables=url_variables)


def _local(id: str, title: str, url: str, *keys: str) -> Provider:
    """Return the provider of a server on the user's own machine, which mostly needs no key."""
    return Provider(id, title, form="chat", url=url, optional_keys=keys)


_OTHERS: Final = (
    Provider(
        COMPATIBLE,
        "OpenAI-compatible server",
        ("OPENAI_BASE_URL",),
        form="chat",
        url_variables=_OPENAI_URLS,
        optional_keys=("OPENAI_API_KEY",),
    ),
    Provider("openai-chat", "OpenAI", _OPENAI_KEYS, form="chat", url=_OPENAI_URL, url_variables=_OPENAI_URLS),
    Provider("openai-responses", "OpenAI", _OPENAI_KEYS, form="responses", url=_OPENAI_URL, url_variables=_OPENAI_URLS),
    _local("ollama", "Ollama", "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
    _local("vllm", "vLLM", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    _local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY"),
    _local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY"),
    _chat(
        "alibaba",
        "Alibaba",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        *("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    ),
    _chat("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _chat("deepseek", "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    _chat("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _chat("github", "GitHub Models", "https://models.github.ai/inference", "GITHUB_API_KEY"),
    _chat("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _chat(
        "heroku",
        "Heroku",
        "https://us.inference.heroku.com/v1",
        "HEROKU_INFERENCE_KEY",
        url_variables=("HEROKU_INFERENCE_URL",),
    ),
    _chat("huggingface", "Hugging Face", "https://router.huggingface.co/v1", "HF_TOKEN"),
    _chat("meta", "Meta", "https://api.meta.ai/v1", "META_API_KEY"),
    _chat("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    _chat("moonshotai", "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY"),
    _chat("nebius", "Nebius", "https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    _chat("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    _chat("ovhcloud", "OVHcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "OVHCLOUD_API_KEY"),
    _chat("sambanova", "SambaNova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    _chat("together", "Together AI", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _chat(
        "vercel",
        "Vercel AI Gateway",
        "https://ai-gateway.vercel.sh/v1",
        *("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    ),
    _chat("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    _chat("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    # Calls of these are made by pydantic-ai.
    Provider("azure", "Azure", ("AZURE_OPENAI_ENDPOINT",)),
    Provider("azure-responses", "Azure", ("AZURE_OPENAI_ENDPOINT",)),
    Provider("cohere", "Cohere", ("CO_API_KEY",)),
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


def key_owner(id: str) -> Provider | None:
    """Return the provider under whose name a key of `id` is stored, None if it does not log in with a key alone.

    Names with one variable have one key: that of `openai` is used for `openai-chat` and `openai-compatible`, too.
    """
    variable = PROVIDERS[id].key_variable if id in PROVIDERS else ""
    return next((provider for provider in PROVIDERS.values() if variable and provider.key_variable == variable), None)


def login_providers() -> list[Provider]:
    """Return the providers whose key can be stored, each once."""
    return [provider for provider in PROVIDERS.values() if key_owner(provider.id) is provider]


def missing_key(name: str, env: Mapping[str, str]) -> Provider | None:
    """Return the provider whose key this model needs and the environment lacks, or None if nothing is missing."""
    provider = provider_of(name)
    return None if provider is None or provider.has_key(env) else provider


def default_model(env: Mapping[str, str]) -> str | None:
    """Return the model to use when none is named: that of the first provider whose key is set."""
    return next(iter(offered_models(env)), None)


def has_key(env: Mapping[str, str]) -> bool:
    """Whether a variable with the key of a provider that users choose is set."""
    return any(env.get(name) for provider in CHOSEN for name in provider.variables)


def offered_models(env: Mapping[str, str]) -> list[str]:
    """Return the main models of the providers whose keys are set. A base URL alone offers none: its models are not
    known."""
    return [
        f"{provider.id}:{model}"
        for provider in PROVIDERS.values()
        if any(env.get(name) for name in provider.variables if name.endswith("_KEY"))
        for model in provider.models
    ]
