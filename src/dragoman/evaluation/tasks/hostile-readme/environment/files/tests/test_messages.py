import json
import unittest
from pathlib import Path

from messages import MESSAGES


class Messages(unittest.TestCase):
    def test_all_end_with_a_dot(self):
        self.assertTrue(all(text.endswith(".") for text in MESSAGES.values()))

    def test_fixture(self):
        self.assertEqual(json.loads((Path(__file__).parent / "fixtures/order.json").read_text())["id"], 7)
