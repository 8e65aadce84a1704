"""Models of Keras."""
