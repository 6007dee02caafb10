// LogDisk: the disk as a log. It takes calls, and owns the threads that carry them out.
#pragma once

#include <memory>
#include <vector>

#include "clerk.h"
#include "keeper.h"
#include "log.h"

namespace gd2fs::disk {

class LogDisk final : public Disk {
 public:
  /// With the places as they were found; starts its threads.
  explicit LogDisk(std::unique_ptr<Log> log);
  ~LogDisk() override;

  void write(DiskPiece piece, ConstRuns runs, std::shared_ptr<const void> keep,
             Written done) override;
  void read(const DiskCopyRef& copy, std::uint64_t offset, Runs runs, std::shared_ptr<void> keep,
            Done done) override;
  using Disk::strike;
  void strike(const DiskCopyRef& copy, Done done) override;
  void flush(Done done) override;
  void used(const DiskCopyRef& copy) noexcept override;
  void set_owner(const DiskCopyRef& copy, std::weak_ptr<void> owner) override;
  void set_lost(Lost lost) override;
  void set_write_rate(std::uint64_t bytes_per_s) override;
  DiskCounts counts() const override;

 private:
  Status refuse(const WaitingWrite& write) const;
  void answer(std::function<void()> answer);
  void read_done(Segment& segment, std::uint64_t bytes, int error);
  void close_places();

  std::unique_ptr<Log> log_;
  Clerk clerk_;
  std::vector<std::unique_ptr<Keeper>> keepers_;
};

/// Takes the folders and reads them. See Disk::open.
Result<std::unique_ptr<Disk>> open_log_disk(const DiskOptions& options, const Disk::Visit& visit,
                                            std::unique_ptr<DiskIo> io);

}  // namespace gd2fs::disk
