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
__device__ __forceinline__ float to_tf32(float value) {
  int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __int_as_float(bits);
}
#endif

#ifdef __CUDACC__
template <unsigned bytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(global));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(global), "n"(bytes));
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

template <class T>
__device__ __forceinline__ unsigned mma_word(const T* first) {
  return *reinterpret_cast<const unsigned*>(first);
}
__device__ __forceinline__ unsigned mma_word(const float* first) {
  return __float_as_uint(to_tf32(*first));
}

// d += a * b of a warp: 16 rows of a and 8 of b, `pitch` elements apart, in shared memory.
template <auto mma, int a_pitch, int b_pitch, class Sum, class T>
__device__ __forceinline__ void mma_tile(Sum* d, const T* a, const T* b) {
  const int n = 4 / sizeof(T), g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned fa[4], fb[2];
  for (int r = 0; r < 4; ++r)
    fa[r] = mma_word(&a[(g + r % 2 * 8) * a_pitch + (t + r / 2 * 4) * n]);
  for (int r = 0; r < 2; ++r) fb[r] = mma_word(&b[g * b_pitch + (t + r * 4) * n]);
  mma(d, fa, fb);
}

template <class Sum>
__device__ __forceinline__ void mma_fill(Sum* d) {
  for (int i = 0; i < 4; ++i) d[i] = 0;
}

template <int pitch, class Sum>
__device__ __forceinline__ void mma_store(Sum* to, const Sum* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) to[(g + i / 2 * 8) * pitch + 2 * t + i % 2] = d[i];
}

extern "C" __global__ void __launch_bounds__(64, 1)
k0_matmul_tensor_cores(const half* __restrict__ a,
                       const half* __restrict__ b,
                       float* __restrict__ c) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) half b_tile[2][32][40];
  __shared__ __align__(16) half a_tile[2][32][40];
  float acc[4][4];
  for (int a_tile_0_a_tile_1_o_o_pre = 0; a_tile_0_a_tile_1_o_o_pre < 2;
      ++a_tile_0_a_tile_1_o_o_pre) {
    async_copy<16>(&a_tile[0][a_tile_0_a_tile_1_o_o_pre * 16 + ty * 8 + tx / 4][tx % 4 * 8], &a[(by
        * 32 + a_tile_0_a_tile_1_o_o_pre * 16 + ty * 8 + tx / 4) * 64 + tx % 4 * 8]);
  }
  for (int b_tile_0_b_tile_1_o_o_pre = 0; b_tile_0_b_tile_1_o_o_pre < 2;
      ++b_tile_0_b_tile_1_o_o_pre) {
    async_copy<16>(&b_tile[0][b_tile_0_b_tile_1_o_o_pre * 16 + ty * 8 + tx / 4][tx % 4 * 8], &b[(bx
        * 32 + b_tile_0_b_tile_1_o_o_pre * 16 + ty * 8 + tx / 4) * 64 + tx % 4 * 8]);
  }
  async_commit();
  for (int n_init = 0; n_init < 4; ++n_init)
    mma_fill(acc[n_init]);
  for (int k_step = 0; k_step < 2; ++k_step) {
    async_wait<0>();
    if (k_step < 1) {
      for (int a_tile_0_a_tile_1_o_o = 0; a_tile_0_a_tile_1_o_o < 2; ++a_tile_0_a_tile_1_o_o) {
        async_copy<16>(&a_tile[(k_step + 1) % 2][a_tile_0_a_tile_1_o_o * 16 + ty * 8 + tx / 4][tx %
            4 * 8], &a[(by * 32 + a_tile_0_a_tile_1_o_o * 16 + ty * 8 + tx / 4) * 64 + k_step * 32
            + tx % 4 * 8 + 32]);
      }
      for (int b_tile_0_b_tile_1_o_o = 0; b_tile_0_b_tile_1_o_o < 2; ++b_tile_0_b_tile_1_o_o) {
        async_copy<16>(&b_tile[(k_step + 1) % 2][b_tile_0_b_tile_1_o_o * 16 + ty * 8 + tx / 4][tx %
            4 * 8], &b[(bx * 32 + b_tile_0_b_tile_1_o_o * 16 + ty * 8 + tx / 4) * 64 + k_step * 32
            + tx % 4 * 8 + 32]);
      }
    }
    async_commit();
    __syncthreads();
    for (int k_part = 0; k_part < 2; ++k_part) {
      for (int n = 0; n < 4; ++n) {
        mma_tile<mma_m16n8k16_f16, 40, 40>(acc[n], &a_tile[k_step][ty * 16][k_part * 16],
            &b_tile[k_step][n * 8][k_part * 16]);
      }
    }
  }
  for (int n_out = 0; n_out < 4; ++n_out)
    mma_store<64>(&c[(by * 32 + ty * 16) * 64 + bx * 32 + n_out * 8], acc[n_out]);
}
