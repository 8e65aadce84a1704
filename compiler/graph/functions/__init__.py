"""Functions of elements behind products, as integers."""
