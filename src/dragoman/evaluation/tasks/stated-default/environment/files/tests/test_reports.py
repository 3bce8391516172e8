import unittest

from reports import report_name


class Names(unittest.TestCase):
    def test_title(self):
        self.assertIn("sales-2", report_name("Sales 2"))
