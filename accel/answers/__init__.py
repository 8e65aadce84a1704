"""Answers: what each declared instruction does for a network, or why it does nothing."""
