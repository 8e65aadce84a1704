"""A machine's core in standard cells: netlist, timing, power, and the technology file that says so.

``lockstep asic`` (docs/asic.md) goes this way: `library` reads what cells there are, `netlist` has
yosys map the core to them with memories as macros (`memories`), `timing` asks OpenSTA how fast it
is, `gates` runs a network on the mapped netlist, `power` counts its toggles in watts, and
`technology` writes the file that ``--technology`` of run and explore reads. All figures are those
before a layout.
"""
