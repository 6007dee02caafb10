#include "call.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>

#include "fault.h"
#include "gil.h"
#include "view.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

constexpr std::int64_t SIGNAL_CHECK_MS = 50;

int status_of(const Call& call) { return static_cast<int>(call.outcome().status); }

nb::list statuses_of(const Call& call) {
  nb::list list;
  for (const ItemOutcome& item : call.outcome().items) list.append(static_cast<int>(item.status));
  return list;
}

/// Of each page: it is there, or it was there already.
nb::list present_of(const Call& call) {
  nb::list list;
  for (const ItemOutcome& item : call.outcome().items) {
    list.append(nb::bool_(item.status == Status::ok || item.status == Status::have));
  }
  return list;
}

/// Of each page that was put: on how many nodes it is now.
nb::list copies_of(const Call& call) {
  nb::list list;
  for (const ItemOutcome& item : call.outcome().items) list.append(item.copies);
  return list;
}

/// Of each page that was synced: a KeptAt.
nb::list kept_of(const Call& call) {
  nb::list list;
  for (const ItemOutcome& item : call.outcome().items) list.append(static_cast<int>(item.kept_at));
  return list;
}

nb::list sizes_of(const Call& call) {
  nb::list list;
  for (const ItemOutcome& item : call.outcome().items) {
    if (item.status == Status::ok) {
      list.append(item.bytes);
    } else {
      list.append(nb::none());
    }
  }
  return list;
}

bool is_fault(const ItemOutcome& item) {
  return item.status == Status::invalid || item.status == Status::full ||
         item.status == Status::denied || item.status == Status::corrupt;
}

/// The first item that is neither an answer nor a node's silence: index, status, its bytes there
/// and here. None: there is no such item.
nb::object fault_of(const Call& call) {
  const std::vector<ItemOutcome>& items = call.outcome().items;
  auto at = std::find_if(items.begin(), items.end(), is_fault);
  if (at == items.end()) return nb::none();
  auto index = static_cast<std::size_t>(at - items.begin());
  return nb::make_tuple(index, static_cast<int>(at->status), at->bytes, call.page_bytes(index));
}

nb::list entries_of(const Call& call) {
  nb::list list;
  for (const wire::ListEntry& entry : call.outcome().entries) {
    list.append(nb::make_tuple(nb::bytes(entry.name.data(), entry.name.size()), entry.bytes));
  }
  return list;
}

nb::tuple file_of(const Call& call) {
  const FileFacts& file = call.outcome().file;
  return nb::make_tuple(file.size, file.chunk_bytes, file.ttl_s, file.gen, file.seq, file.replicas);
}

nb::list nodes_of(const Call& call) {
  nb::list list;
  for (const wire::NodeStatus& node : call.outcome().nodes) {
    list.append(nb::make_tuple(node.name, node.boot, node.epoch, static_cast<int>(node.state),
                               node.rung, node.zero_copy, node.arena_bytes, node.arena_free_bytes,
                               node.is_sealed, node.transport, node.fault, node.moves_left,
                               node.moves_left_bytes, node.records_left, node.disk_bytes,
                               node.disk_live_bytes, node.cold_bytes, node.disk_fault));
  }
  return list;
}

nb::list replies_of(const Call& call) {
  nb::list list;
  for (const NodeReply& each : call.outcome().replies) {
    list.append(nb::make_tuple(each.node, static_cast<int>(each.status),
                               nb::bytes(each.text.data(), each.text.size())));
  }
  return list;
}

std::shared_ptr<BoundView> view_of(const Call& call) {
  const ViewRef& view = call.outcome().view;
  return view == nullptr ? nullptr : std::make_shared<BoundView>(view);
}

nb::bytes next_of(const Call& call) {
  const std::string& next = call.outcome().next;
  return nb::bytes(next.data(), next.size());
}

}  // namespace

bool SharedClient::with(const std::function<void(Client&)>& use) {
  std::shared_lock guard(lock_);
  if (!client_) return false;
  use(*client_);
  return true;
}

void SharedClient::close() {
  std::unique_ptr<Client> closing;
  {
    std::unique_lock guard(lock_);
    closing = std::move(client_);
  }
}

Call::~Call() {
  if (!operation_) return;
  GilReleased released;
  if (!operation_->is_done()) {
    cancel_without_gil();
    operation_->wait(-1);
  }
  operation_.reset();
  client_.reset();
}

void Call::start(const Start& start, bool is_waited) {
  bool is_open = false;
  {
    GilReleased released;
    is_open = client_->with([&](Client& client) { operation_ = start(client, borrowed_); });
    if (is_open && is_waited) operation_->wait(SIGNAL_CHECK_MS);
  }
  if (!is_open) raise(FaultKind::closed, "the client is closed", "make a new client");
}

bool Call::wait(std::int64_t timeout_ms) {
  std::int64_t left_ms = timeout_ms;
  bool is_interrupted = false;
  while (true) {
    std::int64_t slice_ms = left_ms < 0 ? SIGNAL_CHECK_MS : std::min(left_ms, SIGNAL_CHECK_MS);
    if (wait_without_gil(is_interrupted ? -1 : slice_ms)) break;
    is_interrupted = PyErr_CheckSignals() != 0;
    if (is_interrupted) {
      GilReleased released;
      cancel_without_gil();
    }
    if (left_ms >= 0) left_ms -= slice_ms;
    if (left_ms == 0 && !is_interrupted) return false;
  }
  borrowed_.give_back();
  if (is_interrupted) throw nb::python_error();
  return true;
}

bool Call::wait_without_gil(std::int64_t timeout_ms) {
  if (operation_->is_done()) return true;  // nothing to let others in for
  GilReleased released;
  return operation_->wait(timeout_ms);
}

void Call::cancel() {
  GilReleased released;
  cancel_without_gil();
}

void Call::cancel_without_gil() {
  // A closing client ends its operations itself, and they must not reach into it any more.
  client_->with([this](Client&) { operation_->cancel(); });
}

const Outcome& Call::outcome() const {
  if (!is_done()) {
    raise(FaultKind::invalid_request, "the operation is still under way", "wait for it first");
  }
  return operation_->outcome();
}

void bind_call(nb::module_& module) {
  module.attr("COOKIE_WAITED") = COOKIE_WAITED;
  nb::class_<Call>(module, "Call", "One operation under way, with the memory that it borrows.")
      .def("wait", &Call::wait, nb::arg("timeout_ms") = -1)
      .def("cancel", &Call::cancel)
      .def("is_done", &Call::is_done)
      .def("progress", &Call::progress)
      .def_prop_ro("status", &status_of)
      .def_prop_ro("message", [](const Call& call) { return call.outcome().message; })
      .def_prop_ro("value", [](const Call& call) { return call.outcome().value; })
      .def_prop_ro("statuses", &statuses_of)
      .def_prop_ro("present", &present_of)
      .def_prop_ro("sizes", &sizes_of)
      .def_prop_ro("copies", &copies_of)
      .def_prop_ro("kept", &kept_of)
      .def_prop_ro("fault", &fault_of)
      .def_prop_ro("entries", &entries_of)
      .def_prop_ro("next", &next_of)
      .def_prop_ro("is_partial", [](const Call& call) { return call.outcome().is_partial; })
      .def_prop_ro("file", &file_of)
      .def_prop_ro("nodes", &nodes_of)
      .def_prop_ro("replies", &replies_of)
      .def_prop_ro("view", &view_of)
      .def_prop_ro("buffer_bytes", &Call::buffer_bytes);
}

}  // namespace gd2fs::bindings
