"""Where the socket of the local host is, for every program of one user.

Owns the order of candidates and what makes a folder trustworthy. Both sides compute the same list from the user's id,
so that a client with `XDG_RUNTIME_DIR` and a host without it still meet. The names carry a hash of the settings folder,
the data folder and the installation: a difference in one of them is another host. Makes a folder only in
`HostPlace.make`.
"""

import os
import sys

from dragoman.host.local.build import installation
from dragoman.settings.places import folder_name

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PATH_BYTES = 103 if sys.platform == "darwin" else 107
# A socket is bound under its name with ".PID" behind it, and pids have at most 7 digits.
_ROOM_BYTES = 8
RUN_USER = "/run/user"
TEMPORARY = "/tmp"
_OTHERS = 0o077
_TYPE, _FOLDER = 0o170000, 0o040000


class HostPlace:
    """The files of one host: socket, lock."""

    def __init__(self, folder: str, mark: str) -> None:
        """Name the files of a host.

        Args:
            folder: Where they are.
            mark: Eight characters that stand for the settings folder, the data folder and the installation.
        """
        self.folder = folder
        self.mark = mark

    @property
    def socket(self) -> str:
        return f"{self.folder}/host-{self.mark}.sock"

    @property
    def lock(self) -> str:
        return f"{self.folder}/host-{self.mark}.lock"

    def make(self) -> None:
        """Make the folder, for its owner only.

        Raises:
            PlaceRefused: it is there and not trustworthy, or cannot be made.
        """
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise PlaceRefused(f"{self.folder} cannot be made: {error.strerror}") from None
        why = why_not_private(self.folder)
        if why:
            raise PlaceRefused(f"{self.folder} {why}; another user may have made it: remove it, or set XDG_RUNTIME_DIR")


class PlaceRefused(Exception):
    """The folder of the socket cannot be trusted, or cannot be made."""


class HostPlaces:
    """All places where a host of this user may be, in the order in which they are tried."""

    def __init__(self, places: list[HostPlace], notes: list[str]) -> None:
        """Keep what was found.

        Args:
            places: At least one; a host is started in the first.
            notes: Sentences about settings of the environment that are not used.
        """
        self.places = places
        self.notes = notes

    @property
    def first(self) -> HostPlace:
        return self.places[0]


def find_places(
    environment: "Mapping[str, str] | None" = None,
    *,
    user: int | None = None,
    run_user: str = RUN_USER,
    temporary: str = TEMPORARY,
) -> HostPlaces:
    """Find the candidates; nothing is made.

    Args:
        environment: By default that of this program. `HOME` and `SUDO_USER` do not matter, the effective user does.
        user: By default the effective user.
        run_user: The folder with a runtime folder for each user.
        temporary: The folder for those without one.
    """
    env = os.environ if environment is None else environment
    uid = os.geteuid() if user is None else user
    resolved = [os.path.realpath(folder_name(name, env)) for name in ("config", "data")]  # however they are spelled
    mark = mark_of(*resolved, installation())
    folders, notes = [], []
    own = env.get("XDG_RUNTIME_DIR", "")
    if own:
        why = "is not an absolute path" if not os.path.isabs(own) else why_not_private(own, uid)
        if why:
            notes.append(f"XDG_RUNTIME_DIR is not used: {own} {why}")
        else:
            folders.append(f"{own.rstrip('/')}/dragoman")
    system = f"{run_user}/{uid}"
    if not why_not_private(system, uid):
        folders.append(f"{system}/dragoman")
    places = []
    for folder in dict.fromkeys(folders):
        place = HostPlace(folder, mark)
        if len(os.fsencode(place.socket)) + _ROOM_BYTES > MAX_PATH_BYTES:
            notes.append(f"{folder} is not used: its name is too long for a socket")
        else:
            places.append(place)
    places.append(HostPlace(f"{temporary}/dragoman-{uid}", mark))
    return HostPlaces(places, notes)


def mark_of(*texts: str) -> str:
    """Eight characters for some texts. Not for secrecy: what belongs to one user must only not be mixed."""
    from binascii import crc32

    return f"{crc32(os.fsencode(chr(0).join(texts))):08x}"


def why_not_private(folder: str, user: int | None = None) -> str:
    """Return why a folder is not one that only its owner can use, as the end of a sentence; empty if it is."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if found.st_mode & _TYPE != _FOLDER:
        return "is not a folder"
    if found.st_uid != (os.geteuid() if user is None else user):
        return f"belongs to the user {found.st_uid}"
    return f"is open to others (mode {found.st_mode & 0o777:o})" if found.st_mode & _OTHERS else ""
