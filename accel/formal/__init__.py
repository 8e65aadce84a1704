"""Proofs that hardware computes what is declared, for all inputs: `prove` says what is claimed."""
