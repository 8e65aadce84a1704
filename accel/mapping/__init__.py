"""From a graph to a program: the accelerator as a target of the compiler."""
