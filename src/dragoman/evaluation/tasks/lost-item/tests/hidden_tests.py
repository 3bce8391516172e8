import asyncio
import unittest

from relay import Relay


async def one(steps, cancel_after):
    confirmed = []

    async def confirm(item):
        for _ in range(steps):
            await asyncio.sleep(0)
        confirmed.append(item)

    relay = Relay(confirm)
    relay.put("a")
    relay.put("b")
    got = []
    reader = asyncio.ensure_future(relay.get())
    for _ in range(cancel_after):
        await asyncio.sleep(0)
    reader.cancel()
    try:
        got.append(await reader)
    except asyncio.CancelledError:
        pass
    while len(got) < 2:
        got.append(await asyncio.wait_for(relay.get(), 0.5))
    return got


class Hidden(unittest.TestCase):
    def test_cancelled_at_any_point(self):
        async def main():
            for number in range(200):
                self.assertEqual(await one(number % 5, number % 8), ["a", "b"], number)

        asyncio.run(main())

    def test_waiting_reader_gets_what_another_gave_back(self):
        async def main():
            gate = asyncio.Event()

            async def confirm(item):
                await gate.wait()

            relay = Relay(confirm)
            first = asyncio.ensure_future(relay.get())
            second = asyncio.ensure_future(relay.get())
            await asyncio.sleep(0)
            relay.put("a")
            await asyncio.sleep(0.01)
            first.cancel()
            second_done = asyncio.ensure_future(asyncio.wait_for(second, 1))
            gate.set()
            done = [await each for each in (second_done,)]
            return done

        self.assertEqual(asyncio.run(main()), ["a"])
