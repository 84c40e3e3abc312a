"""What the demo and the tests need: a database, a broker, a provider, and a bad network before it."""
