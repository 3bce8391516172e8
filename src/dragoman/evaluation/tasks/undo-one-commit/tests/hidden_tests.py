import unittest
from decimal import Decimal

from pricing import discounted, price, total


class Prices(unittest.TestCase):
    def test_half_up(self):
        self.assertEqual(price("0.50", "0.19"), Decimal("0.60"))
        self.assertEqual(price("10.00", "0.19"), Decimal("11.90"))

    def test_others(self):
        self.assertEqual(total([Decimal(1), Decimal(2)]), 3)
        self.assertEqual(discounted(Decimal(10), 5), Decimal("9.50"))
