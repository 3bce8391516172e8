import tempfile
import unittest
from pathlib import Path

import app
from config import parser


class Cached(unittest.TestCase):
    def test_one_parse_per_load(self):
        file = Path(tempfile.mkdtemp()) / "app.conf"
        file.write_text("name = Ada\nlimit = 3\n")
        before = parser.calls
        app.reload(file)
        file.write_text("name = Eve\nlimit = 9\n")
        for _ in range(50):
            app.greeting()
            app.check_free(1)
        self.assertEqual(parser.calls - before, 1)
        self.assertEqual(app.greeting(), "Hello Ada, 3 left")
