// Errors: the status codes of the wire, and a small result type for start-up paths.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace gd2fs {

/// What a node says of one item (wire values, core.md 2.6). A miss is an answer, not an error.
enum class Status : std::uint8_t {
  ok = 0,
  miss = 1,   // no such bytes here (evicted, lost or never written)
  have = 2,   // a complete page is there already; no bytes moved
  retry = 3,  // not now; try again after `detail` milliseconds
  stale_map = 4,
  conflict = 5,  // certain: not applied
  gone = 6,      // the file is not there (any more), or has another generation
  full = 7,      // the piece can never fit, or a limit of the node is reached
  corrupt = 8,   // bytes did not match their checksum
  invalid = 9,   // the request breaks a rule
  cancelled = 10,
  expired = 11,  // its deadline passed
  denied = 12,
  fenced = 13,
  unknown = 14,      // the outcome of a mutation is not known
  unavailable = 64,  // client side only: no node answered in time, or the connection was lost
};

const char* status_name(Status status) noexcept;

/// Why something could not be started: one line that says what happened, and one that says what to
/// do.
struct Error {
  std::string message;
  std::string hint;
  Status status = Status::unavailable;  // invalid or denied: a retry cannot help
};

template <class T>
class Result {
 public:
  Result(T value) : held_(std::move(value)) {}
  Result(Error error) : held_(std::move(error)) {}

  explicit operator bool() const noexcept { return std::holds_alternative<T>(held_); }
  T& operator*() { return std::get<T>(held_); }
  T* operator->() { return &std::get<T>(held_); }
  const Error& error() const { return std::get<Error>(held_); }

 private:
  std::variant<T, Error> held_;
};

}  // namespace gd2fs
