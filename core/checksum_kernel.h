// Checksum kernels: the same sum, compiled once per instruction set, each in a file of its own.
//
// Such a file includes nothing but this and xxhash (all of it static): of an inline function that
// others have too the linker could take the copy that only this machine's newer vectors can run.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace gd2fs::kernel {

struct Run {
  const void* at;
  size_t bytes;
};
using Sum = uint64_t (*)(const Run* runs, size_t count);

uint64_t sum_plain(const Run* runs, size_t count);
uint64_t sum_avx2(const Run* runs, size_t count);
uint64_t sum_avx512(const Run* runs, size_t count);

}  // namespace gd2fs::kernel

// The body: xxhash chooses its vectors by what the file is compiled for.
#ifdef GD2FS_SUM
#include <xxhash.h>

uint64_t gd2fs::kernel::GD2FS_SUM(const Run* runs, size_t count) {
  if (count == 1) return XXH3_64bits(runs[0].at, runs[0].bytes);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t index = 0; index < count; ++index) {
    XXH3_64bits_update(&state, runs[index].at, runs[index].bytes);
  }
  return XXH3_64bits_digest(&state);
}
#endif
