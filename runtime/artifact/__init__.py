"""Compiled modules as files.

An artifact is a zip archive whose members are stored as they are:

``manifest.json``    format and its version, what it was written with, machine, processor, graph,
                     partition, programs without their arrays, and each member's size and SHA-256
``manifest.sha256``  of the manifest, as the program sha256sum writes it
``constants/N``      constants of the network
``programs/N/...``   instruction words, weights as the accelerator reads them, origins
``kernels/N.o``      machine code of the host's operators, object files
``gpu/N/kernels.*``  text of a GPU's kernels, CUDA (.cu) or OpenCL C (.cl); their launches are in
                     the manifest
``gpu/N/ARCH.cubin`` machine code of this text for an architecture of NVIDIA's

Arrays are raw, little-endian, in row-major order. The same module gives the same bytes. Loading
executes nothing in the file. Its machine code runs with the network, so an artifact must be trusted
like a program: the hashes reveal damage, not the author. On a processor other than the one that it
was compiled for, the host's operators are compiled anew. The accelerator's programs are never
recompiled: they were proved before they were written, and the hashes show that they are unchanged.
"""

from .container import ArtifactError, is_archive
from .modules import Saved, read, save, write

__all__ = ["ArtifactError", "Saved", "is_archive", "read", "save", "write"]
