import asyncio
import random
import unittest

from relay import Relay


async def confirm(item):
    for _ in range(random.randrange(3)):
        await asyncio.sleep(0)


class Relayed(unittest.TestCase):
    def test_order(self):
        async def main():
            relay = Relay(confirm)
            for number in range(5):
                relay.put(number)
            return [await relay.get() for _ in range(5)]

        self.assertEqual(asyncio.run(main()), [0, 1, 2, 3, 4])

    def test_nothing_is_lost(self):
        async def main():
            relay = Relay(confirm)
            relay.put("a")
            reader = asyncio.ensure_future(relay.get())
            await asyncio.sleep(0)
            reader.cancel()
            try:
                return await reader
            except asyncio.CancelledError:
                return await asyncio.wait_for(relay.get(), 1)

        self.assertEqual(asyncio.run(main()), "a")
