// Clerk: the one thread that gives records their places in the log, and sends what callers want
// on its way. So callers only queue, and are never called back from within their own calls.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "grain_buffer.h"
#include "log.h"

namespace gd2fs::disk {

struct WaitingWrite {
  DiskPiece piece;
  Disk::ConstRuns runs;
  std::shared_ptr<const void> keep;
  Disk::Written done;
  std::uint64_t bytes = 0;  // of the record
  std::uint64_t number = 0;
};

struct WaitingFlush {
  Disk::Done done;
  std::uint64_t number = 0;  // it waits for all calls before
};

class Clerk {
 public:
  explicit Clerk(Log& log) : log_(log) {}
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  /// Once the log is closing: what is on its way ends first.
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  // Under the lock of the log; the caller wakes the clerk.
  std::deque<WaitingWrite> writes;
  std::uint64_t queued_bytes = 0;
  std::deque<WaitingFlush> flushes;
  std::deque<std::function<void()>> answers;  // to be given from a thread of the disk

 private:
  using Work = std::vector<std::function<void()>>;
  struct RecordOnWay {
    WaitingWrite write;
    GrainBuffer header;
    Segment* segment;
    std::uint64_t offset;
    std::uint64_t serial;
  };
  struct StrikeOnWay {
    WaitingStrike strike;
    struct At {
      Segment* segment;
      std::uint64_t id, offset;
    };
    std::vector<At> at;
    std::size_t left;
    bool has_failed = false;
  };
  struct SyncRound {
    std::vector<Disk::Done> dones;
    std::vector<Segment*> segments;
    std::size_t left;
    bool has_failed = false;
  };

  void loop();
  bool is_idle() const;
  void wait(std::unique_lock<std::mutex>& lock);

  // Under the lock: what there is to do now.
  void take_writes(Work& work);
  void take_back_first(Status status, Work& work);
  Segment* segment_for(std::uint64_t bytes, bool& is_hopeless);
  void take_strikes(Work& work);
  void place_strike(WaitingStrike strike, Work& work);
  void take_flushes(Work& work);

  // Without it.
  void launch(std::shared_ptr<RecordOnWay> way);
  void launch(std::shared_ptr<StrikeOnWay> way);
  void launch(std::shared_ptr<SyncRound> round);
  void written(RecordOnWay& way, int error);
  LogCopyRef arrive(RecordOnWay& way, int error);
  void struck(StrikeOnWay& way, const StrikeOnWay::At& at, int error);
  void synced(SyncRound& round, Segment& segment, int error);
  void passed_on();

  Log& log_;
  std::size_t strikes_on_way_ = 0;
  bool is_syncing_ = false;
  std::thread thread_;
};

std::uint32_t used_now_s() noexcept;

}  // namespace gd2fs::disk
