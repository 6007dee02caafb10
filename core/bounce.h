// Bounce: requests whose bytes belong to memory of a GPU go through pinned memory of the host.
//
// Such a request waits until the pool has room for its bytes. What is written is copied there
// first, then it is sent; what is read lands there, is verified there as everything is, and is
// copied to the GPU before the request counts as ended. While one is copied the next ones travel.
// So nothing of the caller's is touched once its call has ended, and where a copy fails its bytes
// have not come.
//
// A request whose memory cards reach goes straight there instead. Nobody sums its bytes in this
// process: of one in so many that are read they are copied out again, and checked. Where a node
// turns out not to reach it, it bounces.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bounce_pool.h"
#include "rpc.h"

namespace gd2fs {

struct BounceCounts {
  std::uint64_t in_bytes = 0;                               // copied to GPUs
  std::uint64_t out_bytes = 0;                              // copied from them
  std::uint64_t faults = 0;                                 // requests that a copy failed
  std::uint64_t direct_in_bytes = 0, direct_out_bytes = 0;  // straight to GPUs, and from them
  std::uint64_t checked_bytes = 0;                          // of those
  std::uint64_t refused = 0;  // requests that were to go straight, and bounced
};

class Bouncer {
 public:
  /// Hands a request to its node's link.
  using Submit = std::function<void(std::size_t node, RpcRef rpc)>;

  /// `registrations`: memory that nodes may reach; nullptr: none.
  Bouncer(const DeviceSettings& settings, std::shared_ptr<Registrations> registrations,
          Submit submit);
  ~Bouncer() { stop(); }
  Bouncer(const Bouncer&) = delete;
  Bouncer& operator=(const Bouncer&) = delete;

  struct Job;
  using JobRef = std::shared_ptr<Job>;

  /// Has this process loaded a driver? Else no memory is a GPU's. Any thread.
  bool is_awake() { return has_driver_.load(std::memory_order_acquire) || driver() != nullptr; }
  /// nullptr: all of its memory is the host's. `has_transfers`: does its node move bytes by
  /// transfers? Any thread.
  JobRef take(const RpcRef& rpc, std::size_t node, const std::function<bool()>& has_transfers);
  /// What the request has to call when it has ended, instead of `done`.
  std::function<void()> then(const JobRef& job, std::function<void()> done);
  /// Sends it, once there is room where it needs some.
  void begin(const JobRef& job);
  /// Zeros for the caller's memory, of the host or of a GPU. Empty, or why not.
  std::string fill_zero(const Buffer& run);
  /// Why bytes of this memory, which has been registered, bounce. Empty: they do not, or it is the
  /// host's.
  std::string direct_lack(const Buffer& range);
  /// What waits ends as cancelled: the client closes.
  void hurry();
  /// Waits for copies that are under way. Nothing ends any more after that.
  void stop();

  BounceCounts counts() const;
  /// The last one, while it may be why a call fails now; empty: none.
  std::string fault() const;

 private:
  using DeviceRef = std::shared_ptr<const cuda::Device>;

  cuda::DriverRef driver();
  DeviceRef device(int number);
  void loop();
  void admit();
  void send(const JobRef& job, std::byte* room);
  void fetch(const JobRef& job);
  bool can_be_direct(const Job& job) const;
  void make_direct(Job& job);
  void unmake_direct(const JobRef& job);
  std::function<void()> landing_of(const JobRef& job);
  void land(const JobRef& job);
  void land_direct(const JobRef& job);
  void take_room(const JobRef& job, std::byte* room);
  bool begin_check(const JobRef& job);
  void check(Job& job);
  void mark(const JobRef& job);
  void look_at_copies();
  void copied(const JobRef& job);
  void end(const JobRef& job);
  void note_fault(Job& job, const std::string& what);
  void note_fault(const std::string& what);  // with the lock
  void post(const JobRef& job);

  const DeviceSettings settings_;
  const std::shared_ptr<Registrations> registrations_;
  const Submit submit_;
  std::atomic<std::uint64_t> loads_straight_{0};
  std::atomic<bool> has_driver_{false};       // driver_ is written before, and stays
  std::atomic<unsigned long long> loads_{0};  // libraries of the process, when it was looked for

  mutable std::mutex mutex_;  // Guards: all to `is_stopping_`. Never held while copying.
  std::condition_variable news_;
  cuda::DriverRef driver_;
  std::map<int, DeviceRef> devices_;
  std::deque<JobRef> inbox_;
  BounceCounts counts_;
  std::string fault_;
  std::int64_t fault_ms_ = 0;  // when it was noted
  bool is_hurried_ = false;
  bool is_stopping_ = false;
  std::thread thread_;  // made for the first request

  // Of the thread alone.
  BouncePool pool_;
  std::deque<JobRef> waiting_;  // for room, in turn
  std::vector<JobRef> copying_;
};

}  // namespace gd2fs
