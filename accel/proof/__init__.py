"""Whether a program is legal: what each instruction touches, and what a refusal says."""
