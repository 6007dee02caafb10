// Iomem: registered memory of the process. What requests may touch is checked against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "../client.h"
#include "xfer/gd2fs.h"

/// One registration. `begin` and `bytes` never change.
struct xfer_gd2fs_iomem {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool is_writable = false;  // when it was registered
  std::uint64_t uses = 0;    // by requests that were not handed out yet
};

namespace gd2fs::capi {

/// A scatter list that was checked.
struct CheckedList {
  std::vector<Buffer> buffers;
  std::vector<xfer_gd2fs_iomem*> memories;  // each once
};

/// All registrations of one context. The context's lock guards it.
class Iomems {
 public:
  /// Nullptr when not all of it is mapped and readable.
  xfer_gd2fs_iomem* add(void* address, std::size_t bytes);
  /// 0, -EINVAL or -EBUSY. With 0 `memory` is what it was.
  int drop(const xfer_gd2fs_iomem* iomem, Buffer& memory);
  /// Nothing wrong: an empty string, and `out` is filled. Else one line.
  std::string check(std::span<const xfer_gd2fs_sge> sges, bool is_written, CheckedList& out) const;

 private:
  std::unordered_map<const xfer_gd2fs_iomem*, std::unique_ptr<xfer_gd2fs_iomem>> registered_;
};

}  // namespace gd2fs::capi
