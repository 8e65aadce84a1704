// algorithm
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h = 0; y_h < 64; ++y_h) {
      for (int y_w = 0; y_w < 64; ++y_w) {
        y[y_c * 4096 + y_h * 64 + y_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            y[y_c * 4096 + y_h * 64 + y_w] += padded[y_c * 4356 + (y_h + dh) * 66 + y_w + dw] *
                weight[y_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
}

// cache_write(y, local, name=total)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ padded,
                     float* __restrict__ y) {
  float total[2][64][64];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 2; ++total_c) {
    for (int total_h = 0; total_h < 64; ++total_h) {
      for (int total_w = 0; total_w < 64; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 4356 + (total_h + dh) * 66 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h = 0; y_h < 64; ++y_h)
      for (int y_w = 0; y_w < 64; ++y_w) y[y_c * 4096 + y_h * 64 + y_w] = total[y_c][y_h][y_w];
  }
}

// tile(y_h, y_w, 32, 32)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ padded,
                     float* __restrict__ y) {
  float total[2][64][64];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 2; ++total_c) {
    for (int total_h = 0; total_h < 64; ++total_h) {
      for (int total_w = 0; total_w < 64; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 4356 + (total_h + dh) * 66 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h_o = 0; y_h_o < 2; ++y_h_o) {
      for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
        for (int y_h_i = 0; y_h_i < 32; ++y_h_i) {
          for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
            y[y_c * 4096 + (y_h_o * 32 + y_h_i) * 64 + y_w_o * 32 + y_w_i] = total[y_c][y_h_o * 32
                + y_h_i][y_w_o * 32 + y_w_i];
          }
        }
      }
    }
  }
}

// split(y_h_i, 4)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ padded,
                     float* __restrict__ y) {
  float total[2][64][64];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 2; ++total_c) {
    for (int total_h = 0; total_h < 64; ++total_h) {
      for (int total_w = 0; total_w < 64; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 4356 + (total_h + dh) * 66 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h_o = 0; y_h_o < 2; ++y_h_o) {
      for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
        for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
          for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
            for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
              y[y_c * 4096 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + y_w_o * 32 + y_w_i] =
                  total[y_c][y_h_o * 32 + y_h_i_o * 4 + y_h_i_i][y_w_o * 32 + y_w_i];
            }
          }
        }
      }
    }
  }
}

// reorder(y_h_i_i, y_w_i, y_h_i_o)
extern "C" __global__ void __launch_bounds__(1, 16)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ padded,
                     float* __restrict__ y) {
  float total[2][64][64];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
  for (int total_c = 0; total_c < 2; ++total_c) {
    for (int total_h = 0; total_h < 64; ++total_h) {
      for (int total_w = 0; total_w < 64; ++total_w) {
        total[total_c][total_h][total_w] = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total[total_c][total_h][total_w] += padded[total_c * 4356 + (total_h + dh) * 66 +
                total_w + dw] * weight[total_c * 9 + dh * 3 + dw];
          }
        }
      }
    }
  }
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h_o = 0; y_h_o < 2; ++y_h_o) {
      for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
        for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
          for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
            for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
              y[y_c * 4096 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + y_w_o * 32 + y_w_i] =
                  total[y_c][y_h_o * 32 + y_h_i_o * 4 + y_h_i_i][y_w_o * 32 + y_w_i];
            }
          }
        }
      }
    }
  }
}

// compute_at(total, y_h_i_o)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  for (int y_c = 0; y_c < 2; ++y_c) {
    for (int y_h_o = 0; y_h_o < 2; ++y_h_o) {
      for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
        for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
          for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
            for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
              float total = -0.0f;
              for (int dh = 0; dh < 3; ++dh) {
                for (int dw = 0; dw < 3; ++dw) {
                  total += padded[y_c * 4356 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i + dh) * 66 +
                      y_w_o * 32 + y_w_i + dw] * weight[y_c * 9 + dh * 3 + dw];
                }
              }
              y[y_c * 4096 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + y_w_o * 32 + y_w_i] =
                  total;
            }
          }
        }
      }
    }
  }
}

// bind(y_c, blockIdx.z)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bz = blockIdx.z;
  for (int y_h_o = 0; y_h_o < 2; ++y_h_o) {
    for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
      for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
        for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
          for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
            float total = -0.0f;
            for (int dh = 0; dh < 3; ++dh) {
              for (int dw = 0; dw < 3; ++dw) {
                total += padded[bz * 4356 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i + dh) * 66 + y_w_o
                    * 32 + y_w_i + dw] * weight[bz * 9 + dh * 3 + dw];
              }
            }
            y[bz * 4096 + (y_h_o * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + y_w_o * 32 + y_w_i] = total;
          }
        }
      }
    }
  }
}

// bind(y_h_o, blockIdx.y)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int by = blockIdx.y, bz = blockIdx.z;
  for (int y_w_o = 0; y_w_o < 2; ++y_w_o) {
    for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
      for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
        for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
          float total = -0.0f;
          for (int dh = 0; dh < 3; ++dh) {
            for (int dw = 0; dw < 3; ++dw) {
              total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + y_h_i_i + dh) * 66 + y_w_o * 32
                  + y_w_i + dw] * weight[bz * 9 + dh * 3 + dw];
            }
          }
          y[bz * 4096 + (by * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + y_w_o * 32 + y_w_i] = total;
        }
      }
    }
  }
}

// bind(y_w_o, blockIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1, 16)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  for (int y_h_i_i = 0; y_h_i_i < 4; ++y_h_i_i) {
    for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
      for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
        float total = -0.0f;
        for (int dh = 0; dh < 3; ++dh) {
          for (int dw = 0; dw < 3; ++dw) {
            total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + y_h_i_i + dh) * 66 + bx * 32 +
                y_w_i + dw] * weight[bz * 9 + dh * 3 + dw];
          }
        }
        y[bz * 4096 + (by * 32 + y_h_i_o * 4 + y_h_i_i) * 64 + bx * 32 + y_w_i] = total;
      }
    }
  }
}

// bind(y_h_i_i, threadIdx.y)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(4, 16)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int ty = threadIdx.y;
  for (int y_w_i = 0; y_w_i < 32; ++y_w_i) {
    for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
      float total = -0.0f;
      for (int dh = 0; dh < 3; ++dh) {
        for (int dw = 0; dw < 3; ++dw) {
          total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + ty + dh) * 66 + bx * 32 + y_w_i +
              dw] * weight[bz * 9 + dh * 3 + dw];
        }
      }
      y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + y_w_i] = total;
    }
  }
}

// bind(y_w_i, threadIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128, 4)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw) {
        total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + ty + dh) * 66 + bx * 32 + tx + dw] *
            weight[bz * 9 + dh * 3 + dw];
      }
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// cache_read(weight, shared, name=filter)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float filter[2][3][3];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        if (bx == 0 && by == 0 && bz == 0 && tx == 0 && ty == 0) {
          padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
              padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
              padded_w - 1] : 0.0f;
        }
      }
    }
  }
  for (int filter_0 = 0; filter_0 < 2; ++filter_0) {
    for (int filter_1 = 0; filter_1 < 3; ++filter_1) {
      for (int filter_2 = 0; filter_2 < 3; ++filter_2) {
        if (bx == 0 && by == 0 && bz == 0 && tx == 0 && ty == 0)
          filter[filter_0][filter_1][filter_2] = weight[filter_0 * 9 + filter_1 * 3 + filter_2];
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw) {
        total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + ty + dh) * 66 + bx * 32 + tx + dw] *
            filter[bz][dh][dw];
      }
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// compute_at(filter, y_w_o)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128, 4)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1) {
    for (int filter_2 = 0; filter_2 < 3; ++filter_2)
      if (tx == 0 && ty == 0) filter[filter_1][filter_2] = weight[bz * 9 + filter_1 * 3 + filter_2];
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw) {
        total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + ty + dh) * 66 + bx * 32 + tx + dw] *
            filter[dh][dw];
      }
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// bind(filter_2, threadIdx.x)
extern "C" __global__ void __launch_bounds__(1)
k0_depthwise_squares(const float* __restrict__ image, float* __restrict__ padded) {
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        padded[padded_c * 4356 + padded_h * 66 + padded_w] = (padded_h >= 1 && padded_h < 65 &&
            padded_w >= 1 && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 +
            padded_w - 1] : 0.0f;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128, 4)
k1_depthwise_squares(const float* __restrict__ weight,
                     const float* __restrict__ padded,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw) {
        total += padded[bz * 4356 + (by * 32 + y_h_i_o * 4 + ty + dh) * 66 + bx * 32 + tx + dw] *
            filter[dh][dw];
      }
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// set_scope(padded, shared)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[2][66][66];
  __shared__ __align__(16) float filter[3][3];
  for (int padded_c = 0; padded_c < 2; ++padded_c) {
    for (int padded_h = 0; padded_h < 66; ++padded_h) {
      for (int padded_w = 0; padded_w < 66; ++padded_w) {
        if (bx == 0 && by == 0 && bz == 0 && tx == 0 && ty == 0) {
          padded[padded_c][padded_h][padded_w] = (padded_h >= 1 && padded_h < 65 && padded_w >= 1
              && padded_w < 65) ? image[padded_c * 4096 + (padded_h - 1) * 64 + padded_w - 1] :
              0.0f;
        }
      }
    }
  }
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[bz][by * 32 + y_h_i_o * 4 + ty + dh][bx * 32 + tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// compute_at(padded, y_w_o)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[34][34];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  for (int padded_h = 0; padded_h < 34; ++padded_h) {
    for (int padded_w = 0; padded_w < 34; ++padded_w) {
      if (tx == 0 && ty == 0) {
        padded[padded_h][padded_w] = (by * 32 + padded_h >= 1 && by * 32 + padded_h < 65 && bx * 32
            + padded_w >= 1 && bx * 32 + padded_w < 65) ? image[bz * 4096 + (by * 32 + padded_h -
            1) * 64 + bx * 32 + padded_w - 1] : 0.0f;
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h_i_o * 4 + ty + dh][tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// split(padded_h, 4)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[34][34];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  for (int padded_h_o = 0; padded_h_o < 9; ++padded_h_o) {
    for (int padded_h_i = 0; padded_h_i < 4; ++padded_h_i) {
      if (padded_h_o * 4 + padded_h_i < 34) {
        for (int padded_w = 0; padded_w < 34; ++padded_w) {
          if (tx == 0 && ty == 0) {
            padded[padded_h_o * 4 + padded_h_i][padded_w] = (by * 32 + padded_h_o * 4 + padded_h_i
                >= 1 && by * 32 + padded_h_o * 4 + padded_h_i < 65 && bx * 32 + padded_w >= 1 && bx
                * 32 + padded_w < 65) ? image[bz * 4096 + (by * 32 + padded_h_o * 4 + padded_h_i -
                1) * 64 + bx * 32 + padded_w - 1] : 0.0f;
          }
        }
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h_i_o * 4 + ty + dh][tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// bind(padded_h_i, threadIdx.y)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[34][34];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  for (int padded_h_o = 0; padded_h_o < 9; ++padded_h_o) {
    if (padded_h_o * 4 + ty < 34) {
      for (int padded_w = 0; padded_w < 34; ++padded_w) {
        if (tx == 0) {
          padded[padded_h_o * 4 + ty][padded_w] = (by * 32 + padded_h_o * 4 + ty >= 1 && by * 32 +
              padded_h_o * 4 + ty < 65 && bx * 32 + padded_w >= 1 && bx * 32 + padded_w < 65) ?
              image[bz * 4096 + (by * 32 + padded_h_o * 4 + ty - 1) * 64 + bx * 32 + padded_w - 1]
              : 0.0f;
        }
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h_i_o * 4 + ty + dh][tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// split(padded_w, 32)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[34][34];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  for (int padded_h_o = 0; padded_h_o < 9; ++padded_h_o) {
    if (padded_h_o * 4 + ty < 34) {
      for (int padded_w_o = 0; padded_w_o < 2; ++padded_w_o) {
        for (int padded_w_i = 0; padded_w_i < 32; ++padded_w_i) {
          if (padded_w_o * 32 + padded_w_i < 34 && tx == 0) {
            padded[padded_h_o * 4 + ty][padded_w_o * 32 + padded_w_i] = (by * 32 + padded_h_o * 4 +
                ty >= 1 && by * 32 + padded_h_o * 4 + ty < 65 && bx * 32 + padded_w_o * 32 +
                padded_w_i >= 1 && bx * 32 + padded_w_o * 32 + padded_w_i < 65) ? image[bz * 4096 +
                (by * 32 + padded_h_o * 4 + ty - 1) * 64 + bx * 32 + padded_w_o * 32 + padded_w_i -
                1] : 0.0f;
          }
        }
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h_i_o * 4 + ty + dh][tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}

// bind(padded_w_i, threadIdx.x)
extern "C" __global__ void __launch_bounds__(128, 4)
k0_depthwise_squares(const float* __restrict__ image,
                     const float* __restrict__ weight,
                     float* __restrict__ y) {
  const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float padded[34][34];
  __shared__ __align__(16) float filter[3][3];
  for (int filter_1 = 0; filter_1 < 3; ++filter_1)
    if (tx < 3 && ty == 0) filter[filter_1][tx] = weight[bz * 9 + filter_1 * 3 + tx];
  for (int padded_h_o = 0; padded_h_o < 9; ++padded_h_o) {
    if (padded_h_o * 4 + ty < 34) {
      for (int padded_w_o = 0; padded_w_o < 2; ++padded_w_o) {
        if (padded_w_o * 32 + tx < 34) {
          padded[padded_h_o * 4 + ty][padded_w_o * 32 + tx] = (by * 32 + padded_h_o * 4 + ty >= 1
              && by * 32 + padded_h_o * 4 + ty < 65 && bx * 32 + padded_w_o * 32 + tx >= 1 && bx *
              32 + padded_w_o * 32 + tx < 65) ? image[bz * 4096 + (by * 32 + padded_h_o * 4 + ty -
              1) * 64 + bx * 32 + padded_w_o * 32 + tx - 1] : 0.0f;
        }
      }
    }
  }
  __syncthreads();
  for (int y_h_i_o = 0; y_h_i_o < 8; ++y_h_i_o) {
    float total = -0.0f;
    for (int dh = 0; dh < 3; ++dh) {
      for (int dw = 0; dw < 3; ++dw)
        total += padded[y_h_i_o * 4 + ty + dh][tx + dw] * filter[dh][dw];
    }
    y[bz * 4096 + (by * 32 + y_h_i_o * 4 + ty) * 64 + bx * 32 + tx] = total;
  }
}
