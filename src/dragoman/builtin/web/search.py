"""Search services: which one the user has configured, its requests, and its results.

Owns the environment variables and the three forms of request and result. Does not send requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.builtin.web.url import ParsedUrl

URL: Final = "DRAGOMAN_SEARCH_URL"
KEY: Final = "DRAGOMAN_SEARCH_KEY"
PROVIDER: Final = "DRAGOMAN_SEARCH_PROVIDER"
PROVIDERS: Final = ("brave", "tavily", "searxng")
_DEFAULT_URLS: Final = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
_OWN_KEYS: Final = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
HOW: Final = (
    f"set BRAVE_API_KEY (Brave Search) or TAVILY_API_KEY (Tavily), or {URL} to a SearXNG instance that answers in "
    f"JSON; or {URL}, {KEY} and {PROVIDER} ({', '.join(PROVIDERS)}) for one behind another address"
)
_SNIPPET_LETTERS: Final = 600


class WebResult(Struct, frozen=True):
    """One result of a search."""

    title: str
    url: str
    snippet: str = ""


class SearchService(Struct, frozen=True):
    """A configured search service."""

    provider: str
    target: ParsedUrl
    key: str = ""

    def request(self, query: str, count: int) -> tuple[ParsedUrl, str, dict[str, str], bytes]:
        """Return the URL, method, headers and body of a search."""
        headers = {"Accept": "application/json"}
        if self.provider == "tavily":
            headers |= {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            return self.target, "POST", headers, msgspec.json.encode({"query": query, "max_results": count})
        if self.provider == "brave":
            headers["X-Subscription-Token"] = self.key
            return self._with(f"q={quote_plus(query)}&count={count}"), "GET", headers, b""
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        return self._with(f"q={quote_plus(query)}&format=json"), "GET", headers, b""

    def results(self, body: bytes) -> list[WebResult]:
        """Return the results in the body of a response. Raises: ToolError if it has another form."""
        try:
            answer = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ToolError(f"{self.target.host} did not answer in JSON; is it a {self.provider} address?") from None
        if isinstance(answer, dict) and self.provider == "brave":
            answer = answer.get("web") or {"results": []}
        entries = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(entries, list):
            raise ToolError(f"the answer of {self.target.host} has no results as {self.provider} sends them")
        snippet = "description" if self.provider == "brave" else "content"
        return [found for entry in entries if (found := _found(entry, snippet)) is not None]

    def _with(self, query: str) -> ParsedUrl:
        joint = "&" if "?" in self.target.path else "?"
        return msgspec.structs.replace(self.target, path=f"{self.target.path}{joint}{query}")


def has_service(env: Mapping[str, str]) -> bool:
    """Whether a service is set up. One that is set up wrongly counts: a search reports what is wrong."""
    return bool(env.get(PROVIDER, "").strip() or _guess(env.get(URL, "").strip(), env))


def find_service(env: Mapping[str, str]) -> SearchService | None:
    """Return the service that the environment configures, None if there is none.

    Raises: ToolError for an incomplete configuration.
    """
    url = env.get(URL, "").strip()
    provider = env.get(PROVIDER, "").strip().lower() or _guess(url, env)
    if not provider:
        return None
    if provider not in PROVIDERS:
        raise ToolError(f"{PROVIDER} is {provider!r}; set it to one of {', '.join(PROVIDERS)}")
    url = url or _DEFAULT_URLS.get(provider, "")
    key = env.get(KEY, "").strip() or env.get(_OWN_KEYS.get(provider, KEY), "").strip()
    if not url:
        raise ToolError(f"the web cannot be searched: {provider} needs {URL}")
    if provider in _OWN_KEYS and not key:
        raise ToolError(f"the web cannot be searched: {provider} needs a key; set {KEY} or {_OWN_KEYS[provider]}")
    from dragoman.builtin.web.url import read_url

    try:
        target = read_url(url)
    except ToolError as error:
        raise ToolError(f"the web cannot be searched, {URL} is wrong: {error}") from None
    path = target.path.rstrip("/")
    if provider == "searxng" and not path.endswith("/search"):
        target = msgspec.structs.replace(target, path=f"{path}/search")
    return SearchService(provider, target, key)


def _guess(url: str, env: Mapping[str, str]) -> str:
    """Return the provider that the other variables imply, empty if there is none."""
    if url:
        return next((name for name in _DEFAULT_URLS if f"{name}.com" in url), "searxng")
    return next((name for name, key in _OWN_KEYS.items() if env.get(key, "").strip()), "")


def _found(entry: Any, snippet: str) -> WebResult | None:
    from dragoman.builtin.web.inline_text import collapse

    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str) or not entry["url"].strip():
        return None
    return WebResult(
        _plain(entry.get("title"))[:300], collapse(entry["url"]), _plain(entry.get(snippet))[:_SNIPPET_LETTERS]
    )


def _plain(text: Any) -> str:
    """Return the text without the tags by which services mark the words they found."""
    from dragoman.builtin.web.html_tree import read_html
    from dragoman.builtin.web.inline_text import collapse

    return collapse(read_html(text[:20_000])[0].text()) if isinstance(text, str) else ""
