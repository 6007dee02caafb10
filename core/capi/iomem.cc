#include "iomem.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <limits>

#include "../buffer_list.h"
#include "../cuda.h"

namespace gd2fs::capi {

namespace {

constexpr std::size_t LINE_BYTES_MAX = 4096 + 128;  // a path, and what stands before it

struct Rights {
  bool is_readable = true;
  bool is_writable = true;
};

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

/// Of all of [begin, end), as the kernel lists it: sorted, `START-END rwxp ...`.
Rights rights_of(std::uint64_t begin, std::uint64_t end) {
  const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
  char line[LINE_BYTES_MAX];
  Rights rights;
  while (maps && begin < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    std::uint64_t first = 0, stop = 0;
    char flags[5] = "";
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &first, &stop, flags) != 3) continue;
    if (stop <= begin) continue;
    if (first > begin || flags[0] != 'r') return {false, false};
    rights.is_writable = rights.is_writable && flags[1] == 'w';
    begin = stop;
  }
  return begin >= end ? rights : Rights{false, false};
}

bool is_inside(const xfer_gd2fs_sge& sge, const xfer_gd2fs_iomem& iomem) {
  const auto at = reinterpret_cast<std::uintptr_t>(sge.addr);  // compared as numbers only
  const auto begin = reinterpret_cast<std::uintptr_t>(iomem.begin);
  return at >= begin && at - begin <= iomem.bytes && sge.len <= iomem.bytes - (at - begin);
}

}  // namespace

xfer_gd2fs_iomem* Iomems::add(void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);  // compared as numbers only
  if (begin == 0 || bytes == 0) return nullptr;
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - begin) return nullptr;
  const bool is_device = cuda::is_device_memory(address, bytes);
  const Rights rights = is_device ? Rights{} : rights_of(begin, begin + bytes);
  if (!rights.is_readable) return nullptr;
  auto iomem = std::make_unique<xfer_gd2fs_iomem>();
  iomem->begin = static_cast<std::byte*>(address);
  iomem->bytes = bytes;
  iomem->is_writable = rights.is_writable;
  xfer_gd2fs_iomem* const added = iomem.get();
  registered_.emplace(added, std::move(iomem));
  return added;
}

int Iomems::drop(const xfer_gd2fs_iomem* iomem, Buffer& memory) {
  const auto found = registered_.find(iomem);
  if (found == registered_.end()) return -EINVAL;
  if (found->second->uses != 0) return -EBUSY;
  memory = {found->second->begin, found->second->bytes};
  registered_.erase(found);
  return 0;
}

std::string Iomems::check(std::span<const xfer_gd2fs_sge> sges, bool is_written,
                          CheckedList& out) const {
  for (std::size_t at = 0; at < sges.size(); ++at) {
    const xfer_gd2fs_sge& sge = sges[at];
    if (sge.len == 0) continue;
    const std::string which = "sge " + std::to_string(at);
    const auto found = registered_.find(sge.iomem);
    if (found == registered_.end()) return which + " has no registered iomem";
    if (!is_inside(sge, *found->second)) return which + " lies outside its iomem";
    if (is_written && !found->second->is_writable) return which + " cannot be written to";
    out.buffers.push_back({static_cast<std::byte*>(sge.addr), sge.len});
    out.memories.push_back(found->second.get());
  }
  std::sort(out.memories.begin(), out.memories.end());
  const auto last = std::unique(out.memories.begin(), out.memories.end());
  out.memories.erase(last, out.memories.end());
  return buffers_fault(out.buffers, is_written);
}

}  // namespace gd2fs::capi
