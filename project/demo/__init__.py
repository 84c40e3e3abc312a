"""The demo: the whole product on real components, in seven stories, checked against the provider's own ledger."""
