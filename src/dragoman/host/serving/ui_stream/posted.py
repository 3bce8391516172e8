"""What an AI SDK client posts: the chat with its messages, and what of it the agent has not seen yet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.uistream.from_updates import SDK_VERSIONS, SdkVersion, prompt_blocks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dragoman.schema import v1

MAX_ID_LENGTH: Final = 256
_REGENERATE: Final = "regenerate-message"


class ChatRefusal(Exception):
    """Why a post is not served; the client shows the text."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: str
    id: str = ""
    parts: list[Any] = []


class ChatPost(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a post: what `useChat` sends, and what an application may add to it by `body`."""

    id: str
    messages: list[ChatMessage] = []
    message: ChatMessage | None = None
    """Instead of `messages`, for applications that send the last one only."""
    trigger: str = "submit-message"
    agent: str | None = None
    cwd: str | None = None
    sdk_version: int = 6
    resume: bool = False
    """The turn goes on when the client goes away, because it comes back by GET."""

    @property
    def version(self) -> SdkVersion:
        return next(version for version in SDK_VERSIONS if version == self.sdk_version)


class ChatAnswer(NamedTuple):
    """The user's answer to a permission question."""

    question_id: str
    allows: bool
    reason: str


class ChatPrompt(NamedTuple):
    """A prompt for the agent, and the ids of the messages that it is made of."""

    blocks: list[v1.ContentBlock]
    ids: list[str]


def read_post(body: bytes) -> ChatPost:
    """Read the post. Raises: ChatRefusal."""
    try:
        post = msgspec.json.decode(body, type=ChatPost)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChatRefusal(400, f"This is not a chat of an AI SDK client: {error}") from None
    if not 0 < len(post.id) <= MAX_ID_LENGTH:
        raise ChatRefusal(400, f"The id of a chat has 1 to {MAX_ID_LENGTH} characters.")
    if post.sdk_version not in SDK_VERSIONS:
        raise ChatRefusal(400, "sdkVersion is the major version of the AI SDK: 5, 6 or 7.")
    if post.message is not None and not post.messages:
        post = msgspec.structs.replace(post, messages=[post.message])
    if not post.messages:
        raise ChatRefusal(400, "The chat has no messages.")
    return post


def answers_in(message: ChatMessage) -> list[ChatAnswer]:
    """Return the answers to permission questions in a message of the agent."""
    found = []
    for part in message.parts:
        answer = part.get("approval") if isinstance(part, dict) else None
        if isinstance(answer, dict) and isinstance(answer.get("approved"), bool) and isinstance(answer.get("id"), str):
            reason = answer.get("reason")
            found.append(ChatAnswer(answer["id"], answer["approved"], reason if isinstance(reason, str) else ""))
    return found


def prompt_in(post: ChatPost, known: Sequence[str], *, is_new: bool) -> ChatPrompt:
    """Return what the agent is sent: the last message, and earlier ones of the user that never reached the agent.

    Args:
        post: What was posted; its last message is one of the user.
        known: The ids of the messages that were sent to the agent, in order.
        is_new: Whether the agent's session begins with this prompt.

    Raises:
        ChatRefusal: the messages are not those that the agent has seen. A session has one history, which only grows.
    """
    ids = [message.id for message in post.messages if message.role == "user" and message.id]
    last = post.messages[-1]
    if last.id and last.id in known:
        what = "answered again" if post.trigger == _REGENERATE else "changed or sent again"
        raise ChatRefusal(409, f"The agent has this message already; it cannot be {what}. Send a new one.")
    if is_new and any(message.role == "assistant" and message.parts for message in post.messages):
        raise ChatRefusal(409, "The agent does not know the earlier messages of this chat; begin a new chat.")
    _check_order(ids, known)
    unseen: list[ChatMessage] = []
    for message in reversed(post.messages):
        if message.role != "user" or (message.id and message.id in known):
            break
        unseen.insert(0, message)
    blocks = [block for message in unseen for block in prompt_blocks(message.parts)]
    if not blocks:
        raise ChatRefusal(400, "The message has neither text nor files.")
    return ChatPrompt(blocks, [message.id for message in unseen if message.id])


def _check_order(ids: Collection[str], known: Sequence[str]) -> None:
    """Refuse a changed history: an application may leave out the oldest messages, but not later ones."""
    places = [place for place, id in enumerate(known) if id in ids]
    if places and len(places) < len(known) - places[0]:
        raise ChatRefusal(409, "Messages that the agent has seen are missing in this chat; begin a new chat.")
