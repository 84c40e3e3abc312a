"""What a project declares: effects and protected operations, each with its registry."""
