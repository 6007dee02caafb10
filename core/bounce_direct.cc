// Requests that cards carry straight to memory of a GPU and from it: which they are, and how they
// end.
#include <algorithm>
#include <utility>

#include "bounce_job.h"

namespace gd2fs {
namespace {

/// Whether sums go with what is written; without, the node sums what arrives.
void set_summed(Rpc& rpc, bool is_summed) {
  for (Body& body : rpc.bodies) body.is_summed = is_summed;
  for (wire::Item& item : rpc.request.items) {
    if (is_summed) item.flags &= static_cast<std::uint16_t>(~wire::ITEM_NO_VERIFY);
    if (!is_summed) item.flags |= wire::ITEM_NO_VERIFY;
  }
}

}  // namespace

/// Do cards reach all of its memory?
bool Bouncer::can_be_direct(const Job& job) const {
  const Rpc& rpc = *job.rpc;
  const bool is_wanted = rpc.is_upload() ? settings_.is_save_direct : settings_.is_load_direct;
  if (!is_wanted || registrations_ == nullptr || !rpc.is_bulk()) return false;
  if (rpc.is_upload() && rpc.body_bytes() <= EAGER_BYTES_MAX) return false;  // it goes at once
  if (job.devices.size() != job.parts.size()) return false;
  const auto takes = [](const DeviceRef& each) { return each->takes_remote_writes(); };
  if (!std::all_of(job.devices.begin(), job.devices.end(), takes)) return false;
  auto part = job.parts.begin();
  RegistrationRef last;
  for (std::size_t at = 0; at < rpc.memory.size(); ++at) {
    const Buffer& buffer = rpc.memory[at];
    const bool is_device = part != job.parts.end() && part->buffer == at;
    if (is_device) ++part;
    if (buffer.bytes == 0) continue;
    const bool is_known = last != nullptr && last->memory().covers({buffer.at, buffer.bytes});
    if (!is_known) last = registrations_->find(buffer);
    if (last == nullptr || (is_device && !last->is_direct())) return false;
  }
  return true;
}

void Bouncer::make_direct(Job& job) {
  Rpc& rpc = *job.rpc;
  rpc.is_direct = true;
  if (rpc.is_upload()) {
    job.was_summed = std::any_of(rpc.bodies.begin(), rpc.bodies.end(),
                                 [](const Body& body) { return body.is_summed; });
    if (job.was_summed) set_summed(rpc, false);
  } else if (settings_.checked_one_in != 0) {
    rpc.keeps_placed = loads_straight_.fetch_add(1) % settings_.checked_one_in == 0;
  }
}

/// A node did not reach it: it bounces, as one that has never been asked.
void Bouncer::unmake_direct(const JobRef& job) {
  Rpc& rpc = *job->rpc;
  rpc.is_direct = rpc.keeps_placed = rpc.lacks_transfers = false;
  if (job->was_summed) set_summed(rpc, true);
  job->has_landed = false;
  rpc.done = landing_of(job);
  const std::lock_guard lock(mutex_);
  ++counts_.refused;
}

std::string Bouncer::direct_lack(const Buffer& range) {
  const cuda::DriverRef driver = this->driver();
  const auto found = driver == nullptr ? std::nullopt : driver->allocation_of(range.at);
  if (!found) return {};
  const DeviceRef owner = device(found->device);
  if (owner == nullptr) return fault();
  const RegistrationRef registration =
      registrations_ == nullptr ? nullptr : registrations_->find(range);
  if (registration == nullptr) return "it is not registered";
  if (!registration->is_direct())
    return registrations_->context()->has_cards() ? "UCX was built without CUDA"
                                                  : "no card moves the bytes";
  return owner->takes_remote_writes() ? "" : "the GPU cannot tell when a card has written to it";
}

/// Cards have moved its bytes, or nobody has.
void Bouncer::land_direct(const JobRef& job) {
  Rpc& rpc = *job->rpc;
  if (rpc.lacks_transfers) {
    unmake_direct(job);
    waiting_.push_back(job);
    return;
  }
  if (!rpc.is_upload()) {  // also of what came in vain: nothing is written after the call's end
    for (const cuda::Device* owner : job->owners()) {
      const cuda::Device::Current current(*owner);
      if (job->fault.empty()) job->fault = owner->settle_remote_writes();
    }
  }
  if (!job->fault.empty()) {
    note_fault(*job, job->fault);
    rpc.status = Status::unavailable;  // as if it had not come
    return end(job);
  }
  if (rpc.status != Status::ok) return end(job);
  std::uint64_t moved = 0;
  for (const Body& body : rpc.bodies) moved += body.moved;
  {
    const std::lock_guard lock(mutex_);
    (rpc.is_upload() ? counts_.direct_out_bytes : counts_.direct_in_bytes) += moved;
  }
  if (!begin_check(job)) end(job);
}

/// Copies what has come out again, where that is wanted and there is room for it now.
bool Bouncer::begin_check(const JobRef& job) {
  if (job->rpc->placed.empty()) return false;
  std::byte* const room = pool_.take(job->bytes, job->devices.front());
  if (room == nullptr) return false;
  job->is_checked = true;
  take_room(job, room);
  fetch(job);
  return true;
}

/// Bytes that are not as their node promised have not come.
void Bouncer::check(Job& job) {
  Rpc& rpc = *job.rpc;
  std::vector<BufferCursor> cursors;
  for (const Body& body : rpc.bodies)
    cursors.emplace_back(std::span<const Buffer>(rpc.memory).subspan(body.first));
  std::uint64_t bytes = 0;
  for (const wire::DataTable& table : rpc.placed) {
    std::size_t hash = 0;
    for (const wire::DataPiece& piece : table.pieces) {
      if (piece.hashes == 0) {  // nothing was asked for, and nothing is promised
        cursors[piece.item].skip(piece.length);
        continue;
      }
      bytes += piece.length;
      for (std::size_t left = piece.length; left > 0;) {
        const std::size_t block = std::min<std::size_t>(left, BLOCK_BYTES);
        left -= block;
        if (cursors[piece.item].hash(block) != table.hashes[hash++])
          rpc.bodies[piece.item].is_corrupt = true;
      }
    }
  }
  rpc.settle();
  const std::lock_guard lock(mutex_);
  counts_.checked_bytes += bytes;
}

}  // namespace gd2fs
