import unittest

from ledger import Ledger


class Balance(unittest.TestCase):
    def test_all_accounts(self):
        ledger = Ledger()
        for number in range(0, 30_000):
            ledger.book(number, 1 + number % 7)
        wrong = [number for number in range(30_000) if ledger.balance(number) != 1 + number % 7]
        self.assertEqual(wrong, [])

    def test_sum(self):
        ledger = Ledger()
        ledger.book(20481, 5)
        ledger.book(20481, 6)
        self.assertEqual(ledger.balance(20481), 11)
