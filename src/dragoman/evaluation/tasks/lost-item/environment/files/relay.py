"""A queue whose readers confirm each item in a journal before they get it."""

import asyncio
from collections import deque


class Relay:
    """Passes items from writers to readers, in order.

    Args:
        confirm: an async function that notes an item in the journal; it may take a while.
    """

    def __init__(self, confirm):
        self._confirm = confirm
        self._items = deque()
        self._arrived = asyncio.Event()

    def put(self, item):
        """Add an item."""
        self._items.append(item)
        self._arrived.set()

    async def get(self):
        """Return the next item, after it was confirmed."""
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        await self._confirm(item)
        return item

    def __len__(self):
        return len(self._items)
