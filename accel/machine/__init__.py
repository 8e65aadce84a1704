"""The machine as data: geometry, declared instructions, words, programs, and how runs end."""
