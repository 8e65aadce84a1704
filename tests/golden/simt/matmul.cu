extern "C" __global__ void __launch_bounds__(64, 8)
k0_matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float b_tile[8][32];
  __shared__ __align__(16) float a_tile[32][8];
  float acc[4][4];
  #pragma unroll
  for (int acc_i_0 = 0; acc_i_0 < 4; ++acc_i_0) {
    #pragma unroll
    for (int acc_j_0 = 0; acc_j_0 < 4; ++acc_j_0) acc[acc_i_0][acc_j_0] = -0.0f;
  }
  for (int k_tile = 0; k_tile < 4; ++k_tile) {
    __syncthreads();
    *reinterpret_cast<float4*>(&a_tile[ty * 4 + tx / 2][tx % 2 * 4]) = *reinterpret_cast<const
        float4*>(&a[(by * 32 + ty * 4 + tx / 2) * 32 + k_tile * 8 + tx % 2 * 4]);
    *reinterpret_cast<float4*>(&b_tile[ty][tx * 4]) = *reinterpret_cast<const float4*>(&b[(k_tile *
        8 + ty) * 64 + bx * 32 + tx * 4]);
    __syncthreads();
    #pragma unroll
    for (int k_in = 0; k_in < 8; ++k_in) {
      #pragma unroll
      for (int acc_i = 0; acc_i < 4; ++acc_i) {
        #pragma unroll
        for (int acc_j = 0; acc_j < 4; ++acc_j)
          acc[acc_i][acc_j] += a_tile[ty * 4 + acc_i][k_in] * b_tile[k_in][tx * 4 + acc_j];
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c[(by * 32 + ty * 4 + i) * 64 + bx * 32 + tx * 4 + j] = acc[i][j];
  }
}
