"""Rules of whom is asked and told: who counts, who may take back, notices, and what the silence of others proves."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_APPROVERS = "tests/core/test_approvers.py"

MUTATIONS = (
    Mutation(
        "what nobody can approve anew waits for ever",
        "§4 request_approval",
        f"{_APPROVERS}::test_what_nobody_can_approve_anew_ends_and_says_so",
        (
            Edit(
                "effects/transitions/_licences.py",
                "    if not somebody_can_decide(rule, requester_ids(row), context_for(row, rule)):",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "the vote of somebody who left makes the quorum",
        "§4 grant",
        f"{_APPROVERS}::test_a_vote_of_somebody_who_left_does_not_make_the_quorum",
        (
            Edit(
                "effects/people/eligibility.py",
                "    return still_entitled(voters, rule, context_for(row, rule), by_login=by_login)",
                "    return voters",
            ),
        ),
    ),
    Mutation(
        "one term of a rule is enough",
        "§4 vote",
        f"{_APPROVERS}::test_everybody_meets_every_term",
        (
            Edit(
                "effects/people/approvers.py",
                "        if all(_meets(user, term, context) for term in others):",
                "        if True:",
            ),
        ),
    ),
    Mutation(
        "a stranger takes back what others asked for",
        "§4 withdraw",
        "tests/core/test_approvals_matrix.py::test_everybody_tries_everything",
        (Edit("effects/runtime/operators.py", "    if reason:\n        raise NotEntitledError(reason)\n", ""),),
    ),
    Mutation(
        "a notice is forgotten before it is told",
        "§3 at least once",
        "tests/core/test_notices.py::test_a_failure_stops_nothing_and_is_tried_again_under_the_same_key",
        (
            Edit(
                "effects/sweeps/send_notices.py",
                "        with in_tenant(",
                "        transitions.drop_notice(notice_id)\n        with in_tenant(",
            ),
        ),
    ),
    Mutation(
        "silence after a whole message is taken for a refusal",
        "promise 3",
        "tests/mail/test_smtp.py::test_what_each_answer_proves",
        (
            Edit(
                "effects/contrib/mail/smtp.py",
                "        _finish(smtp)\n",
                "        with _nothing_was_accepted():\n            try:\n                _finish(smtp)\n"
                "            except Doubt as error:\n                raise OSError(str(error)) from error\n",
            ),
        ),
    ),
    Mutation(
        "a project's own Stripe client is used as it is",
        "promise 2",
        "tests/stripe/test_overrides.py::test_a_client_that_drops_the_guarantees_sends_nothing",
        (
            Edit(
                "effects/contrib/stripe/client.py",
                "    if isinstance(client, stripe.StripeClient) and isinstance(transport, DeadlineTransport):\n",
                "    if transport is not None:\n",
            ),
        ),
    ),
    Mutation(
        "a second request goes out under one permit",
        "promise 2",
        "tests/stripe/test_overrides.py::test_one_permit_is_one_request_whatever_create_does",
        (
            Edit(
                "effects/contrib/stripe/transport.py",
                "        if bounds.sent:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutation(
        "each reply of a mail server has the whole time",
        "cases: mail",
        "tests/mail/test_smtp.py::test_a_reply_without_end_ends_with_the_conversation",
        (
            Edit(
                "effects/contrib/connections.py",
                "        self._sock.settimeout(time_left(self.deadline))\n        count",
                "        self._sock.settimeout(time_left(self.deadline + 11))\n        count",
            ),
        ),
    ),
    Mutation(
        "what was written counts as not sent",
        "§4 what a failure proves",
        "tests/httpx/test_wire.py::test_a_broken_connection_is_doubt",
        (Edit("effects/contrib/httpx/transport.py", "self._wire.touched = True", "pass"),),
    ),
    Mutation(
        "each read has the whole time",
        "cases: sending",
        "tests/httpx/test_wire.py::test_a_trickling_answer_ends_at_the_deadline",
        (
            Edit(
                "effects/contrib/httpx/transport.py",
                "            self._sock.settimeout(time_left(self._wire.deadline))\n            return self._sock.recv",
                "            self._sock.settimeout(0.5)\n            return self._sock.recv",
            ),
        ),
    ),
    Mutation(
        "a conflict is a refusal",
        "§4 what a failure proves",
        "tests/httpx/test_proofs.py::test_what_proves_nothing_is_doubt",
        (
            Edit(
                "effects/contrib/statuses.py",
                "    410: InvalidRequest,",
                "    409: Declined,\n    410: InvalidRequest,",
            ),
        ),
    ),
    Mutation(
        "a look-up may post",
        "promise 2",
        "tests/httpx/test_lookups.py::test_a_look_up_changes_nothing",
        (Edit("effects/contrib/httpx/effect.py", "        if asked.method not in _SAFE:", "        if False:"),),
    ),
)
