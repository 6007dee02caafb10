// io_uring by plain system calls: one thread owns the ring, puts in what waits and calls back what
// has come. Nobody else ever touches it.
#include <linux/io_uring.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "../assertion.h"
#include "io.h"
#include "waiting_line.h"

namespace gd2fs::disk {
namespace {

class Mapping {
 public:
  Mapping(int file, std::size_t bytes, off_t what)
      : bytes_(bytes),
        at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, what)) {
  }
  ~Mapping() {
    if (is_good()) ::munmap(at_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool is_good() const noexcept { return at_ != MAP_FAILED; }
  /// Invariant: the kernel has laid out the mapping as io_uring_params says.
  template <class T>
  T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(static_cast<std::byte*>(at_) + offset);
  }

 private:
  std::size_t bytes_;
  void* at_;
};

/// The two queues. Used by one thread.
class Ring {
 public:
  Ring() = default;
  ~Ring() {
    if (file_ >= 0) ::close(file_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// 0 or an errno.
  int open(unsigned entries);
  void push(const io_uring_sqe& entry);
  bool has_pushed() const noexcept { return pushed_ > 0; }
  /// Submits what was pushed, and waits for so many completions. 0 or an errno.
  int enter(unsigned wait_for);
  bool pop(io_uring_cqe& out);

 private:
  int file_ = -1;
  std::optional<Mapping> submissions_, completions_, entries_;
  unsigned pushed_ = 0;
  unsigned submission_mask_ = 0, completion_mask_ = 0;
  std::uint32_t *submission_tail_ = nullptr, *submission_index_ = nullptr;
  std::uint32_t *completion_head_ = nullptr, *completion_tail_ = nullptr;
  io_uring_sqe* entry_ = nullptr;
  io_uring_cqe* completion_ = nullptr;
};

int Ring::open(unsigned entries) {
  io_uring_params params{};
  const long got = ::syscall(SYS_io_uring_setup, entries, &params);
  if (got < 0) return errno;
  file_ = static_cast<int>(got);
  submissions_.emplace(file_, params.sq_off.array + params.sq_entries * sizeof(std::uint32_t),
                       IORING_OFF_SQ_RING);
  completions_.emplace(file_, params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe),
                       static_cast<off_t>(IORING_OFF_CQ_RING));
  entries_.emplace(file_, params.sq_entries * sizeof(io_uring_sqe),
                   static_cast<off_t>(IORING_OFF_SQES));
  if (!submissions_->is_good() || !completions_->is_good() || !entries_->is_good()) return ENOMEM;
  submission_tail_ = submissions_->at<std::uint32_t>(params.sq_off.tail);
  submission_index_ = submissions_->at<std::uint32_t>(params.sq_off.array);
  submission_mask_ = *submissions_->at<std::uint32_t>(params.sq_off.ring_mask);
  completion_head_ = completions_->at<std::uint32_t>(params.cq_off.head);
  completion_tail_ = completions_->at<std::uint32_t>(params.cq_off.tail);
  completion_mask_ = *completions_->at<std::uint32_t>(params.cq_off.ring_mask);
  entry_ = entries_->at<io_uring_sqe>(0);
  completion_ = completions_->at<io_uring_cqe>(params.cq_off.cqes);
  return 0;
}

void Ring::push(const io_uring_sqe& entry) {
  // Invariant: only this thread moves the tail, and there are more entries than can be in flight.
  const std::uint32_t tail = *submission_tail_;
  entry_[tail & submission_mask_] = entry;
  submission_index_[tail & submission_mask_] = tail & submission_mask_;
  std::atomic_ref(*submission_tail_).store(tail + 1, std::memory_order_release);
  ++pushed_;
}

int Ring::enter(unsigned wait_for) {
  const unsigned flags = wait_for > 0 ? IORING_ENTER_GETEVENTS : 0;
  const long got = ::syscall(SYS_io_uring_enter, file_, pushed_, wait_for, flags, nullptr, 0);
  if (got < 0) return errno;
  pushed_ -= static_cast<unsigned>(got);
  return 0;
}

bool Ring::pop(io_uring_cqe& out) {
  // Invariant: only this thread moves the head; the kernel has written what lies before the tail.
  const std::uint32_t head = *completion_head_;
  if (head == std::atomic_ref(*completion_tail_).load(std::memory_order_acquire)) return false;
  out = completion_[head & completion_mask_];
  std::atomic_ref(*completion_head_).store(head + 1, std::memory_order_release);
  return true;
}

class UringIo final : public DiskIo {
 public:
  explicit UringIo(std::size_t depth) : requests_(depth) {
    for (std::size_t i = 0; i < depth; ++i) free_.push_back(i);
  }
  ~UringIo() override {
    if (thread_.joinable()) {
      wake(true);
      thread_.join();
    }
    if (bell_ >= 0) ::close(bell_);
  }
  /// 0 or an errno.
  int start() {
    bell_ = ::eventfd(0, EFD_CLOEXEC);
    if (bell_ < 0) return errno;
    if (const int error = ring_.open(std::bit_ceil(static_cast<unsigned>(requests_.size()) + 1)))
      return error;
    thread_ = std::thread([this] { loop(); });
    return 0;
  }
  bool is_uring() const noexcept override { return true; }

  void submit(IoRequest request) override {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      is_first = line_.is_empty();
      line_.push(std::move(request));
    }
    if (is_first) wake(false);  // it takes all that is there when it comes
  }

 private:
  static constexpr std::uint64_t BELL = ~std::uint64_t{0};

  void wake(bool is_end) {
    if (is_end) is_ending_.store(true);
    const std::uint64_t one = 1;
    const auto written = ::write(bell_, &one, sizeof one);
    GD2FS_ASSERT(written == sizeof one);  // it takes 2^64 - 2 of them
  }

  void loop() {
    listen();
    for (;;) {
      fill();
      if (is_ending_.load() && free_.size() == requests_.size()) return;
      enter(1);
      io_uring_cqe each;
      while (ring_.pop(each)) take(each);
    }
  }

  void enter(unsigned wait_for) {
    const int error = ring_.enter(wait_for);
    GD2FS_ASSERT(error == 0 || error == EINTR || error == EAGAIN || error == EBUSY);
  }

  /// A read of the bell is always on its way.
  void listen() {
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_READV;
    entry.fd = bell_;
    entry.addr = reinterpret_cast<std::uint64_t>(&bell_run_);
    entry.len = 1;
    entry.user_data = BELL;
    ring_.push(entry);
  }

  void fill() {
    while (!free_.empty()) {
      const std::size_t slot = free_.back();
      {
        const std::lock_guard lock(mutex_);
        if (line_.is_empty()) return;
        requests_[slot] = line_.pop();
      }
      free_.pop_back();
      ring_.push(entry_for(slot));
    }
  }

  io_uring_sqe entry_for(std::size_t slot) const {
    const IoRequest& request = requests_[slot];
    io_uring_sqe entry{};
    entry.fd = request.file;
    entry.user_data = slot;
    if (request.kind == IoKind::sync) {
      entry.opcode = IORING_OP_FSYNC;
      entry.fsync_flags = IORING_FSYNC_DATASYNC;
      return entry;
    }
    entry.opcode = request.kind == IoKind::read ? IORING_OP_READV : IORING_OP_WRITEV;
    entry.off = request.offset;
    entry.addr = reinterpret_cast<std::uint64_t>(request.runs.data());  // until it is called back
    entry.len = static_cast<std::uint32_t>(request.runs.size());
    return entry;
  }

  void take(const io_uring_cqe& each) {
    if (each.user_data == BELL) {
      if (!is_ending_.load()) listen();
      return;
    }
    IoRequest request = std::move(requests_[each.user_data]);
    requests_[each.user_data] = {};
    free_.push_back(each.user_data);
    fill();
    if (ring_.has_pushed()) enter(0);  // the device goes on while this one is called back
    request.done(each.res);
  }

  Ring ring_;
  int bell_ = -1;
  std::uint64_t bell_count_ = 0;
  iovec bell_run_{&bell_count_, sizeof bell_count_};
  std::vector<IoRequest> requests_;  // on their way, by slot
  std::vector<std::size_t> free_;
  std::atomic<bool> is_ending_{false};
  std::mutex mutex_;  // Guards: the line. Never held across a system call.
  WaitingLine line_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<DiskIo> make_uring_io(std::size_t depth, std::string& why_not) {
  auto io = std::make_unique<UringIo>(depth);
  const int error = io->start();
  if (error == 0) return io;
  why_not = std::strerror(error);
  return nullptr;
}

}  // namespace gd2fs::disk
