"""A model behind HTTP: sends the request of a wire form and passes the events of the response to its reader.

Owns the connection: the address and the key from the environment, time limits, proxies and certificates (httpx2 reads
`HTTPS_PROXY`, `NO_PROXY` and `SSL_CERT_FILE`), and the end of a call that is not wanted any more. The HTTP client is
imported in a thread when a session begins, because it takes a tenth of a second.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.builtin.models.catalogue import cost_usd, facts_of
from dragoman.builtin.models.keys import ModelEnvironment
from dragoman.builtin.models.model import Model, ModelAuthError, ModelError, StepEnd
from dragoman.builtin.models.wire_forms.answer import broken_off
from dragoman.builtin.models.wire_forms.failures import broken_connection, failure_of, title_of
from dragoman.builtin.models.wire_forms.form import Target, encode
from dragoman.builtin.models.wire_forms.sse import Events, EventTooLarge, NotAStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping

    import httpx2

    from dragoman.builtin.models.model import ModelRequest
    from dragoman.builtin.models.providers import Provider
    from dragoman.builtin.models.wire_forms.form import HttpRequest, StreamReader, WireForm
    from dragoman.uistream.chunks import Chunk

CONNECT_SECONDS: Final = 20.0
# Between two pieces of an answer. Models think for minutes without a word where a server sends no signs of life.
READ_SECONDS: Final = 600.0
# After the end of the answer, for the end of the response, so that the connection can be used again.
_DRAIN_SECONDS: Final = 0.1
_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "user-agent": f"dragoman/{__version__}",
}
# A server may refuse several things of one request, one after the other.
_MOST_RECOVERIES: Final = 4
# Of one answer that a server sends in several responses.
_MOST_RESPONSES: Final = 32
_LARGEST_ERROR_BYTES: Final = 256 * 1024


class HttpModel(Model):
    """A model whose server speaks one of our wire forms."""

    name = ""
    is_scripted = False

    def __init__(self, target: Target, form: WireForm) -> None:
        self.name = target.name
        self._target = target
        self._form = form
        self._loading: Future[Any] | None = None
        self._client: httpx2.AsyncClient | None = None
        self._has_certificates = False

    @property
    def context_tokens(self) -> int | None:
        return None if self._target.facts is None else self._target.facts.window

    def warm_up(self) -> None:
        """Start to import the HTTP client and to read the certificates. The first call reports what went wrong."""
        if self._loading is None:
            self._loading = Future()
            self._has_certificates = needs_certificates(self._target.provider.base_url(self.environment), os.environ)
            # Not a thread of an executor: the end of the program would wait for it.
            arguments = (self._loading, self._has_certificates)
            threading.Thread(target=_load_into, args=arguments, daemon=True).start()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        key, base_url = self._key(), self._base_url()
        client = await self._opened(base_url)
        import httpx2

        reader = self._form.reader(request)
        sent: HttpRequest | None = None
        try:
            for _ in range(_MOST_RESPONSES):
                more = reader.continuation()
                async with self._answered(client, base_url, key, request, sent, more) as (response, sent):
                    events, pieces = Events(), response.aiter_bytes()
                    async for piece in pieces:
                        for item in _read(reader, events.feed(piece)):
                            if isinstance(item, StepEnd):
                                await _drain(pieces)
                                yield self._priced(item)
                                return
                            yield item
                    for item in _rest(reader, events):
                        yield self._priced(item) if isinstance(item, StepEnd) else item
                        if isinstance(item, StepEnd):
                            return
            raise broken_off()
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ModelError(
                f"{self.name} cannot be used: {base_url!r} is not the address of a server: {error}"
            ) from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise broken_connection(self._target, error) from error
        except NotAStream as error:
            raise ModelError(f"{title_of(self._target)} sent {error}; check the address {base_url}") from None
        except EventTooLarge as error:
            raise ModelError(f"{title_of(self._target)} sent an unreadable answer: {error}") from None

    @asynccontextmanager
    async def _answered(
        self,
        client: httpx2.AsyncClient,
        base_url: str,
        key: str,
        request: ModelRequest,
        sent: HttpRequest | None,
        more: Mapping[str, Any],
    ) -> AsyncIterator[tuple[httpx2.Response, HttpRequest]]:
        """Send the request; the response is an answer.

        Args:
            sent: the request whose answer goes on, with `more` in its body. It is not made again from the conversation,
                which has grown by the beginning of the answer.

        Raises: ModelError for a response that is not an answer.
        """
        recoveries, environment = 0, self.environment
        while True:
            sent = sent or self._form.request(request)
            content = sent.body[:-1] + b"," + encode(more)[1:] if more else sent.body
            headers = {**_HEADERS, **self._form.headers(key), **sent.headers, **self._own_headers()}
            async with client.stream("POST", base_url + sent.path, content=content, headers=headers) as response:
                if response.status_code == 200:
                    yield response, sent
                    return
                body = await _start_of(response)
            place = environment.place_of(self._target.provider) if isinstance(environment, ModelEnvironment) else ""
            error = failure_of(self._target, response.status_code, body, response.headers, key_place=place)
            if more or recoveries >= _MOST_RECOVERIES or not self._form.recovers_from(error):
                raise error
            sent, recoveries = None, recoveries + 1

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _priced(self, end: StepEnd) -> StepEnd:
        facts = self._target.facts
        if end.cost_usd is not None or end.usage is None or facts is None:
            return end
        return msgspec.structs.replace(end, cost_usd=cost_usd(facts, end.usage))

    def _key(self) -> str:
        """Raises: ModelAuthError if the provider needs a key and none is set, or the key cannot be one."""
        provider = self._target.provider
        if isinstance(self.environment, ModelEnvironment) and self.environment.is_disabled(provider):
            why = "the client has disabled its provider; set it again with providers/set, or choose another model"
            raise ModelAuthError(f"{self.name} cannot be used: {why}", variables=provider.keys)
        key = provider.key(self.environment)
        if not key and not provider.has_key(self.environment):
            variables = provider.keys
            raise ModelAuthError(f"{self.name} cannot be used: set {' or '.join(variables)}", variables=variables)
        if not key.isascii() or not key.isprintable() or " " in key:
            variables = tuple(name for name in provider.keys if self.environment.get(name))[:1]
            why = f"{variables[0]} contains characters that no key has; copy it again"
            raise ModelAuthError(f"{self.name} cannot be used: {why}", variables=variables)
        return key

    def _base_url(self) -> str:
        url = self._target.provider.base_url(self.environment)
        if not url:
            variable = next(iter(self._target.provider.url_variables), "its BASE_URL")
            raise ModelError(f"{self.name} cannot be used: no address is known; set {variable}")
        return url

    def _own_headers(self) -> Mapping[str, str]:
        """Return the headers that a client set for the provider, with the key in one of them."""
        environment = self.environment
        return environment.headers_of(self._target.provider) if isinstance(environment, ModelEnvironment) else {}

    async def _opened(self, base_url: str) -> httpx2.AsyncClient:
        if not self._has_certificates and needs_certificates(base_url, os.environ):
            await self.close()  # the address has changed
            self._loading = None
        if self._client is not None:
            return self._client
        self.warm_up()
        assert self._loading is not None
        loading = asyncio.wrap_future(self._loading)
        # A call that is cancelled leaves its error to the next one.
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            # Shielded: a call that is cancelled must not cancel what the next call waits for.
            context = await asyncio.shield(loading)
        except ModelError:
            self._loading = None  # the next call tries again
            raise
        import httpx2

        if self._client is None:
            timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=None)
            self._client = httpx2.AsyncClient(verify=context, timeout=timeout, follow_redirects=False)
        return self._client


def http_model(provider: Provider, name: str) -> HttpModel:
    """Return the model of a provider that speaks one of our wire forms."""
    target = Target(provider, name.partition(":")[2], facts_of(name))
    form: WireForm
    if provider.form == "messages":
        from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm

        form = AnthropicForm(target)
    elif provider.form == "responses":
        from dragoman.builtin.models.wire_forms.responses import ResponsesForm

        form = ResponsesForm(target)
    elif provider.form == "gemini":
        from dragoman.builtin.models.wire_forms.gemini import GeminiForm

        form = GeminiForm(target)
    else:
        from dragoman.builtin.models.wire_forms.chat import ChatForm

        form = ChatForm(target)
    return HttpModel(target, form)


def _read(reader: StreamReader, events: Iterable[tuple[str, bytes]]) -> Iterator[Chunk | StepEnd]:
    for event, data in events:
        yield from reader.feed(event, data)


def _rest(reader: StreamReader, events: Events) -> Iterator[Chunk | StepEnd]:
    """Return what is left when the response has ended."""
    for item in _read(reader, events.end()):
        yield item
        if isinstance(item, StepEnd):
            return
    yield from reader.end()


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in pieces:
                pass


def no_http() -> str:
    """Return why models of providers cannot be called without their package, and how to get it."""
    from dragoman.extras import install_command

    return f"models of providers need the package httpx2: {install_command('agent')}"


def needs_certificates(url: str, env: Mapping[str, str]) -> bool:
    """Whether calls to this address may use TLS. Reading the certificates takes long, and local servers need none."""
    return not url.startswith("http://") or any(env.get(name) or env.get(name.lower()) for name in _PROXIES)


def _load_into(loading: Future[Any], with_certificates: bool) -> None:
    try:
        loading.set_result(_load(with_certificates))
    except BaseException as error:
        loading.set_exception(error)


def _load(with_certificates: bool) -> Any:
    """Import the HTTP client and return the certificates that it trusts, perhaps none. Raises: ModelError."""
    try:
        import httpx2
    except ImportError as error:
        raise ModelError(no_http()) from error
    if not with_certificates:
        import ssl

        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.create_ssl_context()
    except (OSError, ValueError) as error:
        files = " and ".join(f"{name}={os.environ[name]}" for name in _CERTIFICATES if os.environ.get(name))
        raise ModelError(f"the certificates cannot be read ({files or 'of this machine'}): {error}") from error


_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


async def _start_of(response: httpx2.Response) -> bytes:
    """Return the beginning of the body of an error."""
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) > _LARGEST_ERROR_BYTES:
            break
    return found[:_LARGEST_ERROR_BYTES]
