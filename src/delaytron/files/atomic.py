"""Files that survive a crash."""

import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np


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


def replace_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as a compressed .npz file, in the same way; make its folder if there is none."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())
