extern "C" __global__ void __launch_bounds__(256, 2)
k0_matmul_bytes(const signed char* __restrict__ a,
                const signed char* __restrict__ b,
                int* __restrict__ c) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) signed char b_tile[16][8][4];
  __shared__ __align__(16) signed char a_tile[16][8][4];
  int acc = 0;
  for (int k_o = 0; k_o < 2; ++k_o) {
    __syncthreads();
    if (tx < 8) {
      for (int a_tile_2 = 0; a_tile_2 < 4; ++a_tile_2)
        a_tile[ty][tx][a_tile_2] = a[(by * 16 + ty) * 64 + (k_o * 8 + tx) * 4 + a_tile_2];
      for (int b_tile_2 = 0; b_tile_2 < 4; ++b_tile_2)
        b_tile[ty][tx][b_tile_2] = b[(bx * 16 + ty) * 64 + (k_o * 8 + tx) * 4 + b_tile_2];
    }
    __syncthreads();
    for (int k_i = 0; k_i < 8; ++k_i) {
      acc = __dp4a(*reinterpret_cast<const int*>(&a_tile[ty][k_i][0]), *reinterpret_cast<const
          int*>(&b_tile[tx][k_i][0]), acc);
    }
  }
  c[(by * 16 + ty) * 32 + bx * 16 + tx] = acc;
}
