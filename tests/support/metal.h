// What a text in Metal needs to be C++ for `emulation.h`, which is included before.

struct uint3 { unsigned x, y, z; };
struct mem_flags { enum { mem_threadgroup = 1, mem_device = 2 }; };
template <class To, class From>
To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}
#define half _Float16           // the header before has structures and functions of these names
#define to_tf32 metal_to_tf32
using uchar = unsigned char;
using ulong = unsigned long;
struct alignas(16) long2 { long x, y; };
using std::acosh, std::asinh, std::atanh, std::ceil, std::copysign, std::trunc, std::exp, std::fabs, std::floor, std::fma,
    std::fmod, std::max, std::min, std::pow, std::sqrt, std::tanh;

#define threadgroup_barrier(flags) __syncthreads()
#define kernel
#define device
#define constant const
#define thread
#define threadgroup  // of a declaration, the test makes it `static`
