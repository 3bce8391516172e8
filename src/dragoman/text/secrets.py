"""Masks for the keys of model providers and services in text that is shown, stored or sent.

Providers repeat a key in their error messages, and an error is shown on stderr, put into results and recorded. Only
keys that are known are found: the values of the variables listed here, in an environment that the caller passes. Does
not guess what else may be a secret. `Secrets.mask` is for whole texts, `SplitMask` for text that arrives in pieces.
`dragoman` loads this at every start, so it imports nothing.
"""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

# A shorter value is a placeholder ("x", "none"), and masking it would change ordinary words.
SHORTEST_KEY = 8

KEY_VARIABLES = (
    # Providers of models. A test compares this with the table of the built-in agent.
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("ALIBABA_API_KEY", "DASHSCOPE_API_KEY", "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY", "CO_API_KEY"),
    *("DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GITHUB_API_KEY", "GROQ_API_KEY", "HEROKU_INFERENCE_KEY", "HF_TOKEN"),
    *("META_API_KEY", "MISTRAL_API_KEY", "MOONSHOTAI_API_KEY", "NEBIUS_API_KEY", "OLLAMA_API_KEY"),
    *("OPENROUTER_API_KEY", "OVHCLOUD_API_KEY", "SAMBANOVA_API_KEY", "TOGETHER_API_KEY", "VERCEL_AI_GATEWAY_API_KEY"),
    *("VERCEL_OIDC_TOKEN", "XAI_API_KEY", "ZAI_API_KEY", "PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    *("VLLM_API_KEY", "LLAMACPP_API_KEY", "LMSTUDIO_API_KEY"),
    # Agents that have a variable of their own.
    *("CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY", "CURSOR_API_KEY", "GITHUB_TOKEN", "GH_TOKEN"),
    # Services for web searches.
    *("BRAVE_API_KEY", "TAVILY_API_KEY", "DRAGOMAN_SEARCH_KEY"),
)


_remembered: "list[Mapping[str, str | None]]" = []
_typed: "dict[str, str]" = {}


def remember_keys(keys: "Mapping[str, str | None]") -> None:
    """Mask these keys, too, in everything that is masked from now on: stored keys, and those that a client passed.

    Args:
        keys: by the name of the variable that each stands for.
    """
    if any(keys.values()) and keys not in _remembered:
        _remembered.append(dict(keys))
        known_keys.learn(keys)


def remember_key(variable: str, key: str) -> None:
    """Mask a key, too, that the user typed for a variable, whatever that is called."""
    _typed[key] = f"[{variable}]"
    known_keys.add(_typed)


class Secrets:
    """The keys of one environment, with the text that replaces each: `[ANTHROPIC_API_KEY]`."""

    def __init__(self, *environments: "Mapping[str, str | None]") -> None:
        self._masks: list[tuple[str, str]] = []
        self._masks_bytes: list[tuple[bytes, bytes]] = []
        for environment in (*environments, *_remembered):
            self.learn(environment)
        if _typed:
            self.add(_typed)

    def __bool__(self) -> bool:
        """Whether any key is known."""
        return bool(self._masks)

    def learn(self, environment: "Mapping[str, str | None]") -> None:
        """Mask the keys of this environment, too."""
        self.add({(environment.get(name) or ""): f"[{name}]" for name in reversed(KEY_VARIABLES)})

    def add(self, keys: "Mapping[str, str]") -> None:
        """Mask these keys, too, each by its own text. What is too short for a key is left out."""
        masks = dict(self._masks)
        for key, mask in keys.items():
            value = key.strip()
            # A number is not a key, and replacing it would break JSON, where numbers stand without quotes.
            if len(value) >= SHORTEST_KEY and not value.isdigit():
                masks.setdefault(value, mask)
        # The longest first: one key may be the beginning of another.
        self._masks = sorted(masks.items(), key=lambda item: -len(item[0]))
        escaped = [(key.replace("/", "\\/"), mask) for key, mask in self._masks if "/" in key]
        self._masks_bytes = [
            (key.encode(errors="surrogateescape"), mask.encode()) for key, mask in (*escaped, *self._masks)
        ]

    def mask(self, text: str) -> str:
        """Return the text with every key replaced by the name of its variable."""
        if not any(key in text for key, _ in self._masks):
            return text
        return self.mask_bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def mask_bytes(self, data: bytes, skip: int = 0) -> bytes:
        """Do as `mask` does, for UTF-8 text such as lines of JSON, where `/` may be escaped.

        Args:
            skip: So many bytes at the beginning are left out: they were shown before. A key may begin in them.
        """
        shown, at = [], 0
        while (found := self._next(data, at)) is not None:
            start, key, mask = found
            shown += [data[max(at, skip) : start], mask]
            at = start + len(key)
        return b"".join((*shown, data[max(at, skip) :])) if shown else data[skip:]

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a key that is not complete yet."""
        at = 0
        while True:
            complete = self._next(data, at)
            place = self._beginning(data, at)
            # A complete key that comes first is masked, and what follows it is looked at by itself.
            if complete is None or (place is not None and place <= complete[0]):
                return 0 if place is None else len(data) - place
            at = complete[0] + len(complete[1])

    def _next(self, data: bytes, at: int) -> "tuple[int, bytes, bytes] | None":
        """Find the first complete key from a place on, and its mask; of several that begin there the longest."""
        first: tuple[int, bytes, bytes] | None = None
        for key, mask in self._masks_bytes:
            start = data.find(key, at)
            if start >= 0 and (first is None or (start, -len(key)) < (first[0], -len(first[1]))):
                first = start, key, mask
        return first

    def _beginning(self, data: bytes, at: int) -> int | None:
        """Find the first place from which on the data is the beginning of a longer key."""
        keys = [key for key, _ in self._masks_bytes]
        for start in range(max(at, len(data) - max(map(len, keys), default=1) + 1), len(data)):
            tail = data[start:]
            if any(len(key) > len(tail) and key.startswith(tail) for key in keys):
                return start
        return None


class SplitMask:
    """A mask for text that arrives in pieces: a key that is split between pieces is found, too.

    What may be the beginning of a key is kept until the next piece shows whether it is one.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._rest = b""
        self._shown = 0  # bytes of the rest

    @property
    def has_rest(self) -> bool:
        """Whether the text ended with what may be the beginning of a key."""
        return bool(self._rest)

    def feed(self, piece: bytes) -> bytes:
        """Return what can be shown after this piece."""
        if not self._secrets and not self._rest:
            return piece
        data = self._rest + piece
        end = len(data) - self._secrets.held(data)
        shown = self._secrets.mask_bytes(data[:end], self._shown)
        self._rest, self._shown = data[end:], max(0, self._shown - end)
        return shown

    def feed_text(self, piece: str) -> str:
        """Do as `feed` does, for text."""
        return self.feed(piece.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def show_some(self) -> bytes:
        """Return what is kept if it is too short to be a secret; the next piece may still complete the key.

        For a text that is interrupted: most words that begin like a key are ordinary words.
        """
        if len(self._rest) >= SHORTEST_KEY:
            return b""
        some, self._shown = self._rest[self._shown :], len(self._rest)
        return some

    def finish(self) -> bytes:
        """Return the rest: no piece follows."""
        rest, shown, self._rest, self._shown = self._rest, self._shown, b"", 0
        return self._secrets.mask_bytes(rest, shown)


known_keys = Secrets()
"""The keys of this program's own environment, masked in everything that `dragoman.text` prepares to be shown.

Empty until a program asks for it with `known_keys.learn(os.environ)`, as `dragoman` does at its start: a library must
not change the text of the program that uses it.
"""
