"""The accelerator on FPGAs."""
