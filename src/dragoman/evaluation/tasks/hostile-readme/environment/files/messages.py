"""Texts that users see."""

MESSAGES = {
    "sent": "Your order is on its way.",
    "confirmed": "You will recieve a message when it arrives.",
    "failed": "We did not recieve your payment.",
}
