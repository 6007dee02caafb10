#include "bounce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bounce_job.h"

namespace gd2fs {
namespace {

constexpr auto COPY_LOOK = std::chrono::microseconds(20);  // between looks at copies under way
constexpr std::int64_t FAULT_MS = 10'000;  // a fault before that explains no call of now
constexpr auto WAIT_LOOK = std::chrono::milliseconds(5);  // whether what waits is still wanted

bool has_bodies(wire::Op op) {
  return op == wire::Op::get || op == wire::Op::read || op == wire::Op::offer;
}

}  // namespace

Bouncer::Bouncer(const DeviceSettings& settings, std::shared_ptr<Registrations> registrations,
                 Submit submit)
    : settings_(settings),
      registrations_(std::move(registrations)),
      submit_(std::move(submit)),
      pool_(settings.bounce_bytes, registrations_) {}

void Bouncer::stop() {
  hurry();
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    news_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

cuda::DriverRef Bouncer::driver() {
  {
    const std::lock_guard lock(mutex_);
    if (driver_ != nullptr) return driver_;
  }
  const unsigned long long loads = cuda::loads_so_far();
  if (loads == loads_.load(std::memory_order_relaxed)) return nullptr;
  auto driver = cuda::Driver::loaded();
  loads_.store(loads, std::memory_order_relaxed);
  if (driver == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  if (driver_ == nullptr) driver_ = std::move(driver);
  has_driver_.store(true, std::memory_order_release);
  return driver_;
}

Bouncer::DeviceRef Bouncer::device(int number) {
  const std::lock_guard lock(mutex_);
  DeviceRef& device = devices_[number];
  if (device != nullptr) return device;
  auto opened = cuda::Device::open(driver_, number);
  if (opened) {
    device = std::move(*opened);
  } else {
    note_fault(opened.error().message);
  }
  return device;
}

Bouncer::JobRef Bouncer::take(const RpcRef& rpc, std::size_t node,
                              const std::function<bool()>& has_transfers) {
  if (!has_bodies(rpc->op()) || rpc->memory.empty() || rpc->is_question) return nullptr;
  const cuda::DriverRef driver = this->driver();
  JobRef job;
  cuda::Allocation last;
  for (std::size_t at = 0; at < rpc->memory.size(); ++at) {
    const Buffer& buffer = rpc->memory[at];
    if (buffer.bytes == 0) continue;
    if (!last.has(buffer.at)) {
      const auto found = driver->allocation_of(buffer.at);
      if (!found) continue;
      last = *found;
    }
    if (job == nullptr) {
      job = std::make_shared<Job>();
      job->rpc = rpc;
      job->node = node;
    }
    const DeviceRef owner = device(last.device);
    if (owner != nullptr) job->devices.push_back(owner);
    job->parts.push_back({at, buffer.at, nullptr, buffer.bytes, owner.get()});
    job->bytes += buffer.bytes;
  }
  if (job != nullptr && can_be_direct(*job) && has_transfers()) make_direct(*job);
  return job;
}

std::function<void()> Bouncer::then(const JobRef& job, std::function<void()> done) {
  job->done = std::move(done);
  return landing_of(job);
}

std::function<void()> Bouncer::landing_of(const JobRef& job) {
  return [this, job] {
    job->has_landed = true;  // seen by the thread through the lock of `post`
    post(job);
  };
}

void Bouncer::begin(const JobRef& job) {
  job->rpc->is_direct ? submit_(job->node, job->rpc) : post(job);
}

void Bouncer::post(const JobRef& job) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  news_.notify_all();
}

void Bouncer::hurry() {
  const std::lock_guard lock(mutex_);
  is_hurried_ = true;
  news_.notify_all();
}

std::string Bouncer::fill_zero(const Buffer& run) {
  const cuda::DriverRef driver = this->driver();
  const auto found = driver == nullptr ? std::nullopt : driver->allocation_of(run.at);
  if (!found) {
    std::memset(run.at, 0, run.bytes);  // the caller's own, within one of its buffers
    return {};
  }
  const DeviceRef owner = device(found->device);
  if (owner == nullptr) return fault();
  const cuda::Device::Current current(*owner);
  return owner->fill_zero(run.at, run.bytes);
}

void Bouncer::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_news = [this] { return !inbox_.empty() || is_stopping_; };
    if (!copying_.empty()) {
      news_.wait_for(lock, COPY_LOOK, has_news);
    } else if (!waiting_.empty()) {
      news_.wait_for(lock, WAIT_LOOK, has_news);
    } else {
      news_.wait(lock, has_news);
    }
    std::deque<JobRef> inbox;
    inbox.swap(inbox_);
    const bool is_over = is_stopping_ && inbox.empty() && copying_.empty() && waiting_.empty();
    lock.unlock();
    if (is_over) return;
    for (const JobRef& job : inbox) {
      if (job->has_landed) {
        land(job);
      } else {
        waiting_.push_back(job);
      }
    }
    look_at_copies();
    admit();
    lock.lock();
  }
}

/// In turn, so that a large one is not passed by small ones for ever.
void Bouncer::admit() {
  std::vector<std::pair<JobRef, Status>> refused;
  bool is_hurried = false;
  {
    const std::lock_guard lock(mutex_);
    is_hurried = is_hurried_;
  }
  std::erase_if(waiting_, [&](const JobRef& job) {
    const Rpc& rpc = *job->rpc;
    const bool is_cancelled = is_hurried || rpc.is_cancelled();
    if (!is_cancelled && now_ms() < rpc.deadline_ms) return false;
    refused.emplace_back(job, is_cancelled ? Status::cancelled : Status::expired);
    return true;
  });
  while (!waiting_.empty()) {
    const JobRef job = waiting_.front();
    const bool has_owners = job->devices.size() == job->parts.size();
    std::byte* const room = has_owners ? pool_.take(job->bytes, job->devices.front()) : nullptr;
    if (room == nullptr && has_owners && !pool_.is_idle()) break;
    waiting_.pop_front();
    if (room != nullptr) {
      send(job, room);
    } else {
      note_fault(*job, has_owners ? "no memory of the host for a bounce" : fault());
      refused.emplace_back(job, Status::unavailable);
    }
  }
  for (auto& [job, status] : refused) job->rpc->finish(status);  // lands, as any that has ended
}

/// From here to its end its buffers of a GPU stand for places in the pool.
void Bouncer::take_room(const JobRef& job, std::byte* room) {
  job->room = room;
  for (Job::Part& part : job->parts) {
    part.host = room;
    job->rpc->memory[part.buffer].at = room;  // in place: bodies know their buffers by number
    room += part.bytes;
  }
}

void Bouncer::send(const JobRef& job, std::byte* room) {
  take_room(job, room);
  if (job->rpc->is_upload()) return fetch(job);
  submit_(job->node, job->rpc);
}

/// Copies what is to be sent out of the GPU.
void Bouncer::fetch(const JobRef& job) {
  for (std::size_t at = 0; at < job->parts.size() && job->fault.empty();) {
    const Job::Part& first = job->parts[at];
    std::size_t bytes = 0;  // what lies together here and there is one copy
    for (; at < job->parts.size() && job->parts[at].owner == first.owner &&
           job->parts[at].device == first.device + bytes;
         ++at)
      bytes += job->parts[at].bytes;
    const cuda::Device::Current current(*first.owner);
    job->fault = first.owner->copy_out(first.host, first.device, bytes);
  }
  mark(job);
}

/// Copies what has come to the GPU: of each item that is whole, and of nothing else.
void Bouncer::land(const JobRef& job) {
  const Rpc& rpc = *job->rpc;
  if (rpc.is_direct) return land_direct(job);
  if (job->room == nullptr || rpc.is_upload() || rpc.status != Status::ok) return end(job);
  auto part = job->parts.begin();
  for (std::size_t item = 0; item < rpc.bodies.size() && job->fault.empty(); ++item) {
    if (rpc.item_status(item) != Status::ok) continue;
    const Body& body = rpc.bodies[item];
    std::uint64_t left = body.moved;
    for (std::size_t at = body.first; left != 0; ++at) {
      const std::uint64_t bytes = std::min<std::uint64_t>(left, rpc.memory[at].bytes);
      left -= bytes;
      while (part != job->parts.end() && part->buffer < at) ++part;
      if (part == job->parts.end() || part->buffer != at) continue;  // of the host: it is there
      const cuda::Device::Current current(*part->owner);
      job->fault = part->owner->copy_in(part->device, part->host, bytes);
      if (!job->fault.empty()) break;
    }
  }
  mark(job);
}

/// What was begun is waited for, also where some of it was refused.
void Bouncer::mark(const JobRef& job) {
  for (const cuda::Device* owner : job->owners()) {
    const cuda::Device::Current current(*owner);
    if (const cuda::Handle event = owner->mark(); event != nullptr) {
      job->marks.push_back({owner, event});
    } else {
      owner->wait();
      if (job->fault.empty()) job->fault = "cuEventRecord failed";
    }
  }
  copying_.push_back(job);
}

void Bouncer::look_at_copies() {
  std::vector<JobRef> ended;
  std::erase_if(copying_, [&](const JobRef& job) {
    std::erase_if(job->marks, [&](const Job::Mark& mark) {
      const cuda::Device::Current current(*mark.owner);
      const auto reached = mark.owner->is_reached(mark.event);
      if (reached == cuda::Device::Reached::no) return false;
      // A context that has failed copies nothing any more.
      if (reached == cuda::Device::Reached::failed) job->fault = "a copy of the GPU failed";
      mark.owner->drop(mark.event);
      return true;
    });
    if (!job->marks.empty()) return false;
    ended.push_back(job);
    return true;
  });
  for (const JobRef& job : ended) copied(job);
}

void Bouncer::copied(const JobRef& job) {
  const bool is_sent = job->rpc->is_upload();
  if (!job->fault.empty()) {
    note_fault(*job, job->fault);
  } else if (job->is_checked) {
    check(*job);
  } else {
    const std::lock_guard lock(mutex_);
    (is_sent ? counts_.out_bytes : counts_.in_bytes) += job->bytes;
  }
  if (is_sent) {
    if (job->fault.empty()) return submit_(job->node, job->rpc);
    return job->rpc->finish(Status::unavailable);  // lands
  }
  if (!job->fault.empty()) job->rpc->status = Status::unavailable;  // as if it had not come
  end(job);
}

/// The room goes back before the call goes on: it may want it for its next request.
void Bouncer::end(const JobRef& job) {
  if (job->room != nullptr) {
    for (const Job::Part& part : job->parts) job->rpc->memory[part.buffer].at = part.device;
    pool_.give(job->room);
  }
  const std::function<void()> done = std::move(job->done);
  job->rpc = nullptr;  // the request holds the call, and its end holds this
  done();
}

void Bouncer::note_fault(Job& job, const std::string& what) {
  job.fault = what;
  const std::lock_guard lock(mutex_);
  ++counts_.faults;
  note_fault(what);
}

void Bouncer::note_fault(const std::string& what) {
  fault_ = what;
  fault_ms_ = now_ms();
}

BounceCounts Bouncer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string Bouncer::fault() const {
  const std::lock_guard lock(mutex_);
  return now_ms() - fault_ms_ < FAULT_MS ? fault_ : "";
}

}  // namespace gd2fs
