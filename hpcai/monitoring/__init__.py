"""Memory and telemetry of all nodes while a test runs."""
