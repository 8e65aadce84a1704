"""Helpers of printed CUDA for compute capability 9.0: barriers of units, copies by the TMA,
products of groups of four warps. ``emulation.h`` has the same functions for the host.

Sources: PTX ISA, sections "mbarrier", "cp.async.bulk.tensor", "setmaxnreg" and "Asynchronous
Warpgroup Level Matrix Instructions".
"""

COLUMNS_OF_GROUPS = (8, 16, 32, 64, 96, 128, 192, 256)
"""Columns of a product, of those that all kinds have."""

GROUP_PRODUCTS = {"f16": (16, "f32.f16.f16"), "bf16": (16, "f32.bf16.bf16"),
                  "s8": (32, "s32.s8.s8")}
"""Steps of a product and its types in PTX."""

UNITS_TEXT = """\
struct __align__(64) TensorMap { unsigned char bytes[128]; };  // as the driver encodes it
extern __shared__ __align__(1024) unsigned char block_memory[];
%fn%unsigned shared_place(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
%fn%void barrier_begin(unsigned long long* barrier, int signals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_place(barrier)), "r"(signals) : "memory");
}
%fn%void barriers_begun() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}
%fn%void barrier_expect(unsigned long long* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_place(barrier)), "r"(bytes) : "memory");
}
%fn%void barrier_arrive(unsigned long long* barrier, int lane) {  // once for all threads of a warp
  __syncwarp();
  if (lane == 0)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(shared_place(barrier)) : "memory");
}
%fn%void barrier_wait(unsigned long long* barrier, int phase) {
  unsigned ended = 0;
  while (!ended)
    asm volatile("{\\n.reg .pred p;\\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n"
                 "selp.u32 %0, 1, 0, p;\\n}"
                 : "=r"(ended) : "r"(shared_place(barrier)), "r"(phase) : "memory");
}
template <int rank>  // the first place is that in a row
%fn%void tile_copy(void* tile, const TensorMap* map, unsigned long long* barrier, int x, int y,
                   int z = 0, int u = 0, int v = 0) {
  const unsigned to = shared_place(tile), at = shared_place(barrier);
  if (rank == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(to), "l"(map), "r"(at), "r"(x), "r"(y) : "memory");
  else if (rank == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(to), "l"(map), "r"(at), "r"(x), "r"(y), "r"(z) : "memory");
  else if (rank == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];"
                 :: "r"(to), "l"(map), "r"(at), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 :: "r"(to), "l"(map), "r"(at), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
                 : "memory");
}
template <int count>
%fn%void registers_fewer() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count>
%fn%void registers_more() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
%fn%void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
%fn%void products_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
%fn%unsigned long long tile_rows(const void* first) {  // 8 rows of 128 bytes after each other
  return (shared_place(first) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
"""


def group_product(kind: str, columns: int) -> tuple[str, str]:
    """Name and text of the function that adds a product, in place."""
    depth, types = GROUP_PRODUCTS[kind]
    letter, total = ("r", "int") if kind == "s8" else ("f", "float")
    count = columns // 2
    shape = f"m64n{columns}k{depth}"
    name = f"wgmma_{shape}_{kind}"
    sums = _lines([f"%{i}" for i in range(count)], ', "\n      "')
    held = _lines([f'"+{letter}"(d[{i}])' for i in range(count)], ",\n        ")
    scales = "" if kind == "s8" else ", 1, 1, 0, 0"
    return name, f"""\
%fn%void {name}({total}* d, const void* a, const void* b) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
      "wgmma.mma_async.sync.aligned.{shape}.{types} {{"
      "{sums}"
      "}}, %{count}, %{count + 1}, p{scales};\\n}}"
      : {held}
      : "l"(tile_rows(a)), "l"(tile_rows(b)), "r"(1));
}}
"""


def _lines(parts: list[str], between: str) -> str:
    """Six a line."""
    lines = [", ".join(parts[first:first + 6]) for first in range(0, len(parts), 6)]
    return between.join(lines)
