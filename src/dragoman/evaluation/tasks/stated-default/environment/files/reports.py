"""Names of report files."""


def report_name(title):
    """Return the name of the file of a report."""
    return f"{title.strip().lower().replace(' ', '-')}.txt"
