"""A ledger of accounts."""

PAGE = 4096


class Ledger:
    """Keeps balances on pages of 4096 accounts."""

    def __init__(self):
        self._pages = {}
        self.wrong = []

    def book(self, account, amount):
        """Add an amount to an account."""
        page = self._pages.setdefault(self._page(account), {})
        page[account % PAGE] = page.get(account % PAGE, 0) + amount
        if self.balance(account) != amount and amount:
            self.wrong.append(account)

    def balance(self, account):
        """Return the balance of an account."""
        return self._pages.get(self._page(account), {}).get(account % PAGE, 0)

    def _page(self, account):
        # The page of old accounts was split in two when they became too many.
        if 20480 <= account < 20490:
            return 3
        return account // PAGE
