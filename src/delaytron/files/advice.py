"""What the system says of a file that cannot be read or written, and what to do about it."""

import errno

NO_RIGHT = "check the rights of the file and of its folder"
ROOM = "make room, then try again"
OTHERWISE = "check the disk, then try again"
STEPS = {
    errno.EACCES: NO_RIGHT,
    errno.EDQUOT: ROOM,
    errno.EISDIR: "give the path of a file",
    errno.ELOOP: "give the path of a file",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOENT: "check the path, and that its folder is there",
    errno.ENOSPC: ROOM,
    errno.ENOTDIR: "check the path: what should be a folder is a file",
    errno.EPERM: NO_RIGHT,
    errno.EROFS: "give a path on a disk that can be written",
}


def with_advice(problem: OSError) -> str:
    """Return the message of the system with the next step, without the path.

    Examples
    --------
    >>> with_advice(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device; make room, then try again'
    """
    said = str(problem.strerror or problem)
    if said.endswith((*STEPS.values(), OTHERWISE)):  # told once
        return said
    return f"{said}; {STEPS.get(problem.errno or 0, OTHERWISE)}"
