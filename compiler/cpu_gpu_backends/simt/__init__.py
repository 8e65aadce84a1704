"""Code for GPUs: one loop program printed as CUDA or OpenCL C, checked and executed without one."""
