// Mutation: one change of a record on its way through its home: admitted, decided, sent to all
// backups, and then made visible and answered, or not.
#pragma once

#include <cstdint>
#include <vector>

#include "file_record.h"
#include "member.h"
#include "replication.h"

namespace gd2fs {

class Mutation {
 public:
  /// What the backups have said so far.
  enum class End : std::uint8_t {
    none,       // not all have answered
    accepted,   // all have it
    untouched,  // none has it, for sure
    unknown,    // some may have it, but not all
  };

  Mutation(std::uint64_t ticket, const RecordChange& asked, std::int64_t deadline_ms)
      : ticket_(ticket), deadline_ms_(deadline_ms), asked_(asked) {}

  std::uint64_t ticket() const noexcept { return ticket_; }
  std::int64_t deadline_ms() const noexcept { return deadline_ms_; }
  const RecordChange& asked() const noexcept { return asked_; }

  /// It is decided, and goes to the backups.
  void begin(const Decision& decision, const RecordVersion& base, const RecordVersion& version,
             std::vector<Member> backups);
  bool has_begun() const noexcept { return has_begun_; }
  const RecordChange& change() const noexcept { return change_; }
  const RecordVersion& base() const noexcept { return base_; }
  const RecordVersion& version() const noexcept { return version_; }
  const std::vector<Member>& backups() const noexcept { return backups_; }

  void accepted() { ++accepted_; }
  void refused() { ++refused_; }
  /// It was never sent there.
  void unsent() { ++unsent_; }
  End end() const;

 private:
  const std::uint64_t ticket_;
  const std::int64_t deadline_ms_;
  const RecordChange asked_;
  bool has_begun_ = false;
  RecordChange change_;
  RecordVersion base_;
  RecordVersion version_;
  std::vector<Member> backups_;
  std::size_t accepted_ = 0, refused_ = 0, unsent_ = 0;
};

}  // namespace gd2fs
