"""Sweeps, one file each: `run_once(batch) -> counts`.

A sweep takes a bounded SKIP LOCKED batch of due rows, oldest first, pushes their due times forward in the same commit,
and hands each to the verb that knows what to do. One bad row stops no other. Lost, doubled, late or reordered runs
change nothing: the row is the truth.
"""

from effects.sweeps import (
    expire_approvals,
    expire_leases,
    look_up_due,
    prune,
    run_due,
    run_hooks,
    send_notices,
    settle_requests,
)

__all__ = [
    "LONG",
    "SWEEPS",
    "expire_approvals",
    "expire_leases",
    "look_up_due",
    "prune",
    "run_due",
    "run_hooks",
    "send_notices",
    "settle_requests",
]

#: Name of the sweep → its module, in the order in which one pass runs them.
SWEEPS = {
    module.NAME: module
    for module in (
        expire_leases,
        expire_approvals,
        look_up_due,
        run_due,
        run_hooks,
        settle_requests,
        send_notices,
        prune,
    )
}
#: The sweeps that run the project's code, as long as that takes → whether one has anything to do.
LONG = {module.NAME: module.is_due for module in (run_hooks, settle_requests, send_notices)}
