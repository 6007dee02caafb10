#include "record_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "assertion.h"

namespace gd2fs {
namespace {

constexpr std::uint64_t COPY_BYTES_MIN = 4 * MiB;  // shorter logs are left as they are
constexpr std::int64_t AGAIN_MS = 10'000;          // between two tries with a disk that failed

bool write_all(int fd, const wire::Bytes& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

Error fault_at(const std::string& path, int fault) {
  return {"cannot write the log of records " + path + ": " + std::strerror(fault),
          "make room or change rights there, or name another `--state-dir`"};
}

/// A new name in a folder is kept by the folder's own flush.
void flush_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const tcp::Descriptor fd(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) fsync(fd.get());
}

}  // namespace

void RecordLog::note_listening() { is_listening_.store(log_.fd || copy_.fd); }

void RecordLog::add(std::string_view path, std::int64_t expires_ms, const Replication& attempt) {
  const std::lock_guard lock(mutex_);
  if (log_.fd) encode_log_change(log_.pending, path, expires_ms, attempt);
  if (copy_.fd) encode_log_change(copy_.pending, path, expires_ms, attempt);
  ++added_count_;
}

void RecordLog::add_forgotten(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (log_.fd) encode_log_forgotten(log_.pending, path);
  if (copy_.fd) encode_log_forgotten(copy_.pending, path);
  ++added_count_;
}

void RecordLog::add_copy(std::string_view path, std::int64_t expires_ms,
                         const Replication& attempt) {
  const std::lock_guard lock(mutex_);
  if (!copy_.fd) return;
  encode_log_change(copy_.pending, path, expires_ms, attempt);
  ++added_count_;
}

bool RecordLog::commit() {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = added_count_;
  while (written_count_ < wanted) {
    if (is_writing_) {
      written_.wait(lock);
    } else {
      write_some(lock);
    }
  }
  return !is_stale_;
}

/// All that has been added, for everyone who waits. False: a file did not take it.
bool RecordLog::write_some(std::unique_lock<std::mutex>& lock) {
  is_writing_ = true;
  const std::uint64_t until = added_count_;
  wire::Bytes to_log, to_copy;
  to_log.swap(log_.pending);
  to_copy.swap(copy_.pending);
  // Nobody replaces a descriptor while this one writes.
  const int log = log_.fd.get(), copy = copy_.fd.get();
  lock.unlock();
  const bool is_logged = log < 0 || write_all(log, to_log);
  const bool is_copied = copy < 0 || write_all(copy, to_copy);
  lock.lock();
  log_.bytes += to_log.size();
  copy_.bytes += to_copy.size();
  if (!is_logged) turn_off();
  if (!is_copied) {
    ++faults_;
    copy_ = {};
    ::unlink(copy_path().c_str());
  }
  note_listening();
  written_count_ = until;
  is_writing_ = false;
  written_.notify_all();
  return is_logged && is_copied;
}

/// It lacks a change now, so it must say nothing. One of the two works unless the whole file system
/// refuses to be written.
void RecordLog::turn_off() {
  ++faults_;
  const bool is_empty = ftruncate(log_.fd.get(), 0) == 0;
  is_stale_ = !is_empty && ::unlink(path_.c_str()) != 0;
  log_ = {};
}

bool RecordLog::is_copy_due(std::int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  if (copy_.fd) return false;
  if (!log_.fd) return now_ms - tried_ms_ >= AGAIN_MS;
  return log_.bytes > std::max(COPY_BYTES_MIN, 2 * copied_bytes_) && now_ms - tried_ms_ >= AGAIN_MS;
}

Result<bool> RecordLog::begin_copy(std::int64_t now_ms) {
  tcp::Descriptor fd(
      ::open(copy_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const int fault = errno;
  std::unique_lock lock(mutex_);
  tried_ms_ = now_ms;
  if (!fd) {
    ++faults_;
    return fault_at(copy_path(), fault);
  }
  written_.wait(lock, [this] { return !is_writing_; });
  GD2FS_ASSERT(!copy_.fd);
  copy_ = {};
  copy_.fd = std::move(fd);
  encode_log_head(copy_.pending, owner_);
  ++added_count_;
  note_listening();
  return true;
}

Result<bool> RecordLog::end_copy() {
  commit();
  int fd = -1;
  {
    const std::lock_guard lock(mutex_);
    if (copy_.fd) fd = copy_.fd.get();
  }
  // Most of it reaches the disk while others go on. Only this thread ends a copy.
  if (fd >= 0) fdatasync(fd);
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return !is_writing_; });
  if (copy_.fd && !write_some(lock) && !copy_.fd) return fault_at(copy_path(), ENOSPC);
  if (!copy_.fd) return fault_at(copy_path(), ENOSPC);
  is_writing_ = true;  // nobody writes to the old one any more
  lock.unlock();
  const bool is_renamed = ::rename(copy_path().c_str(), path_.c_str()) == 0;
  const int fault = errno;
  if (is_renamed) flush_folder_of(path_);
  lock.lock();
  is_writing_ = false;
  if (is_renamed) {
    copied_bytes_ = copy_.bytes;
    // What was added meanwhile is pending in both: the new one has it still to come.
    log_ = std::move(copy_);
    is_stale_ = false;
  } else {
    ++faults_;
  }
  copy_ = {};
  note_listening();
  written_.notify_all();
  if (!is_renamed) return fault_at(path_, fault);
  return true;
}

void RecordLog::close() {
  commit();
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return !is_writing_; });
  if (!log_.fd) return;
  encode_log_closed(log_.pending);
  const bool is_whole = write_all(log_.fd.get(), log_.pending) && fdatasync(log_.fd.get()) == 0;
  if (!is_whole) turn_off();
  log_ = {};
  note_listening();
}

bool RecordLog::is_on() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(log_.fd);
}

std::uint64_t RecordLog::bytes() const {
  const std::lock_guard lock(mutex_);
  return log_.bytes;
}

}  // namespace gd2fs
