"""GPUs: schedules of kernels, compilation by NVRTC, and execution without a GPU."""
