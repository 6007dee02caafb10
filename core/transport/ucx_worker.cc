#include "ucx_worker.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "../assertion.h"

namespace gd2fs::ucx {

namespace {

constexpr unsigned STEPS_MAX = 64;  // of one call: others of its thread have their turn
// UCX 1.13 ends the process when a worker goes before it has begun to close its endpoints.
constexpr std::chrono::milliseconds CLOSING_TIME{20};
constexpr std::chrono::microseconds AWAKE_TIME{200};

struct Stranded {
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> workers;
};

/// They stay, at the process's end too.
Stranded& stranded_workers() {
  static auto& all = *new Stranded;
  return all;
}

}  // namespace

Worker::~Worker() {
  GD2FS_ASSERT(endpoint_count_ == closing_.size());
  const auto until = std::chrono::steady_clock::now() + CLOSING_TIME;
  while (!closing_.empty() && std::chrono::steady_clock::now() < until) progress();
  while (run_tasks()) {
  }
  // Keys lie in the worker's own memory.
  for (const auto& endpoint : closing_)
    for (auto& transfer : endpoint->transfers_) transfer.keys.clear();
  {
    const std::lock_guard lock(context_->mutex_);
    calls().worker_destroy(handle_);
  }
  is_over_ = true;
  run_tasks();
  closing_.clear();  // what was under way is over with the worker
}

void Worker::strand(std::unique_ptr<Worker> worker) {
  if (worker->context_->has_cards()) return;
  Stranded& all = stranded_workers();
  const std::lock_guard lock(all.mutex);
  all.workers.push_back(std::move(worker));
}

std::size_t Worker::stranded() {
  Stranded& all = stranded_workers();
  const std::lock_guard lock(all.mutex);
  return all.workers.size();
}

bool Worker::progress() {
  unsigned steps = 0;
  while (steps < STEPS_MAX && calls().worker_progress(handle_) != 0) ++steps;
  const bool has_moved = run_tasks() || steps != 0;
  if (has_moved) expect();
  return has_moved;
}

bool Worker::run_tasks() {
  std::vector<std::function<void()>> tasks;
  tasks.swap(tasks_);
  for (const auto& task : tasks) task();
  return !tasks.empty();
}

void Worker::expect() { awake_until_ = std::chrono::steady_clock::now() + AWAKE_TIME; }

bool Worker::may_sleep(bool is_moving) {
  if (!is_moving || std::chrono::steady_clock::now() >= awake_until_) return arm();
  // Where processors are few, the peer may need this one to get on.
  std::this_thread::yield();
  return false;
}

bool Worker::arm() { return tasks_.empty() && calls().worker_arm(handle_) == abi::OK; }

std::vector<std::byte> Worker::address() const {
  abi::Address* packed = nullptr;
  std::size_t bytes = 0;
  if (calls().worker_get_address(handle_, &packed, &bytes) != abi::OK) return {};
  // UCX gives an opaque run of so many bytes.
  const auto* const first = reinterpret_cast<const std::byte*>(packed);
  std::vector<std::byte> address(first, first + bytes);
  calls().worker_release_address(handle_, packed);
  return address;
}

Result<std::unique_ptr<Endpoint>> Worker::connect(std::span<const std::byte> address,
                                                  std::function<void()> on_broken) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(*this, std::move(on_broken)));
  abi::EndpointParams params;
  params.fields = abi::ENDPOINT_ADDRESS | abi::ENDPOINT_ERROR_MODE | abi::ENDPOINT_ERROR_HANDLER;
  // The bytes are what `address` gave on the other side.
  params.address = reinterpret_cast<const abi::Address*>(address.data());
  params.error_mode = context_->has_cards() ? abi::ERRORS_OF_PEER : abi::ERRORS_OF_NOBODY;
  params.on_error = &Endpoint::broken;
  params.argument = endpoint.get();
  const abi::Status status = calls().ep_create(handle_, &params, &endpoint->handle_);
  if (status != abi::OK)
    return context_->library().fault("no UCX transport reaches the peer", status);
  ++endpoint_count_;
  return endpoint;
}

void Worker::close(std::unique_ptr<Endpoint> endpoint, std::function<void()> closed) {
  Endpoint& closing = *endpoint;
  closing_.push_back(std::move(endpoint));
  closing.close(std::move(closed));
}

/// An endpoint that has closed goes once none of its transfers is under way.
void Worker::look_at(Endpoint& endpoint) {
  const auto is_over = [](const auto& transfer) { return transfer.left == 0; };
  const bool is_still =
      std::all_of(endpoint.transfers_.begin(), endpoint.transfers_.end(), is_over);
  if (!endpoint.is_flushed_ || !is_still) return;
  const auto found = std::find_if(closing_.begin(), closing_.end(),
                                  [&](const auto& each) { return each.get() == &endpoint; });
  if (found == closing_.end()) return;
  const std::shared_ptr<Endpoint> over = std::move(*found);
  closing_.erase(found);
  --endpoint_count_;
  later([over] { over->end_all(); });
}

}  // namespace gd2fs::ucx
