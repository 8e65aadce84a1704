#ifdef __CUDACC__
struct half {  // every operator computes in float and rounds to nearest even
  unsigned short bits;
  half() = default;
  __device__ __forceinline__ half(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  __device__ __forceinline__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
#endif

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

#ifdef __CUDACC__
__device__ __forceinline__ void mma_m16n8k16_f16(float* d, const unsigned* a, const unsigned* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifdef __CUDACC__
template <bool transposed>
__device__ __forceinline__ void ldmatrix_x4(unsigned* d, const void* row) {
  const unsigned from = (unsigned)__cvta_generic_to_shared(row);
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
}
#endif

// Four 8 x 8 tiles of words' halves, from a row and a chunk of 16 bytes on. Eight lanes point to
// the rows of each: tiles 0 and 1 lie below each other, or where `across` beside each other. Chunks
// of `chunks` change places every `rows` rows; rows are `pitch` bytes apart.
template <bool transposed, bool across, int pitch, int rows, int chunks>
__device__ __forceinline__ void load_fragment(unsigned* d, const void* first, int row, int chunk) {
  const int lane = threadIdx.x, half = across ? lane / 16 : lane / 8 % 2;
  row += lane % 8 + half * 8;
  chunk += across ? lane / 8 % 2 : lane / 16;
  const int turned = chunk ^ row / rows % chunks;
  ldmatrix_x4<transposed>(d, reinterpret_cast<const char*>(first) + row * pitch + turned * 16);
}

template <class Sum>
__device__ __forceinline__ void mma_fill(Sum* d) {
  for (int i = 0; i < 4; ++i) d[i] = 0;
}

extern "C" __global__ void __launch_bounds__(64, 1)
k0_matmul_tensor_cores(const half* __restrict__ a,
                       const half* __restrict__ b,
                       float* __restrict__ c) {
  const int by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) half b_shared[2][32][64];
  __shared__ __align__(16) half a_shared[2][64][32];
  __align__(16) float acc[2][8][4];
  async_copy<16, 0>(&a_shared[0][ty * 8 + tx / 4][(tx % 4 ^ tx / 4 / 2) * 8], &a[by * 4096 + ty *
      512 + tx / 4 * 64 + tx % 4 * 8], by * 64 + ty * 8 + tx / 4 < 70);
  async_copy<16, 2048>(&a_shared[0][ty * 8 + tx / 4 + 16][(tx % 4 ^ tx / 4 / 2) * 8], &a[by * 4096
      + ty * 512 + tx / 4 * 64 + tx % 4 * 8], by * 64 + ty * 8 + tx / 4 + 16 < 70);
  async_copy<16, 4096>(&a_shared[0][ty * 8 + tx / 4 + 32][(tx % 4 ^ tx / 4 / 2) * 8], &a[by * 4096
      + ty * 512 + tx / 4 * 64 + tx % 4 * 8], by * 64 + ty * 8 + tx / 4 + 32 < 70);
  async_copy<16, 6144>(&a_shared[0][ty * 8 + tx / 4 + 48][(tx % 4 ^ tx / 4 / 2) * 8], &a[by * 4096
      + ty * 512 + tx / 4 * 64 + tx % 4 * 8], by * 64 + ty * 8 + tx / 4 + 48 < 70);
  async_copy<16, 0>(&b_shared[0][ty * 4 + tx / 8][(tx % 8 ^ ty * 4 + tx / 8) * 8], &b[ty * 256 + tx
      * 8]);
  async_copy<16, 1024>(&b_shared[0][ty * 4 + tx / 8 + 8][(tx % 8 ^ ty * 4 + tx / 8) * 8], &b[ty *
      256 + tx * 8]);
  async_copy<16, 2048>(&b_shared[0][ty * 4 + tx / 8 + 16][(tx % 8 ^ ty * 4 + tx / 8) * 8], &b[ty *
      256 + tx * 8]);
  async_copy<16, 3072>(&b_shared[0][ty * 4 + tx / 8 + 24][(tx % 8 ^ ty * 4 + tx / 8) * 8], &b[ty *
      256 + tx * 8]);
  async_commit();
  #pragma unroll
  for (int m_init = 0; m_init < 2; ++m_init) {
    #pragma unroll
    for (int n_init = 0; n_init < 8; ++n_init)
      mma_fill(acc[m_init][n_init]);
  }
  #pragma unroll 2
  for (int k_step = 0; k_step < 2; ++k_step) {
    async_wait<0>();
    if (k_step < 1) {
      async_copy<16, 64>(&a_shared[(k_step + 1) % 2][ty * 8 + tx / 4][(tx % 4 ^ tx / 4 / 2) * 8],
          &a[by * 4096 + ty * 512 + tx / 4 * 64 + k_step * 32 + tx % 4 * 8], by * 64 + ty * 8 + tx
          / 4 < 70);
      async_copy<16, 2112>(&a_shared[(k_step + 1) % 2][ty * 8 + tx / 4 + 16][(tx % 4 ^ tx / 4 / 2)
          * 8], &a[by * 4096 + ty * 512 + tx / 4 * 64 + k_step * 32 + tx % 4 * 8], by * 64 + ty * 8
          + tx / 4 + 16 < 70);
      async_copy<16, 4160>(&a_shared[(k_step + 1) % 2][ty * 8 + tx / 4 + 32][(tx % 4 ^ tx / 4 / 2)
          * 8], &a[by * 4096 + ty * 512 + tx / 4 * 64 + k_step * 32 + tx % 4 * 8], by * 64 + ty * 8
          + tx / 4 + 32 < 70);
      async_copy<16, 6208>(&a_shared[(k_step + 1) % 2][ty * 8 + tx / 4 + 48][(tx % 4 ^ tx / 4 / 2)
          * 8], &a[by * 4096 + ty * 512 + tx / 4 * 64 + k_step * 32 + tx % 4 * 8], by * 64 + ty * 8
          + tx / 4 + 48 < 70);
      async_copy<16, 4096>(&b_shared[(k_step + 1) % 2][ty * 4 + tx / 8][(tx % 8 ^ ty * 4 + tx / 8)
          * 8], &b[k_step * 2048 + ty * 256 + tx * 8]);
      async_copy<16, 5120>(&b_shared[(k_step + 1) % 2][ty * 4 + tx / 8 + 8][(tx % 8 ^ ty * 4 + tx /
          8) * 8], &b[k_step * 2048 + ty * 256 + tx * 8]);
      async_copy<16, 6144>(&b_shared[(k_step + 1) % 2][ty * 4 + tx / 8 + 16][(tx % 8 ^ ty * 4 + tx
          / 8) * 8], &b[k_step * 2048 + ty * 256 + tx * 8]);
      async_copy<16, 7168>(&b_shared[(k_step + 1) % 2][ty * 4 + tx / 8 + 24][(tx % 8 ^ ty * 4 + tx
          / 8) * 8], &b[k_step * 2048 + ty * 256 + tx * 8]);
    }
    async_commit();
    __syncthreads();
    #pragma unroll
    for (int k_part = 0; k_part < 2; ++k_part) {
      unsigned b_shared_fragment[8][2];
      unsigned a_shared_fragment[2][4];
      #pragma unroll
      for (int a_shared_fragment_0_o = 0; a_shared_fragment_0_o < 2; ++a_shared_fragment_0_o) {
        load_fragment<false, false, 64, 2, 4>(a_shared_fragment[a_shared_fragment_0_o],
            &a_shared[k_step][0][0], ty * 32 + a_shared_fragment_0_o * 16, (k_part * 16) / 8);
      }
      #pragma unroll
      for (int b_shared_fragment_1_o = 0; b_shared_fragment_1_o < 4; ++b_shared_fragment_1_o) {
        load_fragment<true, false, 128, 1, 8>(b_shared_fragment[b_shared_fragment_1_o * 2],
            &b_shared[k_step][0][0], k_part * 16, (b_shared_fragment_1_o * 16) / 8);
      }
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n)
          mma_m16n8k16_f16(acc[m][n], a_shared_fragment[m], b_shared_fragment[n]);
      }
    }
  }
  #pragma unroll
  for (int m_out = 0; m_out < 2; ++m_out) {
    #pragma unroll
    for (int n_out = 0; n_out < 8; ++n_out) {
      #pragma unroll
      for (int half_ = 0; half_ < 2; ++half_) {
        if (by * 64 + ty * 32 + m_out * 16 + half_ * 8 + tx / 4 < 70) {
          *reinterpret_cast<float2*>(&c[(by * 64 + ty * 32 + m_out * 16 + half_ * 8 + tx / 4) * 64
              + n_out * 8 + tx % 4 * 2]) = *reinterpret_cast<const
              float2*>(&acc[m_out][n_out][half_ * 2]);
        }
      }
    }
  }
}
