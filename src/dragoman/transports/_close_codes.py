"""The codes of ours with which a WebSocket is closed, so that a page sees why its line is over."""

from __future__ import annotations

from typing import Final

ENDED: Final = 4401
"""The token was revoked or has expired, or the device was removed: the client has to be paired again."""
REFUSED: Final = 4403
"""What the client asked for with its upgrade is not for it."""
BEHIND: Final = 4408
"""The client did not read what it was sent; it may come back and resume."""
TOO_OFTEN: Final = 4429
"""The client has too many connections; it may come back later."""
DRAINING: Final = 4503
"""The host ends, or is replaced; the client may come back to the next one."""
