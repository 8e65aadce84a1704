#ifdef __CUDACC__
template <unsigned bytes, long long offset>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16;"
                 :: "r"(to), "l"(global), "n"(offset));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1 + %2], %3;"
                 :: "r"(to), "l"(global), "n"(offset), "n"(bytes));
}
template <unsigned bytes, long long offset>  // of zeros where it is not valid
__device__ __forceinline__ void async_copy(void* shared, const void* global, bool valid) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared), size = valid ? bytes : 0;
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16, %3;"
                 :: "r"(to), "l"(global), "n"(offset), "r"(size));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1 + %2], %3, %4;"
                 :: "r"(to), "l"(global), "n"(offset), "n"(bytes), "r"(size));
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;"); }
template <unsigned pending>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(64, 8)
k0_matmul_pipelined(const float* __restrict__ a,
                    const float* __restrict__ b,
                    float* __restrict__ c) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float b_tile[3][8][32];
  __shared__ __align__(16) float a_tile[3][32][8];
  float acc[4][4];
  for (int k_tile_pre = 0; k_tile_pre < 2; ++k_tile_pre) {
    async_copy<16, 0>(&a_tile[k_tile_pre][ty * 4 + tx / 2][tx % 2 * 4], &a[by * 1024 + ty * 128 +
        tx / 2 * 32 + k_tile_pre * 8 + tx % 2 * 4]);
    async_copy<16, 0>(&b_tile[k_tile_pre][ty][tx * 4], &b[k_tile_pre * 512 + ty * 64 + bx * 32 + tx
        * 4]);
    async_commit();
  }
  #pragma unroll
  for (int acc_i_0 = 0; acc_i_0 < 4; ++acc_i_0) {
    #pragma unroll
    for (int acc_j_0 = 0; acc_j_0 < 4; ++acc_j_0) acc[acc_i_0][acc_j_0] = -0.0f;
  }
  int k_tile_turn2of3 = 2;
  int k_tile_turn0of3 = 0;
  #pragma unroll 3
  for (int k_tile = 0; k_tile < 4; ++k_tile) {
    async_wait<1>();
    __syncthreads();
    if (k_tile < 2) {
      async_copy<16, 64>(&a_tile[k_tile_turn2of3][ty * 4 + tx / 2][tx % 2 * 4], &a[by * 1024 + ty *
          128 + tx / 2 * 32 + k_tile * 8 + tx % 2 * 4]);
      async_copy<16, 4096>(&b_tile[k_tile_turn2of3][ty][tx * 4], &b[k_tile * 512 + ty * 64 + bx *
          32 + tx * 4]);
    }
    async_commit();
    #pragma unroll
    for (int k_in = 0; k_in < 8; ++k_in) {
      #pragma unroll
      for (int acc_i = 0; acc_i < 4; ++acc_i) {
        #pragma unroll
        for (int acc_j = 0; acc_j < 4; ++acc_j) {
          acc[acc_i][acc_j] += a_tile[k_tile_turn0of3][ty * 4 + acc_i][k_in] *
              b_tile[k_tile_turn0of3][k_in][tx * 4 + acc_j];
        }
      }
    }
    k_tile_turn2of3 = k_tile_turn2of3 == 2 ? 0 : k_tile_turn2of3 + 1;
    k_tile_turn0of3 = k_tile_turn0of3 == 2 ? 0 : k_tile_turn0of3 + 1;
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) c[(by * 32 + ty * 4 + i) * 64 + bx * 32 + tx * 4 + j] = acc[i][j];
  }
}
