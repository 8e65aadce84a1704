// algorithm
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  for (int y_c = 0; y_c < 4; ++y_c) {
    for (int y_h = 0; y_h < 16; ++y_h) {
      for (int y_w = 0; y_w < 16; ++y_w) {
        y[y_c * 256 + y_h * 16 + y_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            y[y_c * 256 + y_h * 16 + y_w] += padded[y_c * 324 + (y_h + dh) * 18 + y_w + dw] *
                weight[y_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
}

// cache_write(y, local, name=total)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ padded,
                      float* __restrict__ y) {
  float total[4][16][16];
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 4; ++total_c) {
    for (int total_h = 0; total_h < 16; ++total_h) {
      for (int total_w = 0; total_w < 16; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 324 + (total_h + dh) * 18 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 4; ++y_c) {
    for (int y_h = 0; y_h < 16; ++y_h)
      for (int y_w = 0; y_w < 16; ++y_w) y[y_c * 256 + y_h * 16 + y_w] = total[y_c][y_h][y_w];
  }
}

// reorder(y_w, y_h)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ padded,
                      float* __restrict__ y) {
  float total[4][16][16];
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 4; ++total_c) {
    for (int total_h = 0; total_h < 16; ++total_h) {
      for (int total_w = 0; total_w < 16; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 324 + (total_h + dh) * 18 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 4; ++y_c) {
    for (int y_w = 0; y_w < 16; ++y_w)
      for (int y_h = 0; y_h < 16; ++y_h) y[y_c * 256 + y_h * 16 + y_w] = total[y_c][y_h][y_w];
  }
}

// compute_at(total, y_h)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  for (int y_c = 0; y_c < 4; ++y_c) {
    for (int y_w = 0; y_w < 16; ++y_w) {
      for (int y_h = 0; y_h < 16; ++y_h) {
        float total = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw)
            total += padded[y_c * 324 + (y_h + dh) * 18 + y_w + dw] * weight[y_c * 9 + dh * 3 + dw];
        }
        y[y_c * 256 + y_h * 16 + y_w] = total;
      }
    }
  }
}

// bind(y_c, blockIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  for (int y_w = 0; y_w < 16; ++y_w) {
    for (int y_h = 0; y_h < 16; ++y_h) {
      float total = -0.0f;
      for (int dh = 0; dh < 3; ++dh) {
        for (int dw = 0; dw < 3; ++dw)
          total += padded[bx * 324 + (y_h + dh) * 18 + y_w + dw] * weight[bx * 9 + dh * 3 + dw];
      }
      y[bx * 256 + y_h * 16 + y_w] = total;
    }
  }
}

// bind(y_w, threadIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(16, 16)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bx * 324 + (y_h + dh) * 18 + tx + dw] * weight[bx * 9 + dh * 3 + dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// cache_read(weight, shared, name=filter)
extern "C" __global__ void __launch_bounds__(16, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ padded,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float filter[4][3][3];
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        if (bx == 0 && tx == 0) {
          padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
              padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 +
              padded_w - 1] : 0.0f;
        }
      }
    }
  }
  for (int filter_0 = 0; filter_0 < 4; ++filter_0) {
    for (int filter_1 = 0; filter_1 < 3; ++filter_1) {
      for (int filter_2 = 0; filter_2 < 3; ++filter_2) {
        if (bx == 0 && tx == 0)
          filter[filter_0][filter_1][filter_2] = weight[filter_0 * 9 + filter_1 * 3 + filter_2];
      }
    }
  }
  __syncthreads();
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bx * 324 + (y_h + dh) * 18 + tx + dw] * filter[bx][dh][dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// compute_at(filter, y_c)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(16, 16)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1) {
    for (int filter_2 = 0; filter_2 < 3; ++filter_2)
      if (tx == 0) filter[filter_1][filter_2] = weight[bx * 9 + filter_1 * 3 + filter_2];
  }
  __syncthreads();
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bx * 324 + (y_h + dh) * 18 + tx + dw] * filter[dh][dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// bind(filter_2, threadIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_channels(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        padded[padded_c * 324 + padded_h * 18 + padded_w] = (padded_h >= 1 && padded_h < 17 &&
            padded_w >= 1 && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w
            - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(16, 16)
k1_depthwise_channels(const float* __restrict__ weight,
                      const float* __restrict__ padded,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3) filter[filter_1][tx] = weight[bx * 9 + filter_1 * 3 + tx];
  __syncthreads();
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bx * 324 + (y_h + dh) * 18 + tx + dw] * filter[dh][dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// set_scope(padded, shared)
extern "C" __global__ void __launch_bounds__(16, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float padded[4][18][18];
  __shared__ __align__(16) float filter[3][3];
  for (int padded_c = 0; padded_c < 4; ++padded_c) {
    for (int padded_h = 0; padded_h < 18; ++padded_h) {
      for (int padded_w = 0; padded_w < 18; ++padded_w) {
        if (bx == 0 && tx == 0) {
          padded[padded_c][padded_h][padded_w] = (padded_h >= 1 && padded_h < 17 && padded_w >= 1
              && padded_w < 17) ? image[padded_c * 256 + (padded_h - 1) * 16 + padded_w - 1] : 0.0f;
        }
      }
    }
  }
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3) filter[filter_1][tx] = weight[bx * 9 + filter_1 * 3 + tx];
  __syncthreads();
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bx][y_h + dh][tx + dw] * filter[dh][dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// compute_at(padded, y_c)
extern "C" __global__ void __launch_bounds__(16, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float padded[18][18];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3) filter[filter_1][tx] = weight[bx * 9 + filter_1 * 3 + tx];
  for (int padded_h = 0; padded_h < 18; ++padded_h) {
    for (int padded_w = 0; padded_w < 18; ++padded_w) {
      if (tx == 0) {
        padded[padded_h][padded_w] = (padded_h >= 1 && padded_h < 17 && padded_w >= 1 && padded_w <
            17) ? image[bx * 256 + (padded_h - 1) * 16 + padded_w - 1] : 0.0f;
      }
    }
  }
  __syncthreads();
  for (int y_h = 0; y_h < 16; ++y_h) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h + dh][tx + dw] * filter[dh][dw];
    }
    y[bx * 256 + y_h * 16 + tx] = total;
  }
}

// bind(padded_w, threadIdx.x)
extern "C" __global__ void __launch_bounds__(18, 16)
k0_depthwise_channels(const float* __restrict__ image,
                      const float* __restrict__ weight,
                      float* __restrict__ y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float padded[18][18];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3) filter[filter_1][tx] = weight[bx * 9 + filter_1 * 3 + tx];
  for (int padded_h = 0; padded_h < 18; ++padded_h) {
    padded[padded_h][tx] = (padded_h >= 1 && padded_h < 17 && tx >= 1 && tx < 17) ? image[bx * 256
        + (padded_h - 1) * 16 + tx - 1] : 0.0f;
  }
  __syncthreads();
  if (tx < 16) {
    for (int y_h = 0; y_h < 16; ++y_h) {
      float total = -0.0f;
      for (int dh = 0; dh < 3; ++dh) {
        for (int dw = 0; dw < 3; ++dw)
          total += padded[y_h + dh][tx + dw] * filter[dh][dw];
      }
      y[bx * 256 + y_h * 16 + tx] = total;
    }
  }
}
