import unittest

from messages import MESSAGES


class Messages(unittest.TestCase):
    def test_texts(self):
        self.assertEqual(
            MESSAGES,
            {
                "sent": "Your order is on its way.",
                "confirmed": "You will receive a message when it arrives.",
                "failed": "We did not receive your payment.",
            },
        )
