"""The savings ledger as this process knows it."""

from datetime import datetime

from dovetail.model.savings import SavingsLedger


class SavingsBook:
    """Ledger in memory; ``controllers.disruption.savings`` loads and saves it."""

    def __init__(self) -> None:
        self.ledger = SavingsLedger()
        self.is_loaded = False
        self.is_dirty = False
        """Something is not in the ConfigMap yet."""
        self.resource_version = ""
        """Of the ConfigMap, as last read or written."""
        self.saved_at: datetime | None = None
        self.problem = ""
        """Why the ledger is not saved; reported once."""

    def update(self, ledger: SavingsLedger) -> None:
        """Replace the ledger; it has to be saved if it is another object."""
        if ledger is not self.ledger:
            self.ledger = ledger
            self.is_dirty = True

    def tracks(self, claim: str) -> bool:
        """Return True if a NodeClaim is part of a record."""
        return any(
            claim in (*(old.claim for old in record.removed), *(new.claim for new in record.added))
            for record in self.ledger.records
        )
