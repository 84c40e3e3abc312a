"""The commands: `effects_sweep`, `effects_audit`, `effects_doubt_since`."""
