"""A key typed on the full screen: a masked field, the verdict of its provider, and where the key goes then.

Owns the field. What is typed is in this field only: not in the prompt, its history, its drafts or the log. A key that
is refused leaves the field empty; one that could not be checked is stored only after a second Enter, which counts once
the question was in sight for a moment.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dragoman.errors import DragomanError
from dragoman.text.visible import label
from dragoman.tui.questions.logins import OwnKey, use_key
from dragoman.tui.screen.parts import LeftOnce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult

    from dragoman.builtin.models.providers import Provider
    from dragoman.client.login import LoginMethod
    from dragoman.tui.screen.app import TerminalApp

SIGHT_SECONDS: Final = 0.4
_HELP: Final = "Enter: check and store   Esc: back"
_UNCHECKED: Final = "Enter: store it unchecked   Esc: back"


class KeyEntry(LeftOnce[bool], ModalScreen[bool]):
    """A masked field for a key. Its result is True if the key was stored, or taken by the agent.

    Args:
        provider: whose key it is, and who is asked about it; None if that is not known, and the key is not checked.
        title: who wants it, if that is not the provider alone.
        keep: what is done with the key, and returns a sentence; by default it is stored for the built-in agent.
    """

    DEFAULT_CSS = """
    KeyEntry { align: center middle; }
    KeyEntry Input { width: 90%; border: round; }
    KeyEntry Static { width: 90%; height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "leave", "back")]

    def __init__(
        self, provider: Provider | None, *, title: str = "", keep: Callable[[str], Awaitable[str]] | None = None
    ) -> None:
        super().__init__()
        self._provider = provider
        self._title = title or (f"API key of {provider.title}" if provider is not None else "the key")
        self._keep = keep or self._store
        self._unchecked = ""
        self._asked_at = 0.0
        self._is_busy = False
        self.clock: Callable[[], float] = monotonic
        self.sentence = ""
        """What became of the key, for a note."""

    def compose(self) -> ComposeResult:
        field = Input(password=True)
        field.border_title = Text(f"{self._title} (it is not shown)")
        yield field
        yield Static(_HELP)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Store nothing."""
        _ = self.dismiss(False)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        key = event.value.strip()
        if self._is_busy:
            return
        if self._unchecked and key == self._unchecked:
            if self.clock() - self._asked_at >= SIGHT_SECONDS:
                self._run(self._put_away(key))
            return
        self._run(self._check(key))

    def _run(self, work: Any) -> None:
        self._is_busy = True
        _ = self.run_worker(work, exit_on_error=True)

    async def _check(self, key: str) -> None:
        from dragoman.builtin.typed_key import KeyVerdict, check_key

        self._unchecked = ""
        if self._provider is None:
            verdict = KeyVerdict("unchecked" if key else "malformed", "no key was given")
        else:
            self._show(f"asking {self._provider.title}")
            verdict = await check_key(self._provider, key)
        if verdict.may_be_stored:
            await self._put_away(key)
        elif verdict.outcome == "unreachable":
            self._unchecked, self._asked_at = key, self.clock()
            self._ask_again(f"the key could not be checked: {verdict.sentence}", _UNCHECKED)
        else:
            self.query_one(Input).value = ""
            self._ask_again(f"nothing was stored: {verdict.sentence}", _HELP)

    async def _put_away(self, key: str) -> None:
        try:
            self.sentence = await self._keep(key)
        except (DragomanError, OSError) as error:
            self._ask_again(str(error), _HELP)
        else:
            _ = self.dismiss(True)

    async def _store(self, key: str) -> str:
        from dragoman.builtin.typed_key import store_key

        assert self._provider is not None
        return await asyncio.to_thread(store_key, self._provider, key)

    def _ask_again(self, why: str, keys: str) -> None:
        self._is_busy = False
        self._show(why, keys)

    def _show(self, *lines: str) -> None:
        self.query_one(Static).update(Text("\n".join(label(line, 400) for line in lines)))


class ProviderChoice(LeftOnce["Provider | None"], ModalScreen["Provider | None"]):
    """The providers whose key can be stored: the frequent ones, and those that the typed letters name."""

    DEFAULT_CSS = """
    ProviderChoice { align: center middle; }
    ProviderChoice Input { width: 90%; border: round; }
    ProviderChoice OptionList { width: 90%; max-height: 60%; border: round; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "leave", "back"),
        Binding("down", "move(1)", "next", priority=True),
        Binding("up", "move(-1)", "previous", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Provider] = []
        self._shows_all = False

    def compose(self) -> ComposeResult:
        field = Input(placeholder="type a part of its name")
        field.border_title = Text("whose key do you want to store?")
        yield field
        yield OptionList()

    def on_mount(self) -> None:
        self._fill("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def _fill(self, typed: str) -> None:
        from dragoman.builtin.typed_key import FREQUENT, providers_named, ranked_providers

        ranked = ranked_providers()
        is_short = not typed.strip() and not self._shows_all
        self._rows = providers_named(typed) if typed.strip() else ranked[: FREQUENT if is_short else None]
        rows = self.query_one(OptionList)
        rows.clear_options()
        rows.add_options(Option(Text(f"{provider.id:12}  {provider.title}")) for provider in self._rows)
        if is_short and len(ranked) > FREQUENT:
            rows.add_option(Option(Text(f"more: {len(ranked) - FREQUENT} others")))
        rows.highlighted = 0 if rows.option_count else None

    def action_move(self, step: int) -> None:
        """Choose the row above or below."""
        rows = self.query_one(OptionList)
        if rows.option_count:
            rows.highlighted = ((rows.highlighted or 0) + step) % rows.option_count

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        row = self.query_one(OptionList).highlighted
        if row is not None:
            self._take(row)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._take(event.option_index)

    def _take(self, row: int) -> None:
        if row < len(self._rows):
            _ = self.dismiss(self._rows[row])
        else:
            self._shows_all = True
            self._fill("")

    def action_leave(self) -> None:
        """Choose none."""
        _ = self.dismiss(None)


async def ask_key(app: TerminalApp, method: LoginMethod) -> bool:
    """Ask for the key of a login method, and use it; False if the user gave none."""
    from dragoman.builtin.models.providers import PROVIDERS

    variable = method.variables[0] if method.kind == "environment" else ""
    by_variable = next((known for known in PROVIDERS.values() if variable and variable in known.keys), None)
    provider = PROVIDERS.get(method.provider) or by_variable
    if isinstance(method, OwnKey):
        if provider is None:
            provider = await _answer_of(app, ProviderChoice())
        if provider is None:
            return False
        entry = KeyEntry(provider)
    else:

        async def keep(key: str) -> str:
            return await use_key(app.conversation, method, key)

        agent = label(app.conversation.agent, 40, "the agent")
        entry = KeyEntry(provider, title=f"{label(method.name, 60)}, for {agent}", keep=keep)
    entry.clock = app.cards.clock
    is_kept = bool(await _answer_of(app, entry))
    if is_kept:
        app.note(entry.sentence)
    return is_kept


async def _answer_of(app: TerminalApp, screen: ModalScreen[Any]) -> Any:
    """Show a screen and return its result. The task that asks is not a worker of Textual."""
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(found: Any) -> None:
        if not result.done():
            result.set_result(found)

    _ = app.push_screen(screen, settle)
    return await result
