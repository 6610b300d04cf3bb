"""Files that survive a crash."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write so that after a crash there is the old file or the new one, and never half of one.

    The content is brought to the disk beside the file, then put in its place.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
