"""How a result is told: the printed report, the files, and their verification."""
