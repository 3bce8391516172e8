import tempfile
import unittest
from pathlib import Path

from inventory import load, main


class Inventory(unittest.TestCase):
    def setUp(self):
        self.file = str(Path(tempfile.mkdtemp()) / "items.json")

    def test_add_and_remove(self):
        self.assertEqual(main(["--file", self.file, "add", "screws", "3"]), 0)
        self.assertEqual(main(["--file", self.file, "add", "screws"]), 0)
        self.assertEqual(load(self.file), [{"name": "screws", "count": 4}])
        self.assertEqual(main(["--file", self.file, "remove", "screws"]), 0)
        self.assertEqual(main(["--file", self.file, "remove", "screws"]), 1)
