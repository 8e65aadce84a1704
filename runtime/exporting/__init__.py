"""Networks that leave Python: the files of an exported network."""
