"""The records of operators, a file for each family."""
