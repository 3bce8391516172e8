import unittest

from intervals import gaps, merge, total
from report import rows


class Hidden(unittest.TestCase):
    def test_touching(self):
        self.assertEqual(merge([(1, 2), (2, 3), (3, 7)]), [(1, 7)])

    def test_touching_has_no_gap(self):
        self.assertEqual(gaps([(1, 2), (2, 3)]), [])
        self.assertEqual(total([(1, 2), (2, 3)]), 2)

    def test_report_keeps_what_is_apart(self):
        self.assertEqual(rows({"tue": [(8, 9), (9, 10), (12, 13)]}), ["tue  8-10", "tue  12-13"])
