import unittest
from datetime import UTC, datetime, timedelta, timezone

from reports import report_name


class Names(unittest.TestCase):
    def test_utc(self):
        late = datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
        self.assertEqual(report_name("Sales 2", now=late), "2025-12-31-sales-2.txt")

    def test_today(self):
        before = datetime.now(UTC).strftime("%Y-%m-%d")
        name = report_name("a")
        after = datetime.now(UTC).strftime("%Y-%m-%d")
        self.assertIn(name, (f"{before}-a.txt", f"{after}-a.txt"))
