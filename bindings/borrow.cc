#include "borrow.h"

#include <algorithm>
#include <numeric>

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

void refuse_long_batch(std::size_t count, const char* what) {
  if (count <= BATCH_ITEMS_MAX) return;
  raise(FaultKind::invalid_request,
        std::to_string(count) + " " + what + " in one call, but the limit is " +
            std::to_string(BATCH_ITEMS_MAX),
        "cut the batch");
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
          "buffers " + std::to_string(order[i - 1]) + " (" + std::to_string(left.bytes) +
              " bytes) and " + std::to_string(order[i]) + " (" +
              std::to_string(pieces_[order[i]].bytes) + " bytes) overlap",
          "give every part its own memory");
  }
}

std::uint64_t Borrowed::bytes() const {
  std::uint64_t sum = 0;
  for (const Buffer& piece : pieces_) sum += piece.bytes;
  return sum;
}

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
