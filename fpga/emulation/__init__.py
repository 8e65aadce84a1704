"""Emulated boards, and the models of chips around them."""
