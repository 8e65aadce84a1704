inline __attribute__((always_inline)) float nan_max(float a, float b) {  // NaN wins
  return a > b || a != a ? a : b;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
k0_softmax(__global const float* restrict x, __global float* restrict y) {
  const int bx = get_group_id(0);
  const int tx = get_local_id(0);
  __local float top;
  __local __attribute__((aligned(16))) float e[200];
  __local float total;
  __local __attribute__((aligned(16))) float top_tree[64];
  __local __attribute__((aligned(16))) float total_tree[64];
  {
    float top_part = -INFINITY;
    for (int k_o = 0; k_o < 4; ++k_o) {
      if (k_o * 64 + tx < 200)
        top_part = nan_max(top_part, x[bx * 200 + k_o * 64 + tx]);
    }
    top_tree[tx] = top_part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 32)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 32]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 16)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 16]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 8)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 8]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 4)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 4]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 2)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 2]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 1)
      top_tree[tx] = nan_max(top_tree[tx], top_tree[tx + 1]);
    if (tx == 0) top = top_tree[0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e_j_o = 0; e_j_o < 4; ++e_j_o)
    if (e_j_o * 64 + tx < 200) e[e_j_o * 64 + tx] = exp(x[bx * 200 + e_j_o * 64 + tx] - top);
  {
    float total_part = -0.0f;
    for (int l_o = 0; l_o < 4; ++l_o) {
      if (l_o * 64 + tx < 200)
        total_part += e[l_o * 64 + tx];
    }
    total_tree[tx] = total_part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 32)
      total_tree[tx] += total_tree[tx + 32];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 16)
      total_tree[tx] += total_tree[tx + 16];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 8)
      total_tree[tx] += total_tree[tx + 8];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 4)
      total_tree[tx] += total_tree[tx + 4];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 2)
      total_tree[tx] += total_tree[tx + 2];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tx < 1)
      total_tree[tx] += total_tree[tx + 1];
    if (tx == 0) total = total_tree[0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int y_j_o = 0; y_j_o < 4; ++y_j_o)
    if (y_j_o * 64 + tx < 200) y[bx * 200 + y_j_o * 64 + tx] = e[y_j_o * 64 + tx] / total;
}
