"""Effects for providers that many projects call. Each subpackage needs its provider's own library."""
