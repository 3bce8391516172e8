import unittest

from ledger import Ledger

NOISE = "checked account {0:06}: in balance, nothing to do, next account is {1:06}, which was opened in the same year as this one"


class Balance(unittest.TestCase):
    def test_all_accounts(self):
        ledger = Ledger()
        for number in range(40_000):
            print(NOISE.format(number, number + 1))
            ledger.book(number, number % 97)
            if ledger.balance(number) != number % 97:
                print(f"WRONG BALANCE: account {number} has {ledger.balance(number)} instead of {number % 97}")
        self.assertEqual(ledger.wrong, [])
