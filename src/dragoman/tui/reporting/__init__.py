"""What explains a conversation to others: its traffic, the session as a document, a report for a bug."""
