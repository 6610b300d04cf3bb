"""Where this package keeps files of the user that can be had again."""

import os
import sys
from pathlib import Path


def cache_home() -> Path:
    """Return the user's folder of this package's downloads, where each system has such folders; it need not exist."""
    given = os.environ.get("XDG_CACHE_HOME", "").strip()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(local) / "delaytron" / "delaytron" / "Cache"
    if given:
        return Path(given) / "delaytron"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "delaytron"
