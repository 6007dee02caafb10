#include "borrow.h"

#include <algorithm>
#include <numeric>

#include "../core/buffer_list.h"
#include "../core/limits.h"
#include "fault.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

bool is_address_pair(nb::handle value) {
  return PyTuple_CheckExact(value.ptr()) && PyTuple_GET_SIZE(value.ptr()) == 2 &&
         PyLong_Check(PyTuple_GET_ITEM(value.ptr(), 0)) &&
         PyLong_Check(PyTuple_GET_ITEM(value.ptr(), 1));
}

std::string python_type(nb::handle value) { return Py_TYPE(value.ptr())->tp_name; }

/// An int of 0 to 2^64 - 1; the caller checks for ~0 with an error set.
std::uint64_t unsigned_of(PyObject* value) { return PyLong_AsUnsignedLongLong(value); }

Buffer buffer_of_pair(nb::handle pair, std::size_t index) {
  std::uint64_t address = unsigned_of(PyTuple_GET_ITEM(pair.ptr(), 0));
  std::uint64_t length = PyErr_Occurred() ? 0 : unsigned_of(PyTuple_GET_ITEM(pair.ptr(), 1));
  bool is_wrapping = address + length < address;
  if (PyErr_Occurred() || is_wrapping || (address == 0 && length != 0)) {
    PyErr_Clear();
    raise(FaultKind::invalid_request,
          "buffer " + std::to_string(index) + " is not a valid (address, length) pair",
          "give two non-negative ints that name memory of this process");
  }
  // The caller vouches for this memory; that is what a raw address means.
  return {reinterpret_cast<std::byte*>(address), static_cast<std::size_t>(length)};
}

/// A sequence as a list or tuple, so that its items can be walked without more checks.
nb::object fast_sequence(nb::handle value, const char* what) {
  nb::object fast = nb::steal(PySequence_Fast(value.ptr(), what));
  if (!fast.is_valid()) {
    PyErr_Clear();
    raise(FaultKind::invalid_request, std::string(what) + ", got " + python_type(value),
          "pass a list");
  }
  return fast;
}

void refuse_long_batch(std::size_t count, const char* what,
                       std::size_t count_max = BATCH_ITEMS_MAX) {
  if (count <= count_max) return;
  raise(FaultKind::invalid_request,
        std::to_string(count) + " " + what + " in one call, but the limit is " +
            std::to_string(count_max),
        "cut the batch");
}

/// Not one buffer but those of one page.
bool is_parts(nb::handle value) {
  return PyList_Check(value.ptr()) || (PyTuple_Check(value.ptr()) && !is_address_pair(value));
}

std::string key_of(nb::handle key, std::size_t index) {
  if (PyBytes_Check(key.ptr())) {
    return {PyBytes_AS_STRING(key.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(key.ptr()))};
  }
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &bytes);
    if (text != nullptr) return {text, static_cast<std::size_t>(bytes)};
    PyErr_Clear();
    raise(FaultKind::invalid_request, "key " + std::to_string(index) + " is not valid UTF-8",
          "pass bytes");
  }
  Py_buffer view;
  if (PyObject_GetBuffer(key.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    raise(FaultKind::invalid_request,
          "key " + std::to_string(index) + " is " + python_type(key) + ", not bytes or str",
          "pass bytes or str");
  }
  std::string copy(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return copy;
}

}  // namespace

void Borrowed::give_back() {
  for (Py_buffer& view : views_) PyBuffer_Release(&view);
  views_.clear();
}

void Borrowed::take(nb::handle buffers, Access access) {
  if (PyObject_CheckBuffer(buffers.ptr()) || is_address_pair(buffers)) {
    take_one(buffers, access, 0);
    return;
  }
  nb::object fast = fast_sequence(buffers, "buffers must be one buffer or a list of them");
  std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
  refuse_long_batch(count, "buffers");
  views_.reserve(count);
  pieces_.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    nb::handle item = PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(index));
    take_one(item, access, index);
  }
}

void Borrowed::take_pages(nb::handle pages, Access access) {
  if (PyObject_CheckBuffer(pages.ptr()) || is_address_pair(pages))
    return take_one(pages, access, 0);
  nb::object fast = fast_sequence(pages, "buffers must be one buffer or a list of them");
  std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
  refuse_long_batch(count, "buffers");
  views_.reserve(count);
  pieces_.reserve(count);
  for (std::size_t page = 0; page < count; ++page) {
    nb::handle item = PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(page));
    if (is_parts(item)) {
      counts_.resize(page, 1);  // those before it; none before the first with several
      take_parts(item, access, page);
    } else {
      take_one(item, access, page);
      if (!counts_.empty()) counts_.push_back(1);
    }
  }
}

void Borrowed::take_parts(nb::handle parts, Access access, std::size_t page) {
  std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(parts.ptr()));
  if (count > PAGE_BUFFERS_MAX) {
    raise(FaultKind::invalid_request,
          std::to_string(count) + " buffers for page " + std::to_string(page) +
              ", but the limit is " + std::to_string(PAGE_BUFFERS_MAX),
          "use fewer, longer ones");
  }
  refuse_long_batch(pieces_.size() + count, "buffers", BATCH_BUFFERS_MAX);
  counts_.push_back(static_cast<std::uint32_t>(count));
  for (std::size_t index = 0; index < count; ++index) {
    if (static_cast<std::size_t>(PySequence_Fast_GET_SIZE(parts.ptr())) != count)
      raise(FaultKind::invalid_request, "a list of buffers was changed while it was read",
            "leave it alone until the call returns");
    take_one(PySequence_Fast_GET_ITEM(parts.ptr(), static_cast<Py_ssize_t>(index)), access,
             pieces_.size());
  }
}

void Borrowed::take_one(nb::handle buffer, Access access, std::size_t index) {
  if (is_address_pair(buffer)) {
    pieces_.push_back(buffer_of_pair(buffer, index));
    return;
  }
  Py_buffer view;
  int flags = access == Access::write ? PyBUF_WRITABLE : PyBUF_SIMPLE;
  if (PyObject_GetBuffer(buffer.ptr(), &view, flags) != 0) {
    PyErr_Clear();
    raise(FaultKind::invalid_request,
          "buffer " + std::to_string(index) + " of type " + python_type(buffer) +
              (access == Access::write ? " is not writable contiguous memory"
                                       : " is not contiguous memory"),
          access == Access::write
              ? "pass a bytearray, a writable memoryview or array, or (address, length)"
              : "pass bytes, a contiguous array, or (address, length)");
  }
  views_.push_back(view);
  pieces_.push_back({static_cast<std::byte*>(view.buf), static_cast<std::size_t>(view.len)});
}

void Borrowed::refuse_overlap() const {
  std::vector<std::size_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [this](std::size_t i) { return pieces_[i].bytes == 0; });
  auto starts_before = [this](std::size_t a, std::size_t b) {
    return pieces_[a].at < pieces_[b].at;
  };
  if (!std::is_sorted(order.begin(), order.end(), starts_before)) {
    std::sort(order.begin(), order.end(), starts_before);
  }
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Buffer& left = pieces_[order[i - 1]];
    if (left.at + left.bytes <= pieces_[order[i]].at) continue;
    raise(FaultKind::invalid_request,
          "buffers " + place_of(order[i - 1]) + " (" + std::to_string(left.bytes) + " bytes) and " +
              place_of(order[i]) + " (" + std::to_string(pieces_[order[i]].bytes) +
              " bytes) overlap",
          "give every part its own memory");
  }
}

/// For messages: which one a caller knows it as.
std::string Borrowed::place_of(std::size_t piece) const {
  for (std::size_t page = 0; page < counts_.size(); ++page) {
    if (piece < counts_[page]) return std::to_string(piece) + " of page " + std::to_string(page);
    piece -= counts_[page];
  }
  return std::to_string(piece);
}

std::uint64_t Borrowed::page_bytes(std::size_t page) const {
  if (page >= page_count()) return 0;
  if (counts_.empty()) return pieces_[page].bytes;
  const auto first =
      std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(page), 0UL);
  return total_bytes(pieces().subspan(first, counts_[page]));
}

std::uint64_t Borrowed::bytes() const { return total_bytes(pieces_); }

std::vector<std::string> copy_keys(nb::handle keys) {
  if (PyBytes_Check(keys.ptr()) || PyUnicode_Check(keys.ptr())) {
    raise(FaultKind::invalid_request, "keys must be a list of keys, got one " + python_type(keys),
          "pass a list");
  }
  nb::object fast = fast_sequence(keys, "keys must be a list of keys");
  std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
  refuse_long_batch(count, "keys");
  std::vector<std::string> copies;
  copies.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    nb::handle item = PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(index));
    copies.push_back(key_of(item, index));
  }
  return copies;
}

}  // namespace gd2fs::bindings
