// Rights: what a stream may do, by the token that it has proven. Decided from the namespace alone,
// before anything is looked up: what is there and what is not are refused alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire.h"

namespace gd2fs {

/// Each has those before it.
enum class Right : std::uint8_t { none = 0, read = 1, write = 2, admin = 3 };

class Rights {
 public:
  /// Of a cluster's own token, and of everybody where there are none.
  static Rights of_cluster();
  /// Of a tenant. No namespaces: all of them.
  Rights(Right right, std::vector<std::string> namespaces);

  /// May it speak as a node?
  bool is_cluster() const noexcept { return is_cluster_; }
  /// What it may, it may in every namespace: it may know of the node as a whole.
  bool is_everywhere() const noexcept { return namespaces_.empty(); }
  bool may(Right wanted, std::string_view name_space) const noexcept;
  bool may_everywhere(Right wanted) const noexcept { return is_everywhere() && right_ >= wanted; }
  /// As WELCOME tells it: 1 read, 2 write, 4 admin, 128 everywhere.
  std::uint8_t bits() const noexcept;

  friend bool operator==(const Rights& a, const Rights& b) = default;

 private:
  Right right_;
  bool is_cluster_ = false;
  std::vector<std::string> namespaces_;  // sorted
};

namespace serve {

/// May this be asked? All of its items, or nothing of it is carried out.
bool is_allowed(const Rights& rights, const wire::Request& request) noexcept;
/// Of what is allowed: nothing of other namespaces is met by the way.
void confine(const Rights& rights, wire::Request& request);
/// The map as whoever has these rights may know it.
wire::Map shown_map(const Rights& rights, const wire::Map& map);
/// Likewise how the node is.
wire::NodeStatus shown_status(const Rights& rights, wire::NodeStatus status);

}  // namespace serve
}  // namespace gd2fs
