import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

from inventory import main


class Export(unittest.TestCase):
    def run_it(self, items, *words):
        file = Path(tempfile.mkdtemp()) / "items.json"
        if items is not None:
            file.write_text(json.dumps([{"name": name, "count": count} for name, count in items]))
        out, err = io.StringIO(newline=""), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(["--file", str(file), *words])
            except SystemExit as error:
                code = error.code
        return code, out.getvalue(), err.getvalue()

    def test_sorted(self):
        code, out, _ = self.run_it([("nuts", 2), ("bolts", 10)], "export", "--format", "csv")
        self.assertEqual((code, out), (0, "name,count\nbolts,10\nnuts,2\n"))

    def test_quoting(self):
        _, out, _ = self.run_it([('screws, 3 "mm"', 1)], "export", "--format", "csv")
        self.assertEqual(out, 'name,count\n"screws, 3 ""mm""",1\n')

    def test_nothing(self):
        for items in ([], None):
            code, out, err = self.run_it(items, "export", "--format", "csv")
            self.assertEqual((code, out), (1, ""))
            self.assertTrue(err.startswith("inventory: "), err)

    def test_usage(self):
        self.assertEqual(self.run_it([("a", 1)], "export", "--format", "xml")[0], 2)
        self.assertEqual(self.run_it([("a", 1)], "export")[0], 2)

    def test_the_others_still_work(self):
        self.assertEqual(self.run_it([("a", 1)], "list")[1], "a: 1\n")
