// Compile without fast math: NaN and the order of sums are meant.
#include <metal_stdlib>
using namespace metal;

inline float nan_max(float a, float b) {  // NaN wins
  return a > b || a != a ? a : b;
}

[[max_total_threads_per_threadgroup(64)]]
kernel void
k0_softmax(device const float* x [[buffer(0)]],
           device float* y [[buffer(1)]],
           uint3 block_place [[threadgroup_position_in_grid]],
           uint3 thread_place [[thread_position_in_threadgroup]]) {
  const int bx = block_place.x;
  const int tx = thread_place.x;
  threadgroup float top;
  threadgroup __attribute__((aligned(16))) float e[200];
  threadgroup float total;
  threadgroup __attribute__((aligned(16))) float top_tree[64];
  threadgroup __attribute__((aligned(16))) float total_tree[64];
  {
    float top_part = -INFINITY;
    for (int k_o = 0; k_o < 4; ++k_o) {
      if (k_o * 64 + tx < 200)
        top_part = nan_max(top_part, x[bx * 200 + k_o * 64 + tx]);
    }
    top_tree[tx] = top_part;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 32)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 32]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 16)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 16]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 8)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 8]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 4)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 4]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 2)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 2]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 1)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 1]);
    if (tx == 0) top = top_tree[0];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int e_j_o = 0; e_j_o < 4; ++e_j_o)
    if (e_j_o * 64 + tx < 200) e[e_j_o * 64 + tx] = exp(x[bx * 200 + e_j_o * 64 + tx] - top);
  {
    float total_part = -0.0f;
    for (int l_o = 0; l_o < 4; ++l_o) {
      if (l_o * 64 + tx < 200)
        total_part += e[l_o * 64 + tx];
    }
    total_tree[tx] = total_part;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 32)
      total_tree[tx] += total_tree[tx + 32];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 16)
      total_tree[tx] += total_tree[tx + 16];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 8)
      total_tree[tx] += total_tree[tx + 8];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 4)
      total_tree[tx] += total_tree[tx + 4];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 2)
      total_tree[tx] += total_tree[tx + 2];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tx < 1)
      total_tree[tx] += total_tree[tx + 1];
    if (tx == 0) total = total_tree[0];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int y_j_o = 0; y_j_o < 4; ++y_j_o)
    if (y_j_o * 64 + tx < 200) y[bx * 200 + y_j_o * 64 + tx] = e[y_j_o * 64 + tx] / total;
}
