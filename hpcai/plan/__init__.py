"""Memory and time that a test will need, before its first second is measured."""
