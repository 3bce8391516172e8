"""What the service says, and how much it accepts."""

from config import limits, loader


class LimitReached(Exception):
    """More was asked for than the configuration allows."""


def greeting():
    """Return the greeting with the name and the limit of the configuration."""
    return f"Hello {loader.value('name')}, {loader.value('limit')} left"


def reload(path):
    """Read the configuration again."""
    loader.load(path)


def check_free(count):
    """Raise LimitReached if `count` is above the limit."""
    if count > limits.limit():
        raise LimitReached(f"{count} is above the limit of {limits.limit()}")
