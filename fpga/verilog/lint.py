"""Waivers for Verilator's lint: rules that emitted Verilog breaks by its nature, each with why."""

WAIVERS = {
    "CASEINCOMPLETE": "every case has a default: the value that the block assigns before it",
    "CMPCONST": "parts compare each lane with a first and a last one, which is always so at an end",
    "DECLFILENAME": "all modules are in one file; the top has its name",
    "INITIALDLY": "an assignment at time 0 wakes blocks that nothing else would, and nothing reads "
                  "what it assigns",
    "UNSIGNED": "parts compare each lane with a first and a last one, which is always so at an end",
    "UNUSEDSIGNAL": "fields of records have names of their own, for waveforms; nobody reads those "
                    "of a record that is taken as a whole. Every part has a reset and all bits of "
                    "its ports, whether it needs them or not",
    "WIDTHEXPAND": "constants and operands have their least bits and are extended by the rules of "
                   "Verilog, as is meant",
    "WIDTHTRUNC": "`!` of several bits means that all are 0",
}
"""Rules of Verilator, and why what is emitted breaks them."""


def waivers(file: str) -> str:
    """The text of a waiver file for one file of Verilog."""
    return "`verilator_config\n" + "".join(
        f"\n// {why}.\nlint_off -rule {rule} -file \"*{file}\"\n" for rule, why in WAIVERS.items())
