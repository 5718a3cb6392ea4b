/* For processors of x86 with AVX-512. */
#include "step.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#define LANES 16
#define OPERATIONS aline_avx512
#include "columns.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
