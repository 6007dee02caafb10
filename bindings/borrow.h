// Borrow: Python's keys and buffers as the core wants them.
//
// A Borrowed holds the buffer views of one call, so that no owner can free or resize its memory
// while an operation uses it. Made, changed and destroyed with the GIL held.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../core/client.h"

namespace gd2fs::bindings {

enum class Access { read, write };

class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(Borrowed&& other) noexcept = default;
  Borrowed& operator=(Borrowed&& other) noexcept = delete;
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() { give_back(); }

  /// One buffer, one (address, length), or a sequence of these. Raises InvalidRequest.
  void take(nanobind::handle buffers, Access access);
  /// Lets the owners have their memory back; its sizes stay known.
  void give_back();
  /// Refuses memory named twice: two arrivals there would race. Raises InvalidRequest.
  void refuse_overlap() const;

  std::span<const Buffer> pieces() const { return pieces_; }
  std::uint64_t bytes() const;

 private:
  void take_one(nanobind::handle buffer, Access access, std::size_t index);

  std::vector<Py_buffer> views_;
  std::vector<Buffer> pieces_;
};

/// Copies 0 to BATCH_ITEMS_MAX keys (bytes, bytes-like or str as UTF-8). Raises InvalidRequest.
std::vector<std::string> copy_keys(nanobind::handle keys);

}  // namespace gd2fs::bindings
