__device__ __forceinline__ float nan_max(float a, float b) {  // NaN wins
  return a > b || a != a ? a : b;
}

extern "C" __global__ void __launch_bounds__(64, 8)
k0_softmax(const float* __restrict__ x, float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ float top;
  __shared__ __align__(16) float e[200];
  __shared__ float total;
  __shared__ __align__(16) float top_tree[2];
  __shared__ __align__(16) float total_tree[2];
  {
    float top_part = -__int_as_float(0x7f800000);
    for (int k_o = 0; k_o < 4; ++k_o) {
      if (k_o * 64 + tx < 200)
        top_part = nan_max(top_part, x[bx * 200 + k_o * 64 + tx]);
    }
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 16));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 8));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 4));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 2));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 1));
    if (tx % 32 == 0) top_tree[tx / 32] = top_part;
    __syncthreads();
    top_part = tx % 32 < 2 ? top_tree[tx % 32] : -__int_as_float(0x7f800000);
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 16));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 8));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 4));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 2));
    top_part = nan_max(top_part, __shfl_xor_sync(0xffffffff, top_part, 1));
    if (tx == 0) top = top_part;
  }
  __syncthreads();
  for (int e_j_o = 0; e_j_o < 4; ++e_j_o)
    if (e_j_o * 64 + tx < 200) e[e_j_o * 64 + tx] = expf(x[bx * 200 + e_j_o * 64 + tx] - top);
  {
    float total_part = -0.0f;
    for (int l_o = 0; l_o < 4; ++l_o) {
      if (l_o * 64 + tx < 200)
        total_part += e[l_o * 64 + tx];
    }
    total_part += __shfl_xor_sync(0xffffffff, total_part, 16);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 8);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 4);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 2);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 1);
    if (tx % 32 == 0) total_tree[tx / 32] = total_part;
    __syncthreads();
    total_part = tx % 32 < 2 ? total_tree[tx % 32] : -0.0f;
    total_part += __shfl_xor_sync(0xffffffff, total_part, 16);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 8);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 4);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 2);
    total_part += __shfl_xor_sync(0xffffffff, total_part, 1);
    if (tx == 0) total = total_part;
  }
  __syncthreads();
  for (int y_j_o = 0; y_j_o < 4; ++y_j_o)
    if (y_j_o * 64 + tx < 200) y[bx * 200 + y_j_o * 64 + tx] = e[y_j_o * 64 + tx] / total;
}
