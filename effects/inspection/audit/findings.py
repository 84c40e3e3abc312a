"""What the audit can find, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODES", "Code", "Finding"]


@dataclass(frozen=True)
class Code:
    """One kind of finding: what it means for the outside world, and what to do."""

    meaning: str
    fix: str


_FORENSICS = (
    "Somebody wrote to the journal past its verbs, or it is a bug of ours. Find out who, compare with a backup and "
    "with the provider's ledger, and do not settle the row before."
)
_SWEEPS = "Are beat and the workers alive? `manage.py effects_sweep` does what is due, and says what raises."

#: Code → what it means and what to do. The codes are frozen: alerts and scripts depend on them.
CODES: dict[str, Code] = {
    # receipts and row
    "receipts_gap": Code("The sequence of receipts is not 1, 2, 3 …: evidence is missing.", _FORENSICS),
    "receipts_edge": Code("A receipt tells a step that the table of edges does not allow.", _FORENSICS),
    "receipts_chain": Code("A receipt does not go on from the one before it.", _FORENSICS),
    "receipts_end": Code("The row is not what its newest receipt says.", _FORENSICS),
    "receipts_count": Code("The row counts other receipts than there are.", _FORENSICS),
    "receipt_altered": Code("A receipt is not as it was written.", _FORENSICS),
    # what receipts tell
    "row_altered": Code("A column of the row is not as its receipts left it.", _FORENSICS),
    "due_altered": Code("It is due at another time than its receipts say: too early, too late or never.", _FORENSICS),
    "lease_altered": Code("Its lease ends at another time than its receipts say.", _FORENSICS),
    "hook_altered": Code(
        "Its settled hook is due, or is not, against what its receipts say: the project's own rows may be missing.",
        _FORENSICS,
    ),
    "answer_altered": Code("The stored answer's bytes are not those that were sent.", _FORENSICS),
    "attempt_altered": Code("An attempt is missing, made up, or not as its receipts left it.", _FORENSICS),
    "approval_altered": Code("An approval is missing, made up, or not as its receipts left it.", _FORENSICS),
    "vote_altered": Code("A vote is missing, made up, or not as it was given.", _FORENSICS),
    "vote_by_requester": Code("Somebody voted who had asked for it, and its rule demands four eyes.", _FORENSICS),
    "resolution_altered": Code("A person's decision is missing, made up, or not as it was taken.", _FORENSICS),
    "link_altered": Code(
        "The link of a request and an execution is missing, made up, or not as its receipts say.", _FORENSICS
    ),
    # contents
    "payload_digest": Code("The payload is not the one that was recorded.", _FORENSICS),
    "tombstone": Code("What retention dropped of it, and what its receipts say of that, do not agree.", _FORENSICS),
    "summary_digest": Code("What people are shown is not what was recorded.", _FORENSICS),
    "binding": Code("The binding is not the one of the row's key: a retry does not find the row.", _FORENSICS),
    "provider_key": Code("The provider's key is not the one of the row's key: deduplication is lost.", _FORENSICS),
    # attempts
    "attempts_numbers": Code("The attempts are not numbered 1 to n: one is missing or was made up.", _FORENSICS),
    "attempts_count": Code("The row counts other attempts than there are.", _FORENSICS),
    "attempts_open": Code("The attempts that are open do not fit the row's state.", _FORENSICS),
    "attempts_contents": Code("An attempt was permitted under another provider key or payload.", _FORENSICS),
    "completed_without_proof": Code(
        "It counts as completed, and neither an attempt, nor a look-up, nor a person says so.", _FORENSICS
    ),
    "nothing_despite_proof": Code(
        "Its state says that nothing happened, and proof of success is on file.",
        "Look at the provider's ledger, then hand the proof in: effects.observe(ref, …) makes it a person's.",
    ),
    # licences
    "approval_spent_twice": Code("A single-use approval licensed more than one send.", _FORENSICS),
    "approval_digest": Code("What was sent, or would be, is not what people approved.", _FORENSICS),
    "approval_quorum": Code("An approval was used with fewer votes than its quorum.", _FORENSICS),
    "approval_orphan": Code("An approval and its execution do not fit together.", _FORENSICS),
    "attempt_unlicensed": Code("Something was sent without the approval that it demands.", _FORENSICS),
    # promptness
    "lease_overrun": Code("Its lease is long past and nobody took it over.", _SWEEPS),
    "overdue": Code("It has been due for long, and nobody did it.", _SWEEPS),
    "never_due": Code(
        "It is unsettled and no sweep will ever look at it.",
        "A bug of ours, or a write past the verbs. Ask for it by hand in the console: look up, resolve or cancel.",
    ),
    "approval_overdue": Code("An approval is past its time and did not expire.", _SWEEPS),
    "hook_overdue": Code("The project's own rows of a settled execution are missing for long.", _SWEEPS),
    "notice_overdue": Code("People were not told of something for long (`NOTIFY`).", _SWEEPS),
    "sweep_stopped": Code("Something is due, and the sweep that does it gave no sign of life for long.", _SWEEPS),
    "heartbeat_ahead": Code(
        "A sweep was seen at a time that has not come: it may have stopped, and nobody would be told.", _FORENSICS
    ),
    "notice_altered": Code(
        "What people are to be told does not follow from its key, its approval and a receipt.", _FORENSICS
    ),
    # links
    "elder_unfit": Code(
        "It took over the key of an execution that still holds it, or that was neither failed nor rejected.", _FORENSICS
    ),
    "key_abandoned": Code("It gave its key away, and no successor has it: the key could be sent anew.", _FORENSICS),
    "request_ended_early": Code(
        "The request has ended while an execution that holds its answer is unsettled.", _FORENSICS
    ),
    "request_waits_for_nothing": Code(
        "The request waits, and no execution holds its answer.", "Close it in the console, by a person's decision."
    ),
    "request_released_with_send": Code(
        "The request's key is free, and something of it was or can be sent: a retry would do it again.", _FORENSICS
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one row."""

    code: str
    kind: str
    ref: str
    wrong: str

    @property
    def fix(self) -> str:
        """What to do about it."""
        return CODES[self.code].fix

    def as_json(self) -> dict[str, str]:
        """Return it as programs read it."""
        return {"code": self.code, "kind": self.kind, "ref": self.ref, "wrong": self.wrong, "fix": self.fix}
