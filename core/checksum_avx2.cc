#ifdef __AVX2__
#define GD2FS_SUM sum_avx2
#include "checksum_kernel.h"
#endif
