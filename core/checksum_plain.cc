#define GD2FS_SUM sum_plain
#include "checksum_kernel.h"
