"""The shop's payments: orders, refunds that are approved above an amount, and payouts."""
