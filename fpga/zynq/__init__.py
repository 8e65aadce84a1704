"""The accelerator in the logic of a Zynq-7000, with Vivado and PYNQ."""
