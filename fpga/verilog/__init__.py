"""The hardware of a machine as Verilog for other tools: ports, memories, waivers, test bench."""
