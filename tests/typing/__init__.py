"""What a type checker says to a project that uses the library."""
