"""What an agent or a failure asks of the user, without a screen: open questions, forms, logins, failures in words."""
