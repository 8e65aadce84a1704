"""Commands about a machine, without a network."""
