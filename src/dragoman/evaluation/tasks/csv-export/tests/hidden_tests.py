import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


class Export(unittest.TestCase):
    def run_it(self, items, *words):
        file = Path(tempfile.mkdtemp()) / "items.json"
        if items is not None:
            file.write_text(json.dumps([{"name": name, "count": count} for name, count in items]))
        return subprocess.run([sys.executable, "-B", "inventory.py", "--file", str(file), *words], capture_output=True)

    def test_sorted(self):
        done = self.run_it([("nuts", 2), ("bolts", 10)], "export", "--format", "csv")
        self.assertEqual((done.returncode, done.stdout), (0, b"name,count\nbolts,10\nnuts,2\n"))

    def test_quoting(self):
        done = self.run_it([('screws, 3 "mm"', 1)], "export", "--format", "csv")
        self.assertEqual(done.stdout, b'name,count\n"screws, 3 ""mm""",1\n')

    def test_nothing(self):
        for items in ([], None):
            done = self.run_it(items, "export", "--format", "csv")
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertTrue(done.stderr.startswith(b"inventory: "), done.stderr)

    def test_usage(self):
        self.assertEqual(self.run_it([("a", 1)], "export", "--format", "xml").returncode, 2)
        self.assertEqual(self.run_it([("a", 1)], "export").returncode, 2)

    def test_the_others_still_work(self):
        self.assertEqual(self.run_it([("a", 1)], "list").stdout, b"a: 1\n")
