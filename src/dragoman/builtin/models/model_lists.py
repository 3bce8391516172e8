"""The models that a provider lists, with what it states about them.

Owns the requests to the lists: which address, which pages, how long. `list_rows.py` reads the answers. A list is asked
for when the user wants to choose, or in the background; it is never needed for a call, so a list that cannot be read is
an error to show and not a reason to stop.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from dragoman._version import __version__
from dragoman.builtin.models import list_rows
from dragoman.builtin.models.model import ModelAuthError, ModelError
from dragoman.builtin.models.wire_forms.failures import broken_connection, failure_of, title_of
from dragoman.builtin.models.wire_forms.form import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    import httpx2

    from dragoman.builtin.models.catalogue import ModelFacts
    from dragoman.builtin.models.providers import Provider

# For the whole list. It is about the time after which a user who waits for a menu gives up.
LIST_SECONDS: Final = 10.0
# The longest list that is known, with a thousand models and their descriptions, has two megabytes.
_LARGEST_LIST_BYTES: Final = 32 * 1024 * 1024
_MOST_PAGES: Final = 10
# Ollama describes its models one by one.
_MOST_DESCRIBED: Final = 100
_DESCRIBED_AT_ONCE: Final = 8
_ANTHROPIC_VERSION: Final = "2023-06-01"


async def list_models(
    provider: Provider, env: Mapping[str, str], *, seconds: float = LIST_SECONDS, key_place: str = ""
) -> list[ModelFacts]:
    """Ask a provider for its models. What it does not state is taken from the catalogue.

    Args:
        env: the environment, for the key and the address.
        key_place: where the key comes from, which a refusal of it names.

    Raises: ModelError that states what to do; ModelAuthError for a key that is missing or refused.
    """
    target = Target(provider, "models")
    if provider.form == "package":
        raise ModelError(f"the models of {title_of(target)} cannot be listed: name one as {provider.id}:MODEL")
    key = provider.key(env)
    if not key and not provider.has_key(env):
        variables = provider.keys
        raise ModelAuthError(
            f"to list the models of {title_of(target)} set {' or '.join(variables)}", variables=variables
        )
    async with _server(target, key, env, seconds, key_place) as server:
        return await _SOURCES.get(provider.id, _by_form)(server)


async def ask_server(
    provider: Provider, env: Mapping[str, str], path: str, *, seconds: float = LIST_SECONDS, key_place: str = ""
) -> Any:
    """Return the answer of a provider at a path below its address, with the key of `env` if that has one.

    Raises: ModelError, ModelAuthError.
    """
    async with _server(Target(provider, "models"), provider.key(env), env, seconds, key_place) as server:
        return await server.get(f"{server.url}{path}")


@asynccontextmanager
async def _server(
    target: Target, key: str, env: Mapping[str, str], seconds: float, key_place: str
) -> AsyncIterator[_Server]:
    """Open the server of a provider for some seconds. Raises: ModelError."""
    provider = target.provider
    url = provider.base_url(env)
    if not url:
        variable = next(iter(provider.url_variables), f"{provider.id.upper()}_BASE_URL")
        raise ModelError(f"the models of {title_of(target)} cannot be listed: no address is known; set {variable}")
    try:
        async with asyncio.timeout(seconds), await asyncio.to_thread(_client, target, key) as client:
            yield _Server(client, target, url, key_place)
    except TimeoutError:
        raise _unlisted(target, f"it did not answer within {seconds:g} s", is_retryable=True) from None


class _Server:
    """A server whose list is read."""

    def __init__(self, client: httpx2.AsyncClient, target: Target, url: str, key_place: str) -> None:
        self._client = client
        self._key_place = key_place
        self.target = target
        self.url = url
        self.root = url.removesuffix("/v1")

    async def get(self, address: str, body: Any = None) -> Any:
        """Return the decoded answer; with a body it is a POST. Raises: ModelError."""
        import httpx2

        content = None if body is None else msgspec.json.encode(body)
        found = b""
        try:
            method = "GET" if body is None else "POST"
            async with self._client.stream(method, address, content=content) as response:
                async for piece in response.aiter_bytes():
                    found += piece
                    if len(found) > _LARGEST_LIST_BYTES:
                        raise _unlisted(self.target, f"the list has more than {_LARGEST_LIST_BYTES} bytes")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise _unlisted(self.target, f"{address!r} is not the address of a server: {error}") from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise broken_connection(self.target, error) from error
        if response.status_code != 200:
            status, place = response.status_code, self._key_place
            raise failure_of(self.target, status, found, response.headers, key_place=place)
        try:
            return msgspec.json.decode(found)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _unlisted(self.target, f"{address} sent no JSON: {error}") from None

    async def get_if_any(self, address: str) -> Any:
        """Return the decoded answer, or None from a server that does not know the address."""
        try:
            return await self.get(address)
        except ModelAuthError:
            raise
        except ModelError as error:
            if error.status in (400, 404, 405, 501, 503):
                return None
            raise

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """Raises: ModelError for an answer that is not a list of models."""
        found = list_rows.rows_in(answer)
        if found is None:
            raise _unlisted(self.target, "its answer is not a list of models")
        return found


async def _by_form(server: _Server) -> list[ModelFacts]:
    form = server.target.provider.form
    if form == "messages":
        return await _anthropic(server)
    return await (_google if form == "gemini" else _compatible)(server)


async def _anthropic(server: _Server) -> list[ModelFacts]:
    facts: list[ModelFacts] = []
    after = ""
    for _ in range(_MOST_PAGES):
        answer = await server.get(f"{server.url}/v1/models?limit=1000{after}")
        facts += list_rows.facts_in(server.target.provider.id, server.rows(answer), list_rows.anthropic_facts)
        if not answer.get("has_more") or not answer.get("last_id"):
            break
        after = f"&after_id={quote(str(answer['last_id']))}"
    return facts


async def _google(server: _Server) -> list[ModelFacts]:
    facts: list[ModelFacts] = []
    token = ""
    for _ in range(_MOST_PAGES):
        answer = await server.get(f"{server.url}/v1beta/models?pageSize=1000{token}")
        facts += list_rows.facts_in(server.target.provider.id, server.rows(answer), list_rows.google_facts)
        if not answer.get("nextPageToken"):
            break
        token = f"&pageToken={quote(str(answer['nextPageToken']))}"
    return facts


async def _compatible(server: _Server) -> list[ModelFacts]:
    rows = server.rows(await server.get(f"{server.url}/models"))
    return list_rows.facts_in(server.target.provider.id, rows, list_rows.compatible_facts)


async def _xai(server: _Server) -> list[ModelFacts]:
    answer = await server.get_if_any(f"{server.url}/language-models")
    if answer is None:
        return await _compatible(server)
    return list_rows.facts_in(server.target.provider.id, server.rows(answer), list_rows.compatible_facts)


async def _lm_studio(server: _Server) -> list[ModelFacts]:
    """Return the models of LM Studio. Its own list has the window; the compatible one has names only."""
    answer = await server.get_if_any(f"{server.root}/api/v0/models")
    if answer is None:
        return await _compatible(server)
    return list_rows.facts_in(server.target.provider.id, server.rows(answer), list_rows.compatible_facts)


async def _llama_cpp(server: _Server) -> list[ModelFacts]:
    """Return the models of llama.cpp.

    The list has the window that the model was trained with; the server was started with another.
    """
    rows = server.rows(await server.get(f"{server.url}/models"))
    properties = await server.get_if_any(f"{server.root}/props")
    started = list_rows.llama_cpp_started(properties)
    return [
        msgspec.structs.replace(facts, **started)
        for facts in list_rows.facts_in(server.target.provider.id, rows, list_rows.compatible_facts)
    ]


async def _ollama(server: _Server) -> list[ModelFacts]:
    """Return the models of Ollama.

    A model that is loaded has the window it was loaded with, which is mostly not that of its training.
    """
    answer = await server.get_if_any(f"{server.root}/api/tags")
    if answer is None:
        return await _compatible(server)
    loaded = list_rows.ollama_loaded(await server.get_if_any(f"{server.root}/api/ps"))
    at_once = asyncio.Semaphore(_DESCRIBED_AT_ONCE)

    async def described(name: str) -> dict[str, Any]:
        found: Any = None
        async with at_once:
            with suppress(ModelError):  # its name is in the list, and that is enough to use it
                found = await server.get(f"{server.root}/api/show", {"model": name})
        return {**(found if isinstance(found, dict) else {}), "id": name, "loaded": loaded.get(name)}

    names = [name for row in server.rows(answer) if isinstance(name := row.get("model") or row.get("name"), str)]
    rows = await asyncio.gather(*map(described, names[:_MOST_DESCRIBED]))
    rows += [{"id": name} for name in names[_MOST_DESCRIBED:]]
    return list_rows.facts_in(server.target.provider.id, rows, list_rows.ollama_facts)


_SOURCES: Final[dict[str, Callable[[_Server], Awaitable[list[ModelFacts]]]]] = {
    "ollama": _ollama,
    "llamacpp": _llama_cpp,
    "lmstudio": _lm_studio,
    "xai": _xai,
}


def _client(target: Target, key: str) -> httpx2.AsyncClient:
    """Make the HTTP client, in a thread: the import and the certificates take a tenth of a second."""
    from dragoman.builtin.models.http import no_http

    try:
        import httpx2
    except ImportError as error:
        raise ModelError(no_http()) from error
    headers = {"user-agent": f"dragoman/{__version__}", "accept": "application/json"}
    if target.provider.form == "messages":
        headers |= {"x-api-key": key, "anthropic-version": _ANTHROPIC_VERSION}
    elif target.provider.form == "gemini":
        headers["x-goog-api-key"] = key
    elif key:
        headers["authorization"] = f"Bearer {key}"
    return httpx2.AsyncClient(headers=headers, follow_redirects=False, timeout=None)


def _unlisted(target: Target, reason: str, *, is_retryable: bool = False) -> ModelError:
    return ModelError(f"the models of {title_of(target)} cannot be listed: {reason}", is_retryable=is_retryable)
