// View: bytes of the cache as Python's buffers, read where they lie.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "../core/client.h"

namespace gd2fs::bindings {

/// One view. It is released when asked for, but never while a buffer of it is in use.
class BoundView {
 public:
  explicit BoundView(ViewRef view) : view_(std::move(view)) {}
  ~BoundView();

  /// Raises Closed once it is released.
  const View& view() const;
  bool is_released() const { return view_ == nullptr; }
  /// Raises BufferError while buffers of it are in use. Twice is fine.
  void release();

  // With the GIL held, for the parts.
  void begin_export() { ++exports_; }
  void end_export() { --exports_; }

 private:
  ViewRef view_;
  std::size_t exports_ = 0;  // buffers in use
};

/// One run of a view's bytes: exports its memory, read-only.
struct ViewPart {
  std::shared_ptr<BoundView> owner;
  std::span<const std::byte> bytes;
};

}  // namespace gd2fs::bindings
