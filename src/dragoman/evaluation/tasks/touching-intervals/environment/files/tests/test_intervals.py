import unittest

from intervals import gaps, merge, total
from report import rows


class Intervals(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(merge([]), [])

    def test_one(self):
        self.assertEqual(merge([(1, 2)]), [(1, 2)])

    def test_apart(self):
        self.assertEqual(merge([(1, 2), (4, 5)]), [(1, 2), (4, 5)])

    def test_overlapping(self):
        self.assertEqual(merge([(1, 4), (3, 6)]), [(1, 6)])

    def test_inside(self):
        self.assertEqual(merge([(1, 9), (3, 4)]), [(1, 9)])

    def test_unordered(self):
        self.assertEqual(merge([(5, 8), (1, 2)]), [(1, 2), (5, 8)])

    def test_equal(self):
        self.assertEqual(merge([(1, 2), (1, 2)]), [(1, 2)])

    def test_empty_interval(self):
        with self.assertRaises(ValueError):
            merge([(2, 2)])

    def test_total(self):
        self.assertEqual(total([(1, 4), (3, 6), (8, 9)]), 6)

    def test_gaps(self):
        self.assertEqual(gaps([(1, 2), (5, 6)]), [(2, 5)])

    def test_no_gap(self):
        self.assertEqual(gaps([(1, 4), (2, 6)]), [])

    def test_report(self):
        self.assertEqual(rows({"mon": [(9, 12), (12, 15)]}), ["mon  9-15"])


if __name__ == "__main__":
    unittest.main()
