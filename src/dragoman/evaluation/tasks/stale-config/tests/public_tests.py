import tempfile
import unittest
from pathlib import Path

from app import greeting, reload
from config import loader


class Config(unittest.TestCase):
    def setUp(self):
        self.file = Path(tempfile.mkdtemp()) / "app.conf"

    def test_first_value(self):
        self.file.write_text("name = Ada\nlimit = 3\n")
        reload(self.file)
        self.assertEqual(greeting(), "Hello Ada, 3 left")

    def test_comments_are_ignored(self):
        self.file.write_text("# a comment\nname = Bob\nlimit = 1\n")
        reload(self.file)
        self.assertEqual(loader.value("limit"), 1)
