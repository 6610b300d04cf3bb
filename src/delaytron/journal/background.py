"""The commits of a store that does not wait for them."""

from threading import Lock, Thread
from time import sleep

from delaytron.errors import JournalError
from delaytron.journal.batches import Transactions
from delaytron.journal.group import SECONDS, GroupCommit


class BackgroundCommit(GroupCommit):
    """Batches whose members return at once; a thread commits each 50 ms after it began, at the latest."""

    def __init__(self, database: Transactions, name: str) -> None:
        super().__init__(database, name, lazy=True)
        self._sleeps = Lock()  # held by the thread as long as there is nothing to commit
        self._sleeps.acquire()
        self._stopping = False
        self._thread = Thread(target=self._run, name="delaytron journal", daemon=True)
        self._thread.start()

    def began(self) -> None:
        """Wake the thread."""
        if self._sleeps.locked():
            self._sleeps.release()

    def _run(self) -> None:
        while not self._stopping:
            self._sleeps.acquire()
            sleep(0 if self._stopping else SECONDS)
            self._commit_now()

    def _commit_now(self) -> None:
        try:
            if self.is_open:
                with self.batch(force=True):
                    pass
        except JournalError:
            pass  # the next caller is told

    def close(self, reason: str) -> None:
        """End the thread, then commit what is open."""
        self._stopping = True
        self.began()
        self._thread.join()
        super().close(reason)
