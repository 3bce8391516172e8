"""Cards and screens that wait for the user: permissions, forms, logins, failures. Read `card.py` first."""
