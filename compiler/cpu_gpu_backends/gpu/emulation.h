// Executes CUDA C++ on the host: what a kernel's text needs of CUDA, as plain C++.
//
// Threads of a block are fibers of one host thread; blocks run one after the other. A fiber runs
// until it must wait for others (a barrier, a shuffle, an ldmatrix, an mma), then the next one runs, in the
// order of thread indices. So a run is deterministic, and much is found that a GPU would leave to
// chance: a barrier that not all threads reach, data of an asynchronous copy that nobody waited
// for (the copy is carried out when it is waited for, and overwrites with 0xCD when it is issued).
//
// Arithmetic is that of the host, without contraction: compile with -ffp-contract=off -fwrapv.

#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static  // of the block: one runs at a time
#define __grid_constant__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

#define LOCKSTEP_VECTORS(type, name)                              \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };        \
  struct alignas(4 * sizeof(type)) name##4 { type x, y, z, w; };
LOCKSTEP_VECTORS(float, float)
LOCKSTEP_VECTORS(int, int)
LOCKSTEP_VECTORS(unsigned, uint)
LOCKSTEP_VECTORS(short, short)
LOCKSTEP_VECTORS(unsigned short, ushort)
LOCKSTEP_VECTORS(signed char, char)
LOCKSTEP_VECTORS(unsigned char, uchar)
#undef LOCKSTEP_VECTORS
struct alignas(16) double2 { double x, y; };
struct alignas(16) longlong2 { long long x, y; };

// An array as the TMA sees it, its last dimension first; ``runtime/emulated.py`` fills it in.
struct alignas(64) TensorMap {
  const char* address;
  unsigned rank, element_bytes, sizes[5], box[5];
  std::uint64_t strides[5];  // in bytes
};

// What a launch asks for beside the arrays that the text declares.
constexpr unsigned BLOCK_BYTES = 227 << 10;
alignas(1024) static unsigned char block_memory[BLOCK_BYTES];

namespace simt {

constexpr std::size_t STACK_BYTES = 1 << 17;
constexpr unsigned WARP = 32;
constexpr unsigned FULL_MASK = 0xffffffffu;

struct Copy {
  void* to;
  const void* from;
  unsigned bytes;
};

// A product of a group of warps that has been begun: a thread's sums, and what they add up.
struct Product {
  void* sums;
  const char *a, *b;
  void (*add)(const Product&);
};

struct Fiber {
  jmp_buf context;  // where it goes on; what begins it is a ucontext, which asks the system
  std::unique_ptr<char[]> stack;
  dim3 index;
  bool done;
  std::deque<std::vector<Copy>> groups;  // committed, oldest first
  std::vector<Copy> open;
  std::vector<Product> products;
};

// Where threads wait for each other: all of a block, or of a warp.
struct Meeting {
  unsigned size = 0, arrived = 0, generation = 0;
  int line = 0;
};

struct Warp {
  Meeting meeting;
  std::uint64_t values[WARP];
  unsigned fragments[WARP][6];
};

static std::vector<std::unique_ptr<Fiber>> fibers;  // kept between launches
static std::vector<Warp> warps;
struct Group {  // of four warps
  Meeting meeting;
  const void *a, *b;
};
static std::vector<Group> groups;
static Meeting block;
struct TensorBox {  // a copy by the TMA: a box of an array, to rows of 128 bytes
  char* to;
  const struct ::TensorMap* map;
  int place[5];
};
struct Barrier {
  int signals, pending;
  long long bytes = 0;
  unsigned phase = 0;
  std::vector<TensorBox> copies;
};
static std::map<const void*, Barrier> barriers;
static ucontext_t beginning;
static jmp_buf scheduler;
static unsigned current, progress;
static char failure[200];
static void (*body)(void*);
static void* body_argument;

inline void yield() {
  if (!_setjmp(fibers[current]->context)) _longjmp(scheduler, 1);
}

template <class... Args>
inline void fail(const char* format, Args... args) {
  if (!failure[0]) std::snprintf(failure, sizeof failure, format, args...);
  while (true) yield();
}

inline void meet(Meeting& meeting, int line) {
  if (meeting.arrived && meeting.line != line)
    fail("threads wait at different barriers, in lines %d and %d", meeting.line, line);
  meeting.line = line;
  unsigned mine = meeting.generation;
  if (++meeting.arrived == meeting.size) {
    meeting.arrived = 0;
    ++meeting.generation;
    ++progress;
  }
  while (meeting.generation == mine) yield();
}

inline Warp& warp() { return warps[current / WARP]; }
inline unsigned lane() { return current % WARP; }

inline void require_full(unsigned mask) {
  if (mask != FULL_MASK) fail("the mask of a warp must be full, not %#x", mask);
}

// The value that lane `source` holds; a source outside the warp leaves one's own.
template <class T>
inline T exchange(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  require_full(mask);
  Warp& all = warp();
  std::memcpy(&all.values[lane()], &value, sizeof value);
  meet(all.meeting, -1);
  if (source < all.meeting.size) std::memcpy(&value, &all.values[source], sizeof value);
  meet(all.meeting, -1);
  return value;
}

// A fiber's life: a thread of one block after the other.
inline void enter() {
  yield();
  while (true) {
    body(body_argument);
    fibers[current]->done = true;
    ++progress;
    yield();
  }
}

inline void begin(Fiber& fiber) {
  fiber.stack.reset(new char[STACK_BYTES]);
  getcontext(&beginning);
  beginning.uc_stack.ss_sp = fiber.stack.get();
  beginning.uc_stack.ss_size = STACK_BYTES;
  beginning.uc_link = nullptr;
  makecontext(&beginning, enter, 0);
  if (!_setjmp(scheduler)) setcontext(&beginning);
}

inline void prepare(unsigned threads) {
  while (fibers.size() < threads) {
    current = fibers.size();
    fibers.push_back(std::make_unique<Fiber>());
    begin(*fibers.back());
  }
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = *fibers[i];
    fiber.done = false;
    fiber.groups.clear();
    fiber.open.clear();
    fiber.products.clear();
    fiber.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  block = {threads};
  warps.assign((threads + WARP - 1) / WARP, {});
  for (unsigned w = 0; w < warps.size(); ++w)
    warps[w].meeting.size = std::min(WARP, threads - w * WARP);
  groups.assign((threads + 4 * WARP - 1) / (4 * WARP), {});
  for (unsigned g = 0; g < groups.size(); ++g)
    groups[g].meeting.size = std::min(4 * WARP, threads - g * 4 * WARP);
  barriers.clear();
}

inline void run_block(unsigned threads) {
  prepare(threads);
  unsigned live = threads;
  while (live && !failure[0]) {
    progress = 0;
    for (current = 0; current < threads; ++current) {
      if (fibers[current]->done) continue;
      threadIdx = fibers[current]->index;
      if (!_setjmp(scheduler)) _longjmp(fibers[current]->context, 1);
      live -= fibers[current]->done;
    }
    if (!progress && !failure[0])
      std::snprintf(failure, sizeof failure,
                    "%u of %u threads wait at a barrier that the others do not reach", live,
                    threads);
  }
}

template <class... P, std::size_t... I>
inline void apply(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...);
}

// Run `kernel` over a grid; 0, or 1 with the reason in `failure`.
template <class... P>
inline int launch(void (*kernel)(P...), const unsigned* grid, const unsigned* block_size,
                  void** arguments) {
  auto once = [&] { apply(kernel, arguments, std::index_sequence_for<P...>()); };
  body = [](void* f) { (*static_cast<decltype(once)*>(f))(); };
  body_argument = &once;
  failure[0] = 0;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block_size[0], block_size[1], block_size[2]};
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        run_block(blockDim.x * blockDim.y * blockDim.z);
        if (failure[0]) {
          fibers.clear();  // they stand in the middle of the kernel
          return 1;
        }
      }
  return 0;
}

}  // namespace simt

extern "C" const char* launch_failure() { return simt::failure; }

#define __syncthreads() simt::meet(simt::block, __LINE__)
#define __syncwarp() simt::meet(simt::warp().meeting, __LINE__)

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source) {
  return simt::exchange(mask, value, unsigned(source) % simt::WARP);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  return simt::exchange(mask, value, simt::lane() + delta);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  return simt::exchange(mask, value, simt::lane() - delta);  // below 0 wraps to outside
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return simt::exchange(mask, value, simt::lane() ^ unsigned(bits));
}

// Bytes of x and y, 0 to 3 and 4 to 7, as the nibbles of `selector` say, the lowest first.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t both = std::uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= unsigned(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}

inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += int(std::int8_t(a >> i)) * int(std::int8_t(b >> i));
  return c;
}

inline std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) { return float_bits(value); }
inline float __int_as_float(int bits) { return float_of(std::uint32_t(bits)); }

using std::abs;            // of 64 bits, too; C alone has that of int
using std::max;
using std::min;

// Asynchronous copies from global to shared memory.

template <unsigned bytes, long long offset>
inline void async_copy(void* shared, const void* global) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const void* from = static_cast<const char*>(global) + offset;
  if ((std::uintptr_t(shared) | std::uintptr_t(from)) % bytes)
    simt::fail("an asynchronous copy of %u bytes must be aligned to them", bytes);
  std::memset(shared, 0xCD, bytes);
  simt::fibers[simt::current]->open.push_back({shared, from, bytes});
}
template <unsigned bytes, long long offset>
inline void async_copy(void* shared, const void* global, bool valid) {  // else zeros
  alignas(16) static const char zeros[bytes]{};
  if (valid)
    async_copy<bytes, offset>(shared, global);
  else
    async_copy<bytes, 0>(shared, zeros);
}
inline void async_commit() {
  simt::Fiber& fiber = *simt::fibers[simt::current];
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}
template <unsigned pending>
inline void async_wait() {
  simt::Fiber& fiber = *simt::fibers[simt::current];
  while (fiber.groups.size() > pending) {
    for (const simt::Copy& one : fiber.groups.front()) std::memcpy(one.to, one.from, one.bytes);
    fiber.groups.pop_front();
  }
}

// Numbers of 16 bits. Every operator computes in float and rounds to nearest even.

struct half {
  std::uint16_t bits;
  half() = default;
  half(float value) {
    std::uint32_t x = float_bits(value), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000) bits = sign | 0x7e00;                 // NaN
    else if (magnitude >= 0x477ff000) bits = sign | 0x7c00;           // rounds to infinity
    else if (magnitude < 0x38800000)                                  // below 2**-14
      bits = sign | std::uint32_t(std::nearbyint(std::fabs(value) * 0x1p24f));
    else bits = sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  operator float() const {
    std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) return float_of(sign | float_bits(rest * 0x1p-24f));
    return float_of(sign | ((rest << 13) + 0x38000000));
  }
};

struct bfloat16 {
  std::uint16_t bits;
  bfloat16() = default;
  bfloat16(float value) {
    std::uint32_t x = float_bits(value);
    bits = value != value ? (x >> 16 | 0x40) : (x + 0x7fff + (x >> 16 & 1)) >> 16;
  }
  operator float() const { return float_of(std::uint32_t(bits) << 16); }
};

// Rounded to the 10 bits of mantissa that a tensor core takes, ties away from zero.
inline float to_tf32(float value) {
  std::uint32_t x = float_bits(value);
  return (x & 0x7f800000) == 0x7f800000 ? value : float_of((x + 0x1000) & ~0x1fffu);
}

// mma.sync: d += a * b of a warp. Fragments are laid out as the PTX ISA has it, section "Warp
// Level Matrix Fragment": with g = lane / 4 and t = lane % 4, element i of a fragment lies at
//
//             A[row][k]                                   B[k][column]             C[row][column]
//   16 bits   g + 8*(i/2 % 2), 2t + i%2 + 8*(i/4)         2t + i%2 + 8*(i/2), g    g + 8*(i/2),
//   tf32      g + 8*(i % 2), t + 4*(i/2)                  t + 4*i, g               2t + i%2
//   int8      g + 8*(i/4 % 2), 4t + i%4 + 16*(i/8)        4t + i%4 + 16*(i/4), g
//
// which is one rule: registers hold `n` elements (2, 1, 4), register r of A has row g + 8*(r % 2)
// and columns n*t + 4n*(r / 2), register r of B has rows n*t + 4n*r.

namespace simt {

template <class Element, class Sum>
inline void mma(Sum* d, const unsigned* a, const unsigned* b) {
  constexpr unsigned n = 4 / sizeof(Element), K = 8 * n;
  Warp& all = warp();
  if (all.meeting.size != WARP) fail("mma must be run by a whole warp, not by %u threads",
                                     all.meeting.size);
  std::memcpy(all.fragments[lane()], a, 16);
  std::memcpy(all.fragments[lane()] + 4, b, 8);
  meet(all.meeting, -2);
  unsigned g = lane() / 4, t = lane() % 4;
  Sum A[2][K], B[K][2];
  for (unsigned other = 0; other < 4; ++other)
    for (unsigned e = 0; e < n; ++e) {
      auto element = [&](unsigned owner, unsigned r) {
        Element value;
        std::memcpy(&value, reinterpret_cast<char*>(&all.fragments[owner][r]) + e * sizeof value,
                    sizeof value);
        return Sum(value);
      };
      for (unsigned r = 0; r < 4; ++r)
        A[r % 2][n * other + 4 * n * (r / 2) + e] = element(4 * g + other, r);
      for (unsigned r = 0; r < 2; ++r)
        for (unsigned c = 0; c < 2; ++c)
          B[n * other + 4 * n * r + e][c] = element(4 * (2 * t + c) + other, 4 + r);
    }
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < K; ++k) d[i] += A[i / 2][k] * B[k][i % 2];
  meet(all.meeting, -2);
}

struct tf32 {  // what a tensor core reads of a float: the low 13 bits are ignored
  std::uint32_t bits;
  operator float() const { return float_of(bits & ~0x1fffu); }
};

}  // namespace simt

// ldmatrix.x4 (PTX ISA, section "ldmatrix"): lane 8*m + r points to row r of tile m, 8 x 8 numbers
// of 16 bits. A lane receives two neighbours of a row of each tile: row lane / 4, columns from
// 2*(lane % 4) on; transposed, of a column: rows from 2*(lane % 4) on, column lane / 4.
template <bool transposed>
inline void ldmatrix_x4(unsigned* d, const void* row) {
  simt::Warp& all = simt::warp();
  if (all.meeting.size != simt::WARP)
    simt::fail("ldmatrix must be run by a whole warp, not by %u threads", all.meeting.size);
  if (std::uintptr_t(row) % 16) simt::fail("ldmatrix must read rows that are aligned to 16 bytes");
  all.values[simt::lane()] = std::uintptr_t(row);
  simt::meet(all.meeting, -3);
  const unsigned line = simt::lane() / 4, two = simt::lane() % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    std::uint32_t halves[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned r = transposed ? two + i : line, c = transposed ? line : two + i;
      halves[i] = reinterpret_cast<const std::uint16_t*>(all.values[8 * m + r])[c];
    }
    d[m] = halves[0] | halves[1] << 16;
  }
  simt::meet(all.meeting, -3);
}

inline void mma_m16n8k16_f16(float* d, const unsigned* a, const unsigned* b) {
  simt::mma<half>(d, a, b);
}
inline void mma_m16n8k16_bf16(float* d, const unsigned* a, const unsigned* b) {
  simt::mma<bfloat16>(d, a, b);
}
inline void mma_m16n8k8_tf32(float* d, const unsigned* a, const unsigned* b) {
  simt::mma<simt::tf32>(d, a, b);
}
inline void mma_m16n8k32_s8(int* d, const unsigned* a, const unsigned* b) {
  simt::mma<std::int8_t>(d, a, b);
}

// Units (PTX ISA, section "mbarrier"). A phase ends when all signals have come and all bytes that
// were expected have arrived; those of a copy arrive when somebody waits for them.

namespace simt {

inline Barrier& at(const void* barrier) {
  auto found = barriers.find(barrier);
  if (found == barriers.end()) fail("a barrier must be set up before it is used");
  return found->second;
}

inline void end_phase(Barrier& barrier) {
  if (barrier.pending || barrier.bytes) return;
  barrier.pending = barrier.signals;
  barrier.phase ^= 1;
}

inline void signal(Barrier& barrier) {
  if (!barrier.pending) fail("a barrier must not have more signals than it waits for");
  --barrier.pending;
  ++progress;
  end_phase(barrier);
}

// Chunks of 16 bytes change places in rows of 128, by the bits of their address.
inline std::uintptr_t swizzled(std::uintptr_t address) {
  return address ^ (address >> 7 & 7) << 4;
}

inline void deliver(Barrier& barrier) {
  for (const TensorBox& copy : barrier.copies) {
    const TensorMap& map = *copy.map;
    unsigned count = 1;
    for (unsigned d = 0; d < map.rank; ++d) count *= map.box[d];
    for (unsigned e = 0; e < count; ++e) {
      unsigned rest = e;
      bool inside = true;
      std::uint64_t from = 0;
      for (unsigned d = 0; d < map.rank; ++d, rest /= map.box[d - 1]) {
        const long long i = copy.place[d] + (long long)(rest % map.box[d]);
        inside &= i >= 0 && i < (long long)map.sizes[d];
        from += i * map.strides[d];
      }
      char* to = reinterpret_cast<char*>(
          swizzled(std::uintptr_t(copy.to) + std::uintptr_t(e) * map.element_bytes));
      if (inside) std::memcpy(to, map.address + from, map.element_bytes);
      else std::memset(to, 0, map.element_bytes);
    }
    barrier.bytes -= (long long)count * map.element_bytes;
  }
  if (!barrier.copies.empty()) ++progress;
  barrier.copies.clear();
  end_phase(barrier);
}

template <class Element, class Sum, int columns>
inline void group_add(const Product& one) {
  constexpr int K = 32 / sizeof(Element);
  const int row = current % (4 * WARP) / WARP * 16 + lane() / 4, column = lane() % 4 * 2;
  auto element = [](const char* first, int r, int k) {
    Element value;
    std::memcpy(&value, reinterpret_cast<const char*>(
        swizzled(std::uintptr_t(first) + r * 128 + k * sizeof(Element))), sizeof value);
    return Sum(value);
  };
  Sum* d = static_cast<Sum*>(one.sums);
  for (int i = 0; i < columns / 2; ++i)
    for (int k = 0; k < K; ++k)
      d[i] += element(one.a, row + i / 2 % 2 * 8, k) * element(one.b, i / 4 * 8 + column + i % 2, k);
}

// Begins a product of four warps, which all must name the same operands.
template <class Element, class Sum, int columns>
inline void group_product(Sum* d, const void* a, const void* b) {
  Group& group = groups[current / (4 * WARP)];
  if (group.meeting.size != 4 * WARP)
    fail("wgmma must be run by four whole warps, not by %u threads", group.meeting.size);
  if (std::uintptr_t(a) % 1024 >= 128 || std::uintptr_t(b) % 1024 >= 128 ||
      (std::uintptr_t(a) | std::uintptr_t(b)) % 16)
    fail("operands of wgmma must begin in the first of 8 rows of 128 bytes, aligned to 1024");
  if (!group.meeting.arrived) group.a = a, group.b = b;
  if (group.a != a || group.b != b) fail("the four warps of a wgmma must have the same operands");
  fibers[current]->products.push_back(
      {d, static_cast<const char*>(a), static_cast<const char*>(b),
       group_add<Element, Sum, columns>});
  meet(group.meeting, -4);
}

}  // namespace simt

inline void barrier_begin(unsigned long long* barrier, int signals) {
  if (simt::barriers.empty()) std::memset(block_memory, 0xCD, sizeof block_memory);
  simt::Barrier& one = simt::barriers[barrier];
  one.signals = one.pending = signals;
}
inline void barriers_begun() {}
inline void barrier_expect(unsigned long long* barrier, int bytes) {
  simt::Barrier& one = simt::at(barrier);
  one.bytes += bytes;
  simt::signal(one);
}
inline void barrier_arrive(unsigned long long* barrier, int lane) {
  simt::meet(simt::warp().meeting, -5);
  if (lane == 0) simt::signal(simt::at(barrier));
}
inline void barrier_wait(unsigned long long* barrier, int phase) {
  simt::Barrier& one = simt::at(barrier);
  while (one.phase == unsigned(phase)) {
    simt::deliver(one);
    if (one.phase == unsigned(phase)) simt::yield();
  }
}
template <int rank>
inline void tile_copy(void* tile, const TensorMap* map, unsigned long long* barrier, int x, int y,
                      int z = 0, int u = 0, int v = 0) {
  if (map->rank != rank) simt::fail("a copy must have the dimensions of its map");
  if (std::uintptr_t(tile) % 1024) simt::fail("a tile of the TMA must be aligned to 1024 bytes");
  std::uint64_t bytes = map->element_bytes;
  for (int d = 0; d < rank; ++d) bytes *= map->box[d];
  std::memset(tile, 0xCD, bytes);
  simt::at(barrier).copies.push_back({static_cast<char*>(tile), map, {x, y, z, u, v}});
}
template <int count> inline void registers_fewer() {}
template <int count> inline void registers_more() {}
inline void products_begin() {}
inline void products_end() {
  for (const simt::Product& one : simt::fibers[simt::current]->products) one.add(one);
  simt::fibers[simt::current]->products.clear();
}

#define LOCKSTEP_GROUP(columns)                                                            \
  inline void wgmma_m64n##columns##k16_f16(float* d, const void* a, const void* b) {       \
    simt::group_product<half, float, columns>(d, a, b);                                    \
  }                                                                                        \
  inline void wgmma_m64n##columns##k16_bf16(float* d, const void* a, const void* b) {      \
    simt::group_product<bfloat16, float, columns>(d, a, b);                                \
  }                                                                                        \
  inline void wgmma_m64n##columns##k32_s8(int* d, const void* a, const void* b) {          \
    simt::group_product<signed char, int, columns>(d, a, b);                               \
  }
LOCKSTEP_GROUP(8)
LOCKSTEP_GROUP(16)
LOCKSTEP_GROUP(32)
LOCKSTEP_GROUP(64)
LOCKSTEP_GROUP(96)
LOCKSTEP_GROUP(128)
LOCKSTEP_GROUP(192)
LOCKSTEP_GROUP(256)
#undef LOCKSTEP_GROUP
