"""What is checked and chosen before the clock starts."""
