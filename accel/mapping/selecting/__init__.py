"""Instructions that compute element-wise operators and functions of rows, found by their bodies."""
