import unittest
from decimal import Decimal

from pricing import price


class Prices(unittest.TestCase):
    def test_price(self):
        self.assertEqual(price("10.00", "0.19"), Decimal("11.90"))
