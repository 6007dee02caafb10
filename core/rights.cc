#include "rights.h"

#include <algorithm>

#include "name.h"

namespace gd2fs {

Rights Rights::of_cluster() {
  Rights all(Right::admin, {});
  all.is_cluster_ = true;
  return all;
}

Rights::Rights(Right right, std::vector<std::string> namespaces)
    : right_(right), namespaces_(std::move(namespaces)) {
  std::sort(namespaces_.begin(), namespaces_.end());
}

bool Rights::may(Right wanted, std::string_view name_space) const noexcept {
  if (right_ < wanted) return false;
  return is_everywhere() ||
         std::binary_search(namespaces_.begin(), namespaces_.end(), name_space, std::less<>());
}

std::uint8_t Rights::bits() const noexcept {
  if (is_cluster_) return 0xff;
  constexpr std::uint8_t BITS[] = {0, 1, 3, 7};
  const std::uint8_t right = BITS[static_cast<std::size_t>(right_)];
  return static_cast<std::uint8_t>(right | (is_everywhere() ? 0x80 : 0));
}

namespace serve {
namespace {

using wire::Op;

/// What an op takes of its namespace.
Right right_for(Op op, std::uint16_t flags) noexcept {
  switch (op) {
    case Op::exists:
    case Op::get:
    case Op::read:
    case Op::meta:
    case Op::list:
    case Op::why: return Right::read;
    case Op::create: return (flags & wire::ITEM_REPLICAS) != 0 ? Right::admin : Right::write;
    case Op::offer:
    case Op::commit:
    case Op::publish:
    case Op::forget:
    case Op::truncate:
    case Op::unlink:
    case Op::drop:
    case Op::sync: return Right::write;
    case Op::advise: break;
    default: return Right::admin;
  }
  // What is loaded is only brought near; what is let go may be wanted by others of the namespace.
  // Pins and copies take from everybody.
  const bool is_memory = (flags & wire::ITEM_MEMORY) != 0 && (flags & wire::ITEM_PIN) == 0;
  if (!is_memory) return Right::admin;
  return (flags & wire::ITEM_DONTNEED) != 0 ? Right::write : Right::read;
}

/// As the op itself reads the name.
std::string_view namespace_asked(Op op, const wire::Item& item) noexcept {
  const std::string_view name = item.name;
  if ((item.flags & wire::ITEM_NAMESPACE) != 0) return name;
  if (op == Op::get) return namespace_of(name, true);
  const bool is_either = op == Op::exists || op == Op::offer || op == Op::drop ||
                         op == Op::advise || op == Op::sync || op == Op::why || op == Op::list;
  return namespace_of(name, is_either && (item.flags & wire::ITEM_PAGE) != 0);
}

bool is_of_node(Op op) noexcept { return op == Op::drain || op == Op::configure; }

/// Of the questions about a node those that change nothing, and tell nothing that whoever reads
/// everything may not know. Compared whole: what JSON else could mean is not thought about here.
bool is_for_readers(const wire::Request& request) noexcept {
  if (request.head.op != Op::configure || request.items.size() != 1) return false;
  const wire::Name& asked = request.items.front().name;
  return asked == R"({"do": "report"})" || asked == R"({"do": "curves"})";
}

}  // namespace

bool is_allowed(const Rights& rights, const wire::Request& request) noexcept {
  if (rights.is_cluster()) return true;
  const Op op = request.head.op;
  if (op == Op::ping) return true;
  if (is_of_node(op))
    return rights.may_everywhere(is_for_readers(request) ? Right::read : Right::admin);
  // An item 1 of LIST only says where to go on.
  const std::size_t asked = op == Op::list ? 1 : request.items.size();
  const auto items = std::span(request.items).first(std::min(asked, request.items.size()));
  return std::all_of(items.begin(), items.end(), [&](const wire::Item& item) {
    return rights.may(right_for(op, item.flags), namespace_asked(op, item));
  });
}

/// `/ab` begins the names of namespace `abc` too.
void confine(const Rights& rights, wire::Request& request) {
  if (rights.is_cluster()) return;
  request.head.priority = 0;  // that of moves is for nodes
  if (rights.is_everywhere() || request.head.op != Op::list || request.items.empty()) return;
  wire::Item& what = request.items.front();
  if ((what.flags & wire::ITEM_PAGE) != 0) return;
  const std::string_view prefix = what.name;
  const bool is_bare = prefix.find('/', 1) == std::string_view::npos;
  if (is_bare) what.name = std::string(prefix) + "/";
}

wire::Map shown_map(const Rights& rights, const wire::Map& map) {
  wire::Map shown = map;
  std::erase_if(shown.namespaces, [&](const wire::NamespaceReplicas& each) {
    return !rights.may(Right::read, each.name);
  });
  return shown;
}

/// How full a node is tells what others do.
wire::NodeStatus shown_status(const Rights& rights, wire::NodeStatus status) {
  if (rights.is_everywhere()) return status;
  wire::NodeStatus shown;
  shown.boot = status.boot;
  shown.epoch = status.epoch;
  shown.state = status.state;
  shown.name = std::move(status.name);
  shown.rung = std::move(status.rung);
  shown.zero_copy = std::move(status.zero_copy);
  return shown;
}

}  // namespace serve
}  // namespace gd2fs
