__kernel __attribute__((reqd_work_group_size(8, 8, 1))) void
k0_matmul(__global const float* restrict a,
          __global const float* restrict b,
          __global float* restrict c) {
  const int bx = get_group_id(0), by = get_group_id(1);
  const int tx = get_local_id(0), ty = get_local_id(1);
  __local __attribute__((aligned(16))) float b_tile[8][32];
  __local __attribute__((aligned(16))) float a_tile[32][8];
  float acc[4][4];
  #pragma unroll
  for (int acc_i_0 = 0; acc_i_0 < 4; ++acc_i_0) {
    #pragma unroll
    for (int acc_j_0 = 0; acc_j_0 < 4; ++acc_j_0) acc[acc_i_0][acc_j_0] = -0.0f;
  }
  for (int k_tile = 0; k_tile < 4; ++k_tile) {
    barrier(CLK_LOCAL_MEM_FENCE);
    *(__local float4*)(&a_tile[ty * 4 + tx / 2][tx % 2 * 4]) = *(__global const float4*)(&a[(by *
        32 + ty * 4 + tx / 2) * 32 + k_tile * 8 + tx % 2 * 4]);
    *(__local float4*)(&b_tile[ty][tx * 4]) = *(__global const float4*)(&b[(k_tile * 8 + ty) * 64 +
        bx * 32 + tx * 4]);
    barrier(CLK_LOCAL_MEM_FENCE);
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
