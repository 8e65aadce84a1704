// Compile without fast math: NaN and the order of sums are meant.
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void
k0_matmul(device const float* a [[buffer(0)]],
          device const float* b [[buffer(1)]],
          device float* c [[buffer(2)]],
          uint3 block_place [[threadgroup_position_in_grid]],
          uint3 thread_place [[thread_position_in_threadgroup]]) {
  const int bx = block_place.x, by = block_place.y;
  const int tx = thread_place.x, ty = thread_place.y;
  threadgroup __attribute__((aligned(16))) float b_tile[8][32];
  threadgroup __attribute__((aligned(16))) float a_tile[32][8];
  float acc[4][4];
  #pragma unroll
  for (int acc_i_0 = 0; acc_i_0 < 4; ++acc_i_0) {
    #pragma unroll
    for (int acc_j_0 = 0; acc_j_0 < 4; ++acc_j_0) acc[acc_i_0][acc_j_0] = -0.0f;
  }
  for (int k_tile = 0; k_tile < 4; ++k_tile) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    *(threadgroup float4*)(&a_tile[ty * 4 + tx / 2][tx % 2 * 4]) = *(device const float4*)(&a[(by *
        32 + ty * 4 + tx / 2) * 32 + k_tile * 8 + tx % 2 * 4]);
    *(threadgroup float4*)(&b_tile[ty][tx * 4]) = *(device const float4*)(&b[(k_tile * 8 + ty) * 64
        + bx * 32 + tx * 4]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
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
