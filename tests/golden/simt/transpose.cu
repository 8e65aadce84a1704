extern "C" __global__ void __launch_bounds__(256)
k0_transpose(const float* __restrict__ x, float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float tile[32][33];
  for (int tile_0_o = 0; tile_0_o < 4; ++tile_0_o) {
    if (by * 32 + tx < 50)
      tile[tile_0_o * 8 + ty][tx] = x[(bx * 32 + tile_0_o * 8 + ty) * 50 + by * 32 + tx];
  }
  __syncthreads();
  for (int y_i_i_o = 0; y_i_i_o < 4; ++y_i_i_o) {
    if (by * 32 + y_i_i_o * 8 + ty < 50)
      y[(by * 32 + y_i_i_o * 8 + ty) * 64 + bx * 32 + tx] = tile[tx][y_i_i_o * 8 + ty];
  }
}
