"""The record of an operator, and what its fields are made of."""
