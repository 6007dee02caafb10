#ifdef __AVX512F__
#ifndef __clang__
// GCC 12's own headers of these vectors initialise a value with itself.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define GD2FS_SUM sum_avx512
#include "checksum_kernel.h"
#endif
