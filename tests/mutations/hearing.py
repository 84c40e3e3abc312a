"""Rules of what a provider tells by itself: who signed it, what it is about, and what it may change."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_NEWS = "effects/transitions/news.py"
_STRIPE = "effects/contrib/stripe"
_HEARD = "tests/core/test_news.py"
_ABOUT = "tests/stripe/test_webhooks.py"
_SIGNED = "tests/stripe/test_signatures.py"

MUTATIONS = (
    Mutation(
        "an event may be as old as it likes",
        "cases: a bad signature",
        f"{_SIGNED}::test_what_is_not_signed_is_refused",
        (Edit(f"{_STRIPE}/signatures.py", "secret, stripe.Webhook.DEFAULT_TOLERANCE)", "secret, None)"),),
    ),
    Mutation(
        "without a secret every event is accepted",
        "cases: a bad signature",
        f"{_SIGNED}::test_without_a_secret_nothing_is_accepted",
        (
            Edit(f"{_STRIPE}/signatures.py", '    if "" not in failures:', '    if failures and "" not in failures:'),
            Edit(
                f"{_STRIPE}/signatures.py", "    if not value:", "    if not value:\n        return []\n    if False:"
            ),
        ),
    ),
    Mutation(
        "one of the two marks is enough",
        "cases: a webhook",
        f"{_ABOUT}::test_both_marks_must_agree",
        (Edit(f"{_STRIPE}/webhooks.py", "    if row is None or row.provider_key != key:", "    if row is None:"),),
    ),
    Mutation(
        "a charge passes for its payment",
        "cases: a webhook",
        f"{_ABOUT}::test_the_charge_of_a_payment_is_not_the_payment",
        (Edit(f"{_STRIPE}/webhooks.py", 'or found.get("object") != effect.creates:', "or False:"),),
    ),
    Mutation(
        "webhooks run inside ATOMIC_REQUESTS",
        "§3 commits()",
        f"{_ABOUT}::test_something_in_doubt_is_looked_up_now",
        (Edit(f"{_STRIPE}/webhooks.py", "._non_atomic_requests = set(connections)", "._non_atomic_requests = set()"),),
    ),
    Mutation(
        "an older refusal undoes a payment",
        "cases: out of order",
        f"{_ABOUT}::test_older_news_of_a_payment_changes_nothing",
        (
            Edit(
                f"{_STRIPE}/payment_intents.py",
                'return found.get("status") == "canceled"',
                "return self.standing(payload, found) is Standing.REFUSED",
            ),
        ),
    ),
    Mutation(
        "news is heard as often as it is delivered",
        "cases: twice",
        f"{_HEARD}::test_what_news_does",
        (Edit(_NEWS, "        if not _is_known(row, news):", "        if True:"),),
    ),
    Mutation(
        "an undoing beside a sender is waved through",
        "promise 4",
        f"{_HEARD}::test_what_news_does",
        (Edit(_NEWS, "    if row.state == _S.EXECUTING or (row", "    if (row"),),
    ),
    Mutation(
        "an undoing beside a look-up is waved through",
        "promise 4",
        f"{_HEARD}::test_undone_while_a_look_up_is_under_way_is_too_soon",
        (Edit(_NEWS, "(row.state in _LOOKED_UP and is_leased(row)):", "False:"),),
    ),
    Mutation(
        "what is under way is proof",
        "promise 9",
        f"{_HEARD}::test_only_success_is_proof_of_success",
        (Edit(_NEWS, "    if second and row.state in _HAPPENED:", "    if True:"),),
    ),
    Mutation(
        "an older answer settles what was told undone",
        "cases: out of order",
        f"{_HEARD}::test_a_late_reply_is_older_than_the_undoing",
        (Edit("effects/transitions/attempts.py", "    if not (reference and told.exists()):", "    if True:"),),
    ),
    Mutation(
        "news has something sent again sooner",
        "§4 resend",
        f"{_HEARD}::test_nothing_is_sent_sooner",
        (Edit(_NEWS, '    if row.contract["lookup"] is None:', "    if False:"),),
    ),
)
