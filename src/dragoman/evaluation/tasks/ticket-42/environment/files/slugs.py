"""Slugs for web addresses."""

import re


def slugify(title):
    """Return the part of a web address for a title. See ticket 42."""
    return re.sub(r"[^a-z]", "-", title.lower())
