__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void
k0_transpose(__global const float* restrict x, __global float* restrict y) {
  const int bx = get_group_id(0), by = get_group_id(1);
  const int tx = get_local_id(0), ty = get_local_id(1);
  __local __attribute__((aligned(16))) float tile[32][33];
  for (int tile_0_o = 0; tile_0_o < 4; ++tile_0_o) {
    if (by * 32 + tx < 50)
      tile[tile_0_o * 8 + ty][tx] = x[(bx * 32 + tile_0_o * 8 + ty) * 50 + by * 32 + tx];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int y_i_i_o = 0; y_i_i_o < 4; ++y_i_i_o) {
    if (by * 32 + y_i_i_o * 8 + ty < 50)
      y[(by * 32 + y_i_i_o * 8 + ty) * 64 + bx * 32 + tx] = tile[tx][y_i_i_o * 8 + ty];
  }
}
