"""What stands around an emulated board: models of chips."""
