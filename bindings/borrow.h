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
  /// The same for a batch of pages: each has a buffer, or a list or tuple of these, in order.
  void take_pages(nanobind::handle pages, Access access);
  /// Lets the owners have their memory back; its sizes stay known.
  void give_back();
  /// Refuses memory named twice: two arrivals there would race. Raises InvalidRequest.
  void refuse_overlap() const;

  std::span<const Buffer> pieces() const { return pieces_; }
  /// Of a batch of pages where one has several buffers: how many each of them has. Else empty.
  std::span<const std::uint32_t> counts() const { return counts_; }
  std::size_t page_count() const { return counts_.empty() ? pieces_.size() : counts_.size(); }
  std::uint64_t page_bytes(std::size_t page) const;
  std::uint64_t bytes() const;

 private:
  void take_one(nanobind::handle buffer, Access access, std::size_t index);
  void take_parts(nanobind::handle parts, Access access, std::size_t page);
  std::string place_of(std::size_t piece) const;

  std::vector<Py_buffer> views_;
  std::vector<Buffer> pieces_;
  std::vector<std::uint32_t> counts_;
};

/// Copies 0 to BATCH_ITEMS_MAX keys (bytes, bytes-like or str as UTF-8). Raises InvalidRequest.
std::vector<std::string> copy_keys(nanobind::handle keys);

}  // namespace gd2fs::bindings
