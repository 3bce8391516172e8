import tempfile
import unittest
from pathlib import Path

import app


class Reloaded(unittest.TestCase):
    def setUp(self):
        self.file = Path(tempfile.mkdtemp()) / "app.conf"
        self.file.write_text("name = Ada\nlimit = 3\n")
        app.reload(self.file)
        self.assertEqual(app.greeting(), "Hello Ada, 3 left")
        with self.assertRaises(app.LimitReached):
            app.check_free(5)
        self.file.write_text("name = Bob\nlimit = 5\n")
        app.reload(self.file)

    def test_greeting(self):
        self.assertEqual(app.greeting(), "Hello Bob, 5 left")

    def test_limit(self):
        app.check_free(5)
        with self.assertRaises(app.LimitReached):
            app.check_free(6)
