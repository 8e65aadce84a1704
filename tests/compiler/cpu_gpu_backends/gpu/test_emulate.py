"""CUDA written by hand through the emulation: what each part of the header means."""

from itertools import count

import ml_dtypes
import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.emulate import EmulationError, emulation

TEXT = """
extern "C" __global__ void __launch_bounds__(64) reverse(const int* __restrict__ x, int* y) {
  __shared__ int tile[64];
  const int tx = threadIdx.x, bx = blockIdx.x + gridDim.x * blockIdx.y;
  tile[tx] = x[bx * 64 + tx];
  __syncthreads();
  y[bx * 64 + tx] = tile[63 - tx];
}
extern "C" __global__ void indices(int* y, long long scale) {
  const int place = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  y[blockIdx.z * 24 + place] = scale * (threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z);
}
extern "C" __global__ void lanes(const float* x, float* y) {
  const int t = threadIdx.x;
  float value = x[t];
  y[t] = __shfl_down_sync(0xffffffff, value, 3);
  y[64 + t] = __shfl_up_sync(0xffffffff, value, 3);
  y[128 + t] = __shfl_xor_sync(0xffffffff, value, 5);
  y[192 + t] = __shfl_sync(0xffffffff, value, 7);
}
extern "C" __global__ void sum(const float* x, float* y) {
  float value = x[threadIdx.x];
  for (int step = 16; step; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
  if (threadIdx.x == 0) y[0] = value;
}
extern "C" __global__ void early(int* y) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}
extern "C" __global__ void apart(int* y) {
  if (threadIdx.x < 5) __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}
extern "C" __global__ void masked(int* y) {
  y[threadIdx.x] = __shfl_sync(0xff, 1, 0);
}
template <int pending> __device__ void copied(const int* x, int* y) {
  __shared__ __align__(16) int tile[2][4];
  async_copy<16, 4>(tile[0], x - 1); async_commit();
  async_copy<8, 0>(tile[1], x + 4); async_copy<4, 24>(&tile[1][2], x); async_commit();
  async_wait<pending>();
  for (int i = 0; i < 7; ++i) y[i] = tile[i / 4][i % 4];
}
extern "C" __global__ void copied_all(const int* x, int* y) { copied<0>(x, y); }
extern "C" __global__ void copied_one(const int* x, int* y) { copied<1>(x, y); }
extern "C" __global__ void unaligned(const int* x, int* y) {
  __shared__ __align__(16) int tile[8];
  async_copy<16, 0>(tile, x + 1);
}
extern "C" __global__ void dot(const int* x, int* y) { y[0] = __dp4a(x[0], x[1], x[2]); }
extern "C" __global__ void halves(const float* x, half* y, bfloat16* z, float* back, long long n) {
  for (int i = 0; i < n; ++i) { y[i] = x[i]; z[i] = x[i]; }
  for (int i = 0; i < 65536; ++i) {
    half one; one.bits = i; back[i] = one;
    bfloat16 other; other.bits = i; back[65536 + i] = other;
  }
}
extern "C" __global__ void rounded(const float* x, float* y) { y[0] = to_tf32(x[0]); }
// Element i of a fragment, of n elements a register, as the PTX ISA has it for each type.
template <int n> __device__ int row_of_a(int g, int i) {
  if (n == 2) return i < 2 || (4 <= i && i < 6) ? g : g + 8;
  if (n == 1) return i == 0 || i == 2 ? g : g + 8;
  return i < 4 || (8 <= i && i < 12) ? g : g + 8;
}
template <int n> __device__ int column_of_a(int t, int i) {
  if (n == 2) return i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8;
  if (n == 1) return i < 2 ? t : t + 4;
  return i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16;
}
template <int n> __device__ int row_of_b(int t, int i) {
  if (n == 2) return i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8;
  if (n == 1) return i == 0 ? t : t + 4;
  return i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16;
}
template <class T, class S, int K, class F>
__device__ void tile(const T* a, const T* b, S* c, F f) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4, n = 4 / sizeof(T);
  T fa[4 * n], fb[2 * n];
  S fc[4] = {};
  for (int i = 0; i < 4 * n; ++i) fa[i] = a[row_of_a<n>(g, i) * K + column_of_a<n>(t, i)];
  for (int i = 0; i < 2 * n; ++i) fb[i] = b[row_of_b<n>(t, i) * 8 + g];
  f(fc, reinterpret_cast<unsigned*>(fa), reinterpret_cast<unsigned*>(fb));
  for (int i = 0; i < 4; ++i) c[(i < 2 ? g : g + 8) * 8 + t * 2 + (i & 1)] = fc[i];
}
extern "C" __global__ void fragments(const unsigned short* x, unsigned* y, long long turned) {
  __shared__ __align__(16) unsigned short tiles[4][8][8];
  for (int i = 0; i < 8; ++i) tiles[threadIdx.x / 8][threadIdx.x % 8][i] = x[threadIdx.x * 8 + i];
  __syncwarp();
  unsigned d[4];
  const void* row = tiles[threadIdx.x / 8][threadIdx.x % 8];
  if (turned) ldmatrix_x4<true>(d, row); else ldmatrix_x4<false>(d, row);
  for (int m = 0; m < 4; ++m) y[m * 32 + threadIdx.x] = d[m];
}
extern "C" __global__ void chosen(const int* x, int* y, long long valid) {
  __shared__ __align__(16) int tile[4];
  async_copy<16, 0>(tile, x, valid); async_commit(); async_wait<0>();
  for (int i = 0; i < 4; ++i) y[i] = tile[i];
}
extern "C" __global__ void mma_f16(const half* a, const half* b, float* c) {
  tile<half, float, 16>(a, b, c, mma_m16n8k16_f16);
}
extern "C" __global__ void mma_bf16(const bfloat16* a, const bfloat16* b, float* c) {
  tile<bfloat16, float, 16>(a, b, c, mma_m16n8k16_bf16);
}
extern "C" __global__ void mma_tf32(const float* a, const float* b, float* c) {
  tile<float, float, 8>(a, b, c, mma_m16n8k8_tf32);
}
extern "C" __global__ void mma_s8(const signed char* a, const signed char* b, int* c) {
  tile<signed char, int, 32>(a, b, c, mma_m16n8k32_s8);
}
"""
ONE = (1, 1, 1)


@pytest.fixture(scope="module")
def cuda():
    return emulation(TEXT)


def test_blocks_threads_and_a_barrier(cuda) -> None:
    x = np.arange(6 * 64, dtype=np.int32)
    y = np.zeros_like(x)
    cuda.launch("reverse", (3, 2, 1), (64, 1, 1), x, y)
    np.testing.assert_array_equal(y.reshape(6, 64), x.reshape(6, 64)[:, ::-1])


def test_indices_of_three_dimensions(cuda) -> None:
    y = np.zeros((2, 3, 2, 4), np.int32)
    cuda.launch("indices", (1, 1, 2), (4, 2, 3), y, 7)
    z, b, a = np.meshgrid(range(3), range(2), range(4), indexing="ij")
    np.testing.assert_array_equal(y, [7 * (a + 10 * b + 100 * z)] * 2)


def test_shuffles(cuda) -> None:
    x = np.arange(64, dtype=np.float32)
    y = np.zeros((4, 64), np.float32)
    cuda.launch("lanes", ONE, (64, 1, 1), x, y)
    lane, base = np.arange(64) % 32, np.arange(64) // 32 * 32
    np.testing.assert_array_equal(y[0], base + np.where(lane + 3 < 32, lane + 3, lane))
    np.testing.assert_array_equal(y[1], base + np.where(lane >= 3, lane - 3, lane))
    np.testing.assert_array_equal(y[2], base + (lane ^ 5))
    np.testing.assert_array_equal(y[3], base + 7)


def test_a_reduction_by_shuffles(cuda) -> None:
    y = np.zeros(1, np.float32)
    cuda.launch("sum", ONE, (32, 1, 1), np.arange(32, dtype=np.float32), y)
    assert y[0] == 496


@pytest.mark.parametrize(("kernel", "reason"), [
    ("early", "63 of 64 threads wait at a barrier that the others do not reach"),
    ("masked", "the mask of a warp must be full, not 0xff"),
])
def test_what_would_hang_is_found(cuda, kernel: str, reason: str) -> None:
    with pytest.raises(EmulationError, match=f"^{kernel}: {reason}$"):
        cuda.launch(kernel, ONE, (64, 1, 1), np.zeros(64, np.int32))


def test_different_barriers_are_not_one(cuda) -> None:
    with pytest.raises(EmulationError, match=r"^apart: threads wait at different barriers, in "
                                             r"lines \d+ and \d+$"):
        cuda.launch("apart", ONE, (64, 1, 1), np.zeros(64, np.int32))


def test_a_failure_does_not_last(cuda) -> None:
    with pytest.raises(EmulationError):
        cuda.launch("early", ONE, (64, 1, 1), np.zeros(64, np.int32))
    test_blocks_threads_and_a_barrier(cuda)


def test_asynchronous_copies_land_when_they_are_waited_for(cuda) -> None:
    x, y = np.arange(8, dtype=np.int32), np.zeros(7, np.int32)
    cuda.launch("copied_all", ONE, ONE, x, y)
    assert y.tolist() == [0, 1, 2, 3, 4, 5, 6]
    cuda.launch("copied_one", ONE, ONE, x, y)
    assert y[:4].tolist() == [0, 1, 2, 3] and set(y[4:].view(np.uint8)) == {0xCD}


def test_asynchronous_copies_are_aligned(cuda) -> None:
    x = np.arange(12, dtype=np.int32)
    with pytest.raises(EmulationError, match="an asynchronous copy of 16 bytes must be aligned"):
        cuda.launch("unaligned", ONE, ONE, x[(-(x.ctypes.data // 4)) % 4:], x)


def test_dp4a(cuda, rng) -> None:
    for _ in range(10):
        a, b = rng.integers(-128, 128, (2, 4)).astype(np.int8)
        c, y = rng.integers(-2**31, 2**31), np.zeros(1, np.int32)
        x = np.array([a.view(np.int32)[0], b.view(np.int32)[0], c], np.int32)
        cuda.launch("dot", ONE, ONE, x, y)
        assert y[0] == c + int(a.astype(int) @ b.astype(int))


def test_numbers_of_16_bits(cuda, rng) -> None:
    special = [0, -0.0, 1, 65504, 65519.996, 65520, 1e9, np.inf, -np.inf, 2**-14, 2**-24, 2**-25,
               2**-25 * 1.001, 6.1e-5, 1e-40, 1 + 2**-11, 1 + 3 * 2**-11, 3.3961775e38]
    bits = rng.integers(0, 2**32, 20000, np.uint32).view(np.float32)
    small = rng.normal(size=5000) * 10.0 ** rng.integers(-9, 6, 5000)
    x = np.concatenate([special, bits[np.isfinite(bits)], small]).astype(np.float32)
    y, z = np.zeros(x.size, np.float16), np.zeros(x.size, ml_dtypes.bfloat16)
    back = np.zeros((2, 65536), np.float32)
    cuda.launch("halves", ONE, ONE, x, y, z, back, x.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y.view(np.uint16), x.astype(np.float16).view(np.uint16))
    np.testing.assert_array_equal(z.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    every = np.arange(65536, dtype=np.uint16)
    np.testing.assert_array_equal(back[0], every.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(back[1], every.view(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize(("value", "wanted"), [
    (1 + 2**-10, 1 + 2**-10), (1 + 2**-11, 1 + 2**-10), (-1 - 2**-11, -1 - 2**-10),
    (1 + 2**-12, 1), (np.inf, np.inf), (0, 0)])
def test_tf32(cuda, value: float, wanted: float) -> None:
    y = np.zeros(1, np.float32)
    cuda.launch("rounded", ONE, ONE, np.array([value], np.float32), y)
    assert y[0] == np.float32(wanted)


@pytest.mark.parametrize(("kernel", "dtype", "depth"), [
    ("mma_f16", np.float16, 16), ("mma_bf16", ml_dtypes.bfloat16, 16), ("mma_tf32", np.float32, 8),
    ("mma_s8", np.int8, 32)])
def test_mma(cuda, rng, kernel: str, dtype, depth: int) -> None:
    a, b = (rng.integers(-8, 8, shape).astype(dtype) for shape in ((16, depth), (depth, 8)))
    c = np.zeros((16, 8), np.int32 if dtype == np.int8 else np.float32)
    cuda.launch(kernel, ONE, (32, 1, 1), a, b, c)
    np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("turned", [0, 1])
def test_ldmatrix(cuda, turned: int) -> None:
    """As the PTX ISA says: lane 8*m + r points to row r of tile m; of each, a lane receives two
    neighbours of row lane / 4, or of column lane / 4.
    """
    x = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    y = np.zeros((4, 32, 2), np.uint16)
    cuda.launch("fragments", ONE, (32, 1, 1), x, y, turned)
    tiles = x.swapaxes(1, 2) if turned else x
    np.testing.assert_array_equal(y, tiles.reshape(4, 32, 2))


def test_copies_that_are_not_valid_are_zeros(cuda) -> None:
    y = np.full(4, -1, np.int32)
    for valid, wanted in ((1, [1, 2, 3, 4]), (0, [0] * 4)):
        cuda.launch("chosen", ONE, ONE, np.array([1, 2, 3, 4], np.int32), y, valid)
        assert y.tolist() == wanted


def test_mma_needs_a_whole_warp(cuda) -> None:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    with pytest.raises(EmulationError, match="mma must be run by a whole warp, not by 16 threads"):
        cuda.launch("mma_f16", ONE, (16, 1, 1), a, b, np.zeros((16, 8), np.float32))


def test_kernels_of_one_text_share_their_library() -> None:
    assert emulation(TEXT) is emulation(TEXT)


def test_no_compiler_is_one_clear_line(monkeypatch, tmp_path) -> None:
    from compiler import native

    monkeypatch.setenv("CXX", "no-such-compiler")
    native.compiler.cache_clear()
    try:
        with pytest.raises(native.BuildError, match="^A C.. compiler must be installed to build "):
            emulation(f"// {next(count())} of {tmp_path}\n")
    finally:
        native.compiler.cache_clear()
